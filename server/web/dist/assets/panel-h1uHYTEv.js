import{A as e,F as t,I as n,M as r,N as i,P as a,T as o,a as s,c,d as l,f as u,g as d,h as f,j as p,k as m,l as h,m as g,o as _,p as ee,s as v,u as y,x as te}from"./index-BtF6a7_z.js";var ne=`<div class="controls">
  <div class="field"><label for="layer">Layer</label><select id="layer"></select></div>
  <div class="field"><label for="head">Head</label><select id="head"></select></div>
  <button type="button" id="watch" class="primary">Paint another image</button>
</div>
<p id="how-status" class="hint" role="status"></p>
<div class="walk">
  <div class="walk-image">
    <canvas id="watched" role="img" aria-label="Image so far" width="28" height="28"></canvas>
    <div class="walk-steps">
    <p id="how-place" class="figures"></p>
    <div id="stepper" class="joined" role="group" aria-label="Step" inert>
      <button type="button" id="how-first" aria-label="First step">⇤</button>
      <button type="button" id="how-up" aria-label="Previous row">↑</button>
      <button type="button" id="how-back" aria-label="Previous step">←</button>
      <button type="button" id="how-next" aria-label="Next step">→</button>
      <button type="button" id="how-down" aria-label="Next row">↓</button>
      <button type="button" id="how-last" aria-label="Last step">⇥</button>
      <button type="button" id="how-play" aria-pressed="false">Play</button>
    </div>
    <input id="moment" type="range" min="0" max="0" value="0" aria-label="Step" />
    </div>
    <p id="how-pixel" class="figures" aria-hidden="true"></p>
    <p class="hint">
      Arrow keys move by one step or one row, Home and End to the ends, Page Up and Page Down through the screens; or
      click a pixel. The address links to what is shown.
    </p>
  </div>
  <div id="stages" hidden>
  <fieldset id="screens" class="choice chips">
    <legend class="visually-hidden">Screen</legend>
    <div>
      <label><input type="radio" name="screen" value="1" checked /><span>1 Window</span></label>
      <label><input type="radio" name="screen" value="2" /><span>2 Query, key, value</span></label>
      <label><input type="radio" name="screen" value="3" /><span>3 Sum</span></label>
      <label><input type="radio" name="screen" value="4" /><span>4 Reading</span></label>
      <label><input type="radio" name="screen" value="5" /><span>5 Draw</span></label>
      <label><input type="radio" name="screen" value="6" /><span>Beside softmax</span></label>
    </div>
  </fieldset>
  <ol class="stages">
    <li>
      <h2>Read what is painted</h2>
      <p id="say-window"></p>
      <canvas id="heat-window" role="img" aria-label="Pixels that are read" hidden></canvas>
    </li>
    <li>
      <h2>Query, key and value</h2>
      <p>
        Three matrices turn what the layer was given into a query <i>q</i>, a key <i>k</i> and a value <i>v</i>.
        <i>φ</i> makes query and key positive, so that no weight is negative.
      </p>
      <div id="projected" class="strips"></div>
      <p class="hint" id="scale-projected"></p>
      <details class="formulas">
        <summary>Formula and code</summary>
        <div class="equation" data-equation="7"></div>
      </details>
    </li>
    <li>
      <h2>Add to the memory</h2>
      <p id="say-update"></p>
      <div id="sum" class="sum">
        <figure><figcaption>s before</figcaption><canvas id="heat-before" role="img"></canvas></figure>
        <span aria-hidden="true">+</span>
        <figure><figcaption>φ(k) vᵀ</figcaption><canvas id="heat-outer" role="img"></canvas></figure>
        <span aria-hidden="true">=</span>
        <figure><figcaption>s after</figcaption><canvas id="heat-s" role="img"></canvas></figure>
      </div>
      <div class="controls cell">
        <div class="field"><label for="cell-row">Row of s</label><input id="cell-row" type="number" min="1" value="1" /></div>
        <div class="field">
          <label for="cell-column">Column of s</label><input id="cell-column" type="number" min="1" value="1" />
        </div>
        <output id="cell" class="figures" for="cell-row cell-column"></output>
      </div>
      <div id="sums" class="strips"></div>
      <p class="hint" id="scale-s"></p>
      <details class="formulas">
        <summary>Formula and code</summary>
        <div class="equation" data-equation="16"></div>
        <div class="equation" data-equation="18"></div>
      </details>
    </li>
    <li>
      <h2>Read the memory</h2>
      <p id="say-read"></p>
      <div id="read" class="strips"></div>
      <p id="read-cell" class="figures"></p>
      <h3>Which pixels it reads most</h3>
      <canvas id="heat-weights" role="img" aria-labelledby="say-weights" hidden></canvas>
      <p id="say-weights"></p>
      <details class="formulas">
        <summary>Formula and code</summary>
        <div class="equation" data-equation="20"></div>
      </details>
    </li>
    <li>
      <h2>Draw the byte</h2>
      <p id="say-draw"></p>
      <div id="bars"></div>
      <details class="formulas">
        <summary>Formula and code</summary>
        <div class="equation" data-equation="draw"></div>
      </details>
    </li>
    <li>
      <h2>What softmax attention would keep</h2>
      <p id="say-cost"></p>
      <div class="charts">
        <figure><figcaption>Memory of one image</figcaption><svg id="chart-memory" role="img"></svg></figure>
        <figure><figcaption>Time of a whole step, one image</figcaption><svg id="chart-time" role="img"></svg></figure>
      </div>
      <p class="hint key-of-chart"><i class="softmax"></i> softmax with a cache <i class="linear"></i> (s, z)</p>
      <p class="hint" id="say-measured"></p>
      <h2>A race</h2>
      <p id="say-race"></p>
      <div class="race">
        <figure>
          <figcaption>(s, z)</figcaption>
          <svg viewBox="0 0 128 128" aria-hidden="true"><path id="race-linear" class="linear" /></svg>
        </figure>
        <figure>
          <figcaption>softmax with a cache</figcaption>
          <svg viewBox="0 0 128 128" aria-hidden="true"><path id="race-softmax" class="softmax" /></svg>
        </figure>
      </div>
      <div class="controls race-controls">
        <button type="button" id="race-go">Start the race</button>
        <span id="race-place" class="figures"></span>
      </div>
      <h2>Why one sum is enough</h2>
      <p class="hint">
        Softmax attention compares every query with every key. With a feature map φ in its place, the sums over keys can be
        formed first, once for all queries; causal attention keeps them as running sums. Equations of “Transformers are RNNs”
        (Katharopoulos, Vyas, Pappas and Fleuret, ICML 2020), beside the lines of this server’s source that compute
        them.
      </p>
      <details class="formulas">
        <summary>Formulas and code</summary>
        <div class="equation" data-equation="4"></div>
        <div class="equation" data-equation="5"></div>
        <div class="equation" data-equation="6"></div>
      </details>
    </li>
  </ol>
  </div>
</div>
`,b=`"""Reference of linear attention, causal (Algorithm 1 of the paper) and not (eq. 4): literal loops,
never optimised.

Autograd through it is the reference of gradients.
"""

import torch
from torch import Tensor

EPSILON = 1e-6  # added to the normaliser, as the authors' published code does


def causal_linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, N, C]
    v: Tensor,  # [B, H, N, M]
    s: Tensor | None = None,  # [B, H, C, M]
    z: Tensor | None = None,  # [B, H, C]
    weight: Tensor | None = None,  # [B, N]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute y_i = phi(q_i)^T s_i / (phi(q_i)^T z_i + 1e-6) for every i, s and z being the running
    sums of phi(k_j) v_j^T and phi(k_j) over j <= i (eq. 10-12), from the given state or from zero.

    weight: how many times phi(k_j) counts for the queries after j and in the state; for its own
    query it counts once. Without weights, it is 1.

    Return y [B, H, N, M] and the state after the last position, s [B, H, C, M] and z [B, H, C]. The
    arguments are not changed.
    """
    batch, heads, length, key_width = phi_q.shape
    value_width = v.shape[-1]
    if s is None:
        s = phi_q.new_zeros(batch, heads, key_width, value_width)
    if z is None:
        z = phi_q.new_zeros(batch, heads, key_width)
    outputs = []
    for i in range(length):
        query = phi_q[:, :, i]
        key = phi_k[:, :, i]
        value = v[:, :, i].unsqueeze(-2)
        s = s + key.unsqueeze(-1) * value  # eq. 10
        z = z + key  # eq. 11
        numerator = (query.unsqueeze(-1) * s).sum(dim=2)
        normaliser = (query * z).sum(dim=2) + EPSILON
        outputs.append(numerator / normaliser.unsqueeze(-1))  # eq. 12
        if weight is not None:
            # This query has seen the key once; later ones see it \`weight\` times.
            rest = key * (weight[:, i, None, None] - 1)
            s = s + rest.unsqueeze(-1) * value
            z = z + rest
    return torch.stack(outputs, dim=2), s, z


def linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, S, C]
    v: Tensor,  # [B, H, S, M]
) -> Tensor:
    """Return y [B, H, N, M] (eq. 4): y_i is the sum over all j of phi(q_i)^T phi(k_j) v_j, divided
    by the sum of phi(q_i)^T phi(k_j), plus 1e-6."""
    batch, heads, length, _ = phi_q.shape
    keys, value_width = v.shape[2:]
    y = v.new_zeros(batch, heads, length, value_width)
    for b in range(batch):
        for i in range(length):
            numerator = torch.zeros_like(y[b, :, i])
            normaliser = torch.zeros_like(y[b, :, i, 0])
            query = phi_q[b, :, i]
            for j in range(keys):
                similarity = (query * phi_k[b, :, j]).sum(dim=-1)
                numerator = numerator + similarity.unsqueeze(-1) * v[b, :, j]
                normaliser = normaliser + similarity
            y[b, :, i] = numerator / (normaliser + EPSILON).unsqueeze(-1)
    return y
`,re=`"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys.

The brackets of eq. 6: phi(K)^T V is computed first, for all queries at once, so time and memory are
O(N) and no [N, N] tensor exists. Plain torch with its autograd is all it needs, on any device: two
products. The reference is \`reference.linear_attention\`.
"""

import torch
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON


def linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, S, C]
    v: Tensor,  # [B, H, S, M]
) -> Tensor:
    """Return y [B, H, N, M], its sums in float32 or wider, in the values' dtype; ValueError where
    shapes do not fit."""
    batch, heads, _, key_width = phi_q.shape
    keys = phi_k.shape[2]
    if phi_k.shape != (batch, heads, keys, key_width) or v.shape[:3] != (batch, heads, keys):
        shapes = f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)}"
        raise ValueError(f"{shapes} do not fit")
    sum_dtype = torch.promote_types(phi_q.dtype, torch.float32)
    s = phi_k.mT @ v  # [B, H, C, M]
    z = phi_k.sum(dim=2, dtype=sum_dtype)  # [B, H, C]
    numerator = phi_q @ s.to(phi_q.dtype)
    normaliser = phi_q.to(sum_dtype) @ z.unsqueeze(-1)
    y = numerator.to(sum_dtype) / (normaliser + EPSILON)
    return y.to(v.dtype)
`,ie=`"""A byte's distribution as 256 probabilities, for images of drawn strokes: mostly black, white, and
greys that follow no smooth curve. Parameters are [..., 256] logits; \`log_prob\` and \`sample\` read
the same softmax."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

VALUES = 256


def guided(with_class: Tensor, without: Tensor, guidance: Tensor) -> Tensor:
    """Return the logits [..., 256] that a guided byte is drawn from: u + w (c - u), c being those
    with the class, u those without and w the guidance [...].

    Source: classifier-free guidance, Ho and Salimans 2022, eq. 6, there of scores, here of logits.
    """
    return without + guidance.unsqueeze(-1) * (with_class - without)


def range_bits(parameters: np.ndarray, values: np.ndarray, tolerances: np.ndarray) -> np.ndarray:
    """Return the bits [B, n] float64 of bytes that are known to within \`tolerances\` [B]: of all
    that differ no more from \`values\` [B, n] uint8, under \`parameters\` [B, n, 256]. numpy's: no
    image's bits depend on the others."""
    all_values = np.arange(VALUES, dtype=np.int16)
    away = np.abs(all_values - values[..., None].astype(np.int16))
    excluded = away > tolerances[:, None, None].astype(np.int16)
    # of values that are ruled out; of numbers that are not finite
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = parameters.astype(np.float64)
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        total = weights.sum(axis=-1)
        weights[excluded] = 0.0
        within = weights.sum(axis=-1)
        return np.asarray(np.log2(total) - np.log2(within))


def pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return which of the values with \`weights\` [..., n] the uniform [..., 1] picks, int64 [...,
    1]."""
    cumulative = weights.cumsum(dim=-1)
    target = uniform * cumulative[..., -1:]
    picked = (target >= cumulative).sum(dim=-1, keepdim=True)
    return picked.clamp(max=weights.shape[-1] - 1)  # the target may round up to the sum of all


@dataclass(frozen=True)
class Categorical:
    """The distribution of one byte a step."""

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return VALUES

    def log_prob(self, parameters: Tensor, values: Tensor) -> Tensor:
        """Return the natural log-probability [..., 1] of the bytes \`values\` [..., 1] under
        \`parameters\` [..., 256]."""
        logs = F.log_softmax(parameters.float(), dim=-1)
        return logs.gather(-1, values.long())

    def sample(
        self,
        parameters: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes [..., 1] uint8, one for each row of \`parameters\` [...,
        256]; where \`known\`, those of \`values\`.

        uniforms [..., 1, 2] in (0, 1): the first picks the value, the second is not used.
        temperature [...] > 0 divides the logits.
        """
        logits = parameters.float() / temperature.unsqueeze(-1)
        picked = pick(torch.softmax(logits, dim=-1), uniforms[..., 0, :1])
        return torch.where(known, values, picked.to(torch.uint8))

    def sample_guided(
        self,
        with_class: Tensor,
        without: Tensor,
        guidance: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes as \`sample\` does, of images guided by \`guidance\` [...], from logits [...,
        256] with the class and without."""
        return self.sample(
            guided(with_class, without, guidance), uniforms, temperature, values, known
        )
`,ae=`"""Feature maps phi, which turn keys and queries into positive features (section 3.2.1).

A map is a function on a tensor [..., C] that keeps its shape and is positive everywhere, so that
the normaliser phi(q)^T z of eq. 20 is never zero. FEATURE_MAPS lists all of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # configurations are checked by processes that do not import torch
    import torch

FeatureMap = Callable[["torch.Tensor"], "torch.Tensor"]


def elu_plus_one(x: "torch.Tensor") -> "torch.Tensor":
    """Return phi(x) = elu(x) + 1 (eq. 7), elementwise on [..., C], in the dtype of x.

    Below zero it is e^x. Computed as (e^x - 1) + 1 it would lose the digits of small features, on
    which a query with few keys before it depends: an error of 6e-8 in float32, 4e-3 in bfloat16.
    """
    from torch.nn.functional import relu

    return relu(x) + x.clamp(max=0).exp().to(x.dtype)  # autocast computes exp in float32 on a GPU


FEATURE_MAPS: dict[str, FeatureMap] = {"elu": elu_plus_one}


def feature_map(name: str) -> FeatureMap:
    """Return the map of that name; ValueError with the known names if there is none."""
    try:
        return FEATURE_MAPS[name]
    except KeyError:
        raise ValueError(
            f"unknown feature map {name!r}; known: {', '.join(sorted(FEATURE_MAPS))}"
        ) from None
`,oe=`"""Distribution of the C bytes of a step: one mixture of K discretised logistics, whose channels are
conditioned on each other (Salimans et al., "PixelCNN++", 2017, section 2.2). With one channel it is
the paper's distribution of a byte (section 4.2). Log-probability and sampling share \`_split\` and
\`_mean\`, so that what is sampled is what was trained.

A byte x has the value x / 127.5 - 1; its bin reaches half a step to either side, and the first and
the last bin take the tails. Within a component, the mean of a channel is moved by what the pixel's
earlier channels were, relative to their own means, times coefficients that the network predicts:
green's by a (R - mu_R), blue's by b (R - mu_R) + c (G - mu_G).

Parameters of C channels are [..., K + 2 K C + K C (C - 1) / 2]: K logits; K x C means; K x C raw
scales; K x C (C - 1) / 2 coefficients, for colour (a, b, c).

A guided byte is drawn as a categorical one, from the logarithms of the probabilities of its 256
values in two mixtures, one with the class and one without.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from scanline.kernels.categorical.reference import VALUES, Categorical, guided, pick

LOG_SCALE_FLOOR = -7.0
HALF_BIN = 1 / 255
# Of a guided byte: a probability below it counts as it. Far from all means logarithms differ
# without bound, and mixed they would choose the byte.
MIN_PROBABILITY = 2.0**-40
SCALES = ("exp", "elu")


@dataclass(frozen=True)
class PixelLogistics:
    """The distribution of the \`channels\` bytes of a step, by \`components\` logistics.

    scale: "exp" (floored at e^-7, as the authors' loss) or "elu"
    (elu(x) + 1.0001, as their sampler).
    """

    components: int
    channels: int
    scale: str = "exp"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(
                f"unknown scale parametrisation {self.scale!r}; known: {', '.join(SCALES)}"
            )

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return self.components * (1 + 2 * self.channels + self.coefficients)

    @property
    def coefficients(self) -> int:
        """Number of coefficients of a component."""
        return self.channels * (self.channels - 1) // 2

    def log_prob(self, parameters: Tensor, values: Tensor) -> Tensor:
        """Return the natural log-probability [..., C] of each of a pixel's bytes
        \`values\` [..., C] given its earlier ones, under \`parameters\` [..., width]:
        differences of the log-sums over components."""
        logits, means, scales, coefficients = self._split(parameters)
        # log-weight of each component, times what it gave the earlier bytes
        weights = F.log_softmax(logits, dim=-1)
        earlier = torch.zeros_like(weights[..., 0])  # log-probability of the earlier bytes
        log_probs = []
        seen = values.float() / 127.5 - 1
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            weights = weights + log_bin(values[..., channel, None], mean, scales[..., channel])
            with_this = torch.logsumexp(weights, dim=-1)
            log_probs.append(with_this - earlier)
            earlier = with_this
        return torch.stack(log_probs, dim=-1)

    def sample(
        self,
        parameters: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return the bytes [..., C] uint8 of a pixel for each row of \`parameters\` [..., width];
        where \`known\` [..., C], those of \`values\` [..., C].

        Channel by channel: the first of the byte's uniforms [..., C, 2] picks a component by its
        weight given the earlier bytes, painted or known, and the second inverts its logistic.
        temperature [...] > 0 divides the logits and multiplies the scales.
        """
        logits, means, scales, coefficients = self._split(parameters)
        temperature = temperature.unsqueeze(-1)
        scales = scales * temperature.unsqueeze(-1)
        weights = logits / temperature
        painted: list[Tensor] = []
        seen = torch.zeros_like(means[..., 0, :])
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            scale = scales[..., channel]
            # A component by its weight, and a value from its
            # logistic, inverted at the second uniform.
            picked = pick(torch.softmax(weights, dim=-1), uniforms[..., channel, :1])
            u = uniforms[..., channel, 1:]
            standard = u.log() - (-u).log1p()
            drawn = mean.gather(-1, picked) + scale.gather(-1, picked) * standard
            byte = ((drawn + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
            byte = torch.where(known[..., channel, None], values[..., channel, None], byte)
            painted.append(byte)
            # What each component gives the byte decides the components of the later ones.
            weights = weights + log_bin(byte, mean, scale)
            seen = _with_byte(seen, channel, byte)
        return torch.cat(painted, dim=-1)

    def sample_guided(
        self,
        with_class: Tensor,
        without: Tensor,
        guidance: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes as \`sample\` does, of images guided by \`guidance\` [...], from parameters
        [..., width] with the class and without.

        Channel by channel: the logarithms of the probabilities of all 256 values given the earlier
        bytes, in each of both mixtures, are mixed as logits, and divided by the temperature. The
        first uniform picks the value; the second is not used. What each component gives the byte
        then changes the weights of both mixtures.
        """
        logits, means, scales, coefficients = self._split(torch.stack((with_class, without)))
        weights = F.log_softmax(logits, dim=-1)
        all_values = torch.arange(VALUES, device=logits.device).unsqueeze(-1)
        least = math.log(MIN_PROBABILITY)
        painted: list[Tensor] = []
        seen = torch.zeros_like(means[0, ..., 0, :])
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            scale = scales[..., channel]
            bins = log_bin(all_values, mean.unsqueeze(-2), scale.unsqueeze(-2))  # [2, ..., 256, K]
            logs = torch.logsumexp(weights.unsqueeze(-2) + bins, dim=-1)
            logs = logs.clamp(min=least)
            this = slice(channel, channel + 1)
            byte = Categorical().sample(
                guided(logs[0], logs[1], guidance),
                uniforms[..., this, :],
                temperature,
                values[..., this],
                known[..., this],
            )
            painted.append(byte)
            weights = F.log_softmax(weights + log_bin(byte, mean, scale), dim=-1)
            seen = _with_byte(seen, channel, byte)
        return torch.cat(painted, dim=-1)

    def _split(self, parameters: Tensor) -> tuple[Tensor, ...]:
        """Return logits [..., K], means and scales [..., K, C], coefficients [..., K, C (C - 1) /
        2], float32."""
        k = self.components
        c = self.channels
        sizes = (k, k * c, k * c, k * self.coefficients)
        logits, means, raw, coefficients = parameters.float().split(sizes, dim=-1)
        if self.scale == "exp":
            scales = raw.clamp(min=LOG_SCALE_FLOOR).exp()
        else:
            scales = F.elu(raw) + 1.0001
        if self.coefficients:
            coefficients = coefficients.unflatten(-1, (k, self.coefficients))
        return logits, means.unflatten(-1, (k, c)), scales.unflatten(-1, (k, c)), coefficients

    def _mean(self, channel: int, means: Tensor, coefficients: Tensor, seen: Tensor) -> Tensor:
        """Return the means [..., K] of a channel, given the values \`seen\` [..., C] of the earlier
        ones."""
        mean = means[..., channel]
        first = channel * (channel - 1) // 2
        for earlier in range(channel):
            error = seen[..., None, earlier] - means[..., earlier]
            mean = mean + coefficients[..., first + earlier] * error
        return mean


def _with_byte(seen: Tensor, channel: int, byte: Tensor) -> Tensor:
    """Return \`seen\` [..., C] with the value of a channel's byte [..., 1]."""
    value = byte.float() / 127.5 - 1
    return torch.cat((seen[..., :channel], value, seen[..., channel + 1 :]), dim=-1)


def log_bin(values: Tensor, means: Tensor, scales: Tensor) -> Tensor:
    """Return the natural logarithm [..., K] of the probability that each
    logistic gives the bytes \`values\` [..., 1].

    sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), each factor of which has a
    stable logarithm; the outer bins drop the factors that the tails make 1.
    """
    is_black = values == 0
    is_white = values == 255
    centred = values.float() / 127.5 - 1 - means
    inner = F.logsigmoid((centred + HALF_BIN) / scales).masked_fill(is_white, 0.0)
    outer = F.logsigmoid((HALF_BIN - centred) / scales).masked_fill(is_black, 0.0)
    width = torch.log(-torch.expm1(-2 * HALF_BIN / scales))
    width = width.masked_fill(is_black | is_white, 0.0)
    return inner + outer + width
`,se=`"""Reference of the recurrent step: eq. 18-20, image by image and head by head, never optimised."""

import torch
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON


def recurrent_step(
    phi_q: Tensor,  # [B, H, C]
    phi_k: Tensor,  # [B, H, C]
    v: Tensor,  # [B, H, M]
    s: Tensor,  # [B, H, C, M], changed in place
    z: Tensor,  # [B, H, C], changed in place
) -> Tensor:
    """Add phi(k) v^T to s (eq. 18) and phi(k) to z (eq. 19), both IN PLACE, and return
    y = phi(q)^T s / (phi(q)^T z + 1e-6) [B, H, M], the attention's part of eq. 20."""
    batch, heads, _ = v.shape
    y = torch.empty_like(v)
    for b in range(batch):
        for h in range(heads):
            query = phi_q[b, h]
            key = phi_k[b, h]
            s[b, h] += torch.outer(key, v[b, h])  # eq. 18
            z[b, h] += key  # eq. 19
            numerator = query @ s[b, h]
            normaliser = query @ z[b, h]
            y[b, h] = numerator / (normaliser + EPSILON)
    return y
`,x=e=>`<mi>${e}</mi>`,S=e=>`<mo stretchy="false">${e}</mo>`,C=(...e)=>`<mrow>${e.join(``)}</mrow>`,w=(e,t)=>`<msub>${e}${t}</msub>`,T=e=>`<msup>${C(e)}${x(`T`)}</msup>`,ce=(e,t)=>`<mfrac>${C(e)}${C(t)}</mfrac>`,E=e=>`<munder>${S(`∑`)}${x(e)}</munder>`,D=e=>x(`φ`)+S(`(`)+e+S(`)`),O=(e,t=`i`)=>w(x(e),x(t)),le=e=>w(x(e),`<mn>0</mn>`)+S(`=`)+`<mn>0</mn>`,ue=e=>w(x(e),C(x(`i`),S(`−`),`<mn>1</mn>`)),k=e=>O(`x`)+w(x(`W`),x(e)),[A,j,de]=[D(O(`Q`)),D(O(`K`,`j`)),O(`V`,`j`)],fe=`<msubsup>${x(`V`)}${x(`i`)}${S(`′`)}</msubsup>${S(`=`)}`,pe=T(D(k(`Q`))),me={4:{number:`4`,math:[fe+ce(E(`j`)+T(A)+j+de,E(`j`)+T(A)+j)],file:`kernels/attention/reference.py`,code:M(b,`similarity = `,`y[b, :, i] = `)},5:{number:`5`,math:[fe+ce(T(A)+E(`j`)+j+T(de),T(A)+E(`j`)+j)],file:`kernels/attention/reference.py`,code:M(b,`query = phi_q[:, :, i]`,`outputs.append`)},6:{number:`6`,math:[S(`(`)+D(x(`Q`))+T(D(x(`K`)))+S(`)`)+x(`V`),S(`=`)+D(x(`Q`))+S(`(`)+T(D(x(`K`)))+x(`V`)+S(`)`)],file:`kernels/attention/noncausal.py`,code:M(re,`s = phi_k.mT`,`y = numerator.to`)},7:{number:`7`,math:[D(x(`x`))+S(`=`)+x(`elu`)+S(`(`)+x(`x`)+S(`)`)+S(`+`)+`<mn>1</mn>`],file:`kernels/feature_maps.py`,code:M(ae,`return relu(x)`)},16:{number:`16, 17`,math:[le(`s`)+S(`,`)+`<mspace width="1em"/>`+le(`z`)],file:`kernels/attention/reference.py`,code:M(b,`s = phi_q.new_zeros`,`z = phi_q.new_zeros`)},18:{number:`18, 19`,math:[O(`s`)+S(`=`)+ue(`s`)+S(`+`)+D(k(`K`))+T(S(`(`)+k(`V`)+S(`)`)),O(`z`)+S(`=`)+ue(`z`)+S(`+`)+D(k(`K`))],file:`kernels/step/reference.py`,code:M(se,`key = phi_k[b, h]`,`z[b, h] +=`)},20:{number:`20`,math:[O(`y`)+S(`=`)+O(`f`,`l`)+S(`(`)+ce(pe+O(`s`),pe+O(`z`))+S(`+`)+O(`x`)+S(`)`)],file:`kernels/step/reference.py`,code:M(se,`numerator = query`,`y[b, h] = `)}},he={categorical:{number:``,math:[],file:`kernels/categorical/reference.py`,code:M(ie,`cumulative = `,`picked = `)},logistics:{number:``,math:[],file:`kernels/pixel_logistics/reference.py`,code:M(oe,`picked = pick(`,`byte = ((drawn`)}};function M(e,t,n=t){let r=e.split(`
`),i=e=>t=>t.trimStart().startsWith(e),a=r.findIndex(i(t)),o=r.findIndex((e,t)=>t>=a&&i(n)(e));if(a<0||o<0)throw Error(`No lines from “${t}” to “${n}”.`);let s=r.slice(a,o+1),c=Math.min(...s.map(e=>e.length-e.trimStart().length));return s.map(e=>e.slice(c)).join(`
`)}function ge(e){for(let t of document.querySelectorAll(`.equation`)){let n=t.dataset.equation,r=n===`draw`?he[e===`categorical`?`categorical`:`logistics`]:me[n],a=i(`div`,{className:`equations`});a.innerHTML=r.math.map(e=>`<math display="block">${C(e)}</math>`).join(``),r.number&&a.append(i(`span`,{},`(${r.number})`));let o=i(`pre`,{tabIndex:0},i(`code`,{},r.code));o.setAttribute(`role`,`group`),o.setAttribute(`aria-label`,`Lines of ${r.file}`),t.replaceChildren(...r.math.length?[a]:[],i(`div`,{},i(`small`,{},r.file),o))}}var N={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},_e=5,P=N.steps.at(-1),F=Math.sqrt(P);function ve(e){let{steps:t}=N,n=new Float64Array(P+1);for(let r=1,i=1;r<=P;r++){r>t[i]&&i++;let a=(r-t[i-1])/(t[i]-t[i-1]);n[r]=n[r-1]+e[i-1]+a*(e[i]-e[i-1])}return n}var ye={linear:ve(N.linear),softmax:ve(N.softmax)},I=ye.linear[P],be=e=>`${Math.round(e/1e3)} s`,xe=0;function Se(){let e=ye.softmax[P];n(`say-race`,`At these times, an image of ${F} × ${F} pixels takes ${be(I)} with (s, z) and ${be(e)} with softmax and its cache: ${(e/I).toPrecision(2)} times as long. The race is ${Math.round(I/1e3/_e)} times as fast, and ends when the first image is painted.`),Ce(I);let t=matchMedia(`(prefers-reduced-motion: reduce)`);a(`race-go`,()=>{cancelAnimationFrame(xe);let e=performance.now(),n=()=>{let r=t.matches?1:Math.min(1,(performance.now()-e)/(1e3*_e));Ce(r*I),r<1&&(xe=requestAnimationFrame(n))};n()})}function Ce(e){let t=Object.entries(ye).map(([t,n])=>{let i=n.findIndex(t=>t>e),a=i<0?P:i-1,[o,s]=[Math.floor(a/F),a%F];return r(`race-${t}`,SVGPathElement).setAttribute(`d`,`M0 0H${F}V${o}H${s}V${o+1}H0z`),`${a.toLocaleString(`en`)} with ${t===`linear`?`(s, z)`:`softmax`}`});n(`race-place`,`Pixels after ${be(e)}: ${t.join(`, `)}`)}var we=`http://www.w3.org/2000/svg`,[L,R]=[256,72];function z(e,t){let n=document.createElementNS(we,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function Te(e,t){let n=z(`svg`,{viewBox:`0 0 ${L} ${R+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>R*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${R}h1v${-i(e)}h-1z`).join(``),o=z(`path`,{d:`M${t} ${R}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=z(`path`,{d:`M${t+.5} ${R+1}l3 6h-6z`,class:`drawn`});n.append(z(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; ${t} was drawn, which had ${c} %`),n}function Ee(e,t){let{state:r,cacheOfStep:i}=e.memory,a=t+1,o=i*a,s=o/r,c=s>=1?`${s.toPrecision(2)} times`:`${Oe(s)} of`,l=Math.ceil(r/i);n(`say-cost`,`Softmax attention would keep the keys and values of ${a===1?`this first step`:`all ${a} steps`}: ${Ae(o)}, ${c} the ${Ae(r)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${l} on; (s, z) never grows.`);let u=(t,n)=>[[0,t],[e.count,n]],d=i*e.count,f={softmax:u(0,d),linear:u(r,r)};De(`chart-memory`,e.count,a,d,Ae(d),f,!1);let p=e=>N.steps.map((t,n)=>[t,N[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[N.steps.length-1,Math.max(...N.softmax)];De(`chart-time`,N.steps[h],a,g,ke(g),m,!0);let _=e=>`${ke(N.softmax[e])} with the cache and ${ke(N.linear[e])} with (s, z)`;n(`say-measured`,`Times are not of this model and server: they were measured on ${N.date}, on one core (${N.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${N.steps[1]} took ${_(1)}, and step ${N.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function De(e,t,n,i,a,o,s){let c=r(e,SVGElement);c.setAttribute(`viewBox`,`0 0 ${L} ${R+18}`);let l=e=>2+(L-4)*e/t,u=e=>14+(R-14)*(1-e/(i||1)),d=(e,t)=>{let n=z(`text`,t);return n.textContent=e,n},f=z(`path`,{d:`M${l(n)} 14V${R}`,class:`rule`}),p=z(`path`,{d:`M2 14V${R}H${L-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[z(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>z(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:R+12}),d(`${t.toLocaleString(`en`)} steps`,{x:L-2,y:R+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${e===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var Oe=e=>`${(100*e).toPrecision(2)} %`,ke=e=>`${e.toPrecision(2)} ms`,Ae=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,je=[217,83,44],Me=[49,118,201];function Ne(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?Me:je,n],4*t)}),a.putImageData(o,0,0)}var Pe=168,Fe=256,Ie=`14px`,Le=182,Re=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),B=e=>Re.format(e).replace(`-`,`−`),ze=new Intl.NumberFormat(`en`,{maximumSignificantDigits:6,useGrouping:!1}),Be=e=>ze.format(e).replace(`-`,`−`),Ve=e=>e>.9995&&e<1?`over 99.9 %`:`${(100*e).toPrecision(3)} %`;function He(e,t,r,i,a){Ue(e,r,i);let o=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),s=Math.max(e.largest.phi_q,e.largest.phi_k);Je(`projected`,[[`q`,t.q,o],[`k`,t.k,o],[`v`,t.v,o],[`φ(q)`,t.phi_q,s],[`φ(k)`,t.phi_k,s]]);let c=`full colour is the largest so far, ${B(o)} in q, k and v, ${B(s)} in φ.`;n(`scale-projected`,`Warm colours are positive, cold ones negative; ${c}`),We(e,t,r),Ke(e,t,r,i,a),Ee(e,r)}function Ue(e,i,a){let{window:o,step_bytes:s}=e.layout,{width:c,channels:l}=a.size,u=r(`heat-window`,HTMLCanvasElement);u.hidden=!o;let d=s===l?`pixel`:`byte`;if(!o){n(`say-window`,`The model is given the value of the previous byte and the place of the ${d} to draw.`);return}let[f,m]=o,h=`${f} rows above and ${m} pixels to either side, none that comes later`;n(`say-window`,`To draw this ${d}, the model reads the painted pixels around it: ${h}.`);let g=Math.floor(e.position(i)/l),[_,ee]=[Math.floor(g/c),g%c];Object.assign(u,{width:2*m+1,height:f+1});let v=u.getContext(`2d`),y=a.copy(e=>e<g).canvas;v.drawImage(y,m-ee,f-_),v.fillStyle=`#d9532c`,v.fillRect(m,f,1,1),p(u,t(u.width,Le))}function We(e,i,a){let{key_width:o,value_width:s}=e.layout,c=new Float32Array(o*s).map((e,t)=>i.phi_k[Math.floor(t/s)]*i.v[t%s]),l=e.largest.s,u=Math.min(Pe,(r(`stages`,HTMLElement).clientWidth-56)/3);for(let[e,n,a]of[[`heat-before`,`s before the step`,i.before],[`heat-outer`,`φ(k) times v transposed`,c],[`heat-s`,`s after the step`,i.after]]){let i=r(e,HTMLCanvasElement);Ne(i,a,s,l),p(i,t(s,u));let c=`from ${B(Math.min(...a))} to ${B(Math.max(...a))}`;i.setAttribute(`aria-label`,`Heat map of ${n}, ${o} rows of ${s} numbers ${c}`)}Je(`sums`,[[`z before`,i.zBefore,e.largest.z],[`φ(k)`,i.phi_k,e.largest.z],[`z after`,i.zAfter,e.largest.z]]),n(`scale-s`,`One scale for all three: full colour is the largest so far, ${B(l)} in s, ${B(e.largest.z)} in z.`);let d=(o*s+o).toLocaleString(`en`),f=a===0?`It begins with zeros.`:`It holds the sums over ${a===1?`the step`:`all ${a} steps`} before.`;n(`say-update`,`The memory of this head is the matrix s and the vector z: ${d} numbers, at every step. ${f} This step adds the product of key and value to s, and the key to z.`);let[m,h]=[r(`cell-row`,HTMLInputElement),r(`cell-column`,HTMLInputElement)];[m.max,h.max]=[String(o),String(s)];let g=c.map(Math.abs),_=g.indexOf(Math.max(...g)),ee=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,v=ee(m,o,Math.floor(_/s)),y=ee(h,s,_%s);[m.placeholder,h.placeholder]=[String(v+1),String(y+1)];let te=v*s+y,ne=`${Be(i.before[te])} + ${B(i.phi_k[v])} × ${B(i.v[y])}`;n(`cell`,`s[${v+1}, ${y+1}] = ${ne} = ${Be(i.after[te])}`);let b=e=>i.phi_q.reduce((t,n,r)=>t+n*e(r),0),re=b(e=>i.zAfter[e]),ie=b(e=>i.after[e*s+y]),ae=a===0?`its own`:`all ${a+1} steps so far`;n(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${ae}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),Je(`read`,[[`φ(q)`,i.phi_q,Math.max(e.largest.phi_q,e.largest.phi_k)],[`y`,i.y,e.largest.y]]);let oe=`${B(ie)} / ${B(re)} = ${B(i.y[y])}`;n(`read-cell`,`y[${y+1}] = φ(q)ᵀ s[·, ${y+1}] / φ(q)ᵀ z = ${oe}`)}function Ge(e,i,a){let o=new Float32Array(a.width*a.height);i.forEach((t,n)=>o[Math.floor(e.position(n)/a.channels)]+=t);let s=Math.max(...o),c=r(`heat-weights`,HTMLCanvasElement);c.hidden=!1,Ne(c,o,a.width,s),p(c,t(a.width,Pe));let[l,u]=[Math.floor(o.indexOf(s)/a.width)+1,o.indexOf(s)%a.width+1],d=Ve(1/i.length);return n(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${Ve(s)}, in row ${l}, column ${u}; if all were equal, each would be ${d}. Softmax attention would keep every key for them; (s, z) has their sum only.`),o}function Ke(e,t,a,o,s){let c=e.position(a),{channels:l}=o.size,u=l===3?[`red`,`green`,`blue`]:[`the pixel`],d=t.probabilities.map((e,t)=>o.bytes[c+t]),f=d.map((e,n)=>`${u[(c+n)%l]} became ${e}, which had probability ${Ve(t.probabilities[n][e])}`),p=d.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${e.layerCount} layers, the model gives each of the 256 values a probability; ${f.join(`, `)}.`;n(`say-draw`,m+p+(e.layout.predicts===`categorical`?qe(t,d,s,c):``)),r(`bars`,HTMLElement).replaceChildren(...t.probabilities.map((e,t)=>i(`figure`,{},i(`figcaption`,{},d.length>1?u[t]:`Probability of the values 0 (black) to 255 (white)`),Te(e,d[t]))))}function qe(e,[t],n,r){let[i]=g(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=Math.min(...[a,o-a,1-o].filter(e=>e>0)),c=Math.max(4,Math.min(9,Math.ceil(-Math.log10(s))+1)),l=`${a.toFixed(c)} to ${o.toFixed(c)}`;return` The seed gave the random number ${i.toFixed(c)}; the probabilities, one after another, pick ${t} from ${l}.`}function Je(e,n){let a=r(e,HTMLElement);for(;a.children.length<2*n.length;){let e=i(`canvas`);e.setAttribute(`role`,`img`),a.append(i(`span`),e)}n.forEach(([e,n,r],i)=>{let[o,s]=[a.children[2*i],a.children[2*i+1]];o.textContent=e,Ne(s,n,n.length,r),p(s,t(n.length,Fe)),s.style.height=Ie;let c=`from ${B(Math.min(...n))} to ${B(Math.max(...n))}`;s.setAttribute(`aria-label`,`${e}: ${n.length} numbers ${c}`),s.title=Array.from(n,B).join(`, `)})}var Ye=64,Xe=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],Ze=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=Ye;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await d(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,Qe(e));this.size=Qe(e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get layerCount(){return this.model.layers}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await te(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:o}=i.attention;this.memory={state:a,cacheOfStep:o/(e+i.steps)};let s=Object.fromEntries(Xe.map(e=>[e,$e(i[e])]));for(let e of Xe)this.largest[e]=Math.max(this.largest[e]??0,et(s[e]));return{first:e,steps:i.steps,...s}}},Qe=e=>Math.floor(Ye/e)*e||Ye;function $e(e){let t=new DataView(o(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var et=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),tt=280,nt=160,rt=`any`,it={preventScroll:!0,focusVisible:!1},at=[1,2,4],V,H=``,U=null,W,G,K=0,q=1,ot=``,J,st,Y;function ct(){r(`how`,HTMLElement).innerHTML=ne,ge(`categorical`),Se(),window.addEventListener(`beforeprint`,()=>{for(let e of document.querySelectorAll(`#how details`))e.open=!0});for(let e of[`layer`,`head`])r(e,HTMLSelectElement).addEventListener(`change`,()=>void gt(K));a(`watch`,()=>void ht()),r(`screens`,HTMLFieldSetElement).addEventListener(`change`,()=>{ft(Number(document.querySelector(`#screens :checked`).value))}),ft(q);let e={first:()=>0,up:()=>K-G.row,back:()=>K-1,next:()=>K+1,down:()=>K+G.row,last:()=>1/0};for(let[t,n]of Object.entries(e))a(`how-${t}`,()=>G&&Z(n()));a(`how-play`,()=>Y===void 0?_t():Q());let t=r(`moment`,HTMLInputElement);t.addEventListener(`input`,()=>Z(Number(t.value)));for(let e of[`cell-row`,`cell-column`])r(e,HTMLInputElement).addEventListener(`input`,$);let n={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};r(`how`,HTMLElement).addEventListener(`keydown`,t=>{let r=t.target,i=r instanceof HTMLSelectElement||r instanceof HTMLPreElement||lt(r),a={PageUp:q-1,PageDown:q+1}[t.key];if(a!==void 0&&!i&&G)return t.preventDefault(),ft(a);let o=n[t.key];!o||i||t.ctrlKey||t.metaKey||t.altKey||!G||(t.preventDefault(),Z(e[o]()))}),r(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!G||!V)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*V.width),o=Math.floor(t/i*V.height);Z(Math.floor(((o*V.width+a)*V.channels-G.layout.first_byte)/G.layout.step_bytes))}),r(`watched`,HTMLCanvasElement).addEventListener(`pointermove`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i}=n;V&&xt(Math.floor(t/i*V.height),Math.floor(e/r*V.width))}),r(`watched`,HTMLCanvasElement).addEventListener(`pointerleave`,St),r(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:i,clientHeight:a,width:o,height:s}=n;r(`cell-row`,HTMLInputElement).value=String(1+Math.floor(t/a*s)),r(`cell-column`,HTMLInputElement).value=String(1+Math.floor(e/i*o)),$()}),window.addEventListener(`tab`,()=>y(`how`)?V&&ut():Q()),s(()=>y(`how`)&&ut()),window.addEventListener(`resize`,$),_((e,t)=>{V=e,W=G=void 0,t&&v(`how`,new URLSearchParams),ot=``,mt(`layer`,e.layers,2),mt(`head`,e.heads,e.heads),y(`how`)&&(t?ht():ut())})}var lt=e=>e instanceof HTMLInputElement&&[`number`,`radio`].includes(e.type);function ut(){let t=c(`how`);if(!t.has(`seed`))return W?void 0:void ht();if(String(t)!==ot)try{if(t.has(`model`)&&t.get(`model`)!==V.id)throw Error(`This server does not have the model ${t.get(`model`)} of the link.`);if(!u(t.get(`seed`)))throw Error(`The seed of this link is not a seed.`);for(let e of[`layer`,`head`])dt(e,t.get(e)??`1`);ft(Number(t.get(`screen`)??1)),document.activeElement===document.body&&r(`moment`,HTMLInputElement).focus(it),ht(t)}catch(t){e(t,`how`)}}function dt(e,t){let n=[...r(e,HTMLSelectElement).options].find(({text:e})=>e===t);if(!n)throw Error(`The model has no ${e} ${t}.`);n.selected=!0}function ft(e){let t=[...document.querySelectorAll(`#how .stages > li`)];q=Math.max(1,Math.min(Math.round(e)||1,t.length)),t.forEach((e,t)=>e.classList.toggle(`shown`,t+1===q)),document.querySelectorAll(`#screens input`)[q-1].checked=!0,G&&(pt(),$())}function pt(){let e={layer:X(`layer`)+1,head:X(`head`)+1,step:K+1,screen:q},t=Object.entries(e).map(([e,t])=>[e,String(t)]),n=new URLSearchParams([[`model`,V.id],[`seed`,H],...t]);ot=String(n);let r=v(`how`,n);y(`how`)&&h(r,!1)}function mt(e,t,n){let a=Array.from({length:t},(e,t)=>i(`option`,{value:String(t)},`${t+1}`));r(e,HTMLSelectElement).replaceChildren(...a),r(e,HTMLSelectElement).selectedIndex=Math.min(n,t)-1}async function ht(t){st?.abort(),vt(),m();let{signal:r}=st=new AbortController,{id:i,classes:a,channels:o}=V;G=void 0;let s=W=new l(V);wt(0),U=null,H=t?.get(`seed`)??ee(),t&&(ot=String(t));let c=a.length>0&&!a.includes(rt)?rt:`none`;n(`how-status`,`Painting an image.`);try{if(await f({type:`generate`,model:i,n:1,seed:H,class:c},{frame:({first:e,bytes:t})=>{s.paint(e,t),r.aborted||wt(s.pixels)},image:(e,t)=>void(U=t.class)},r)||r.aborted)return;let e=Number(t?.get(`step`)??NaN);if(e>=1)return await gt(Math.round(e)-1);let n=s.bytes.length>>1,a=s.bytes.findIndex((e,t)=>t>=n&&e>127);await gt((a<0?n:a)/o,!0)}catch(t){if(r.aborted)return;n(`how-status`,``),e(t,`how`)}}async function gt(t,i=!1){if(!W?.done)return;vt();let[a,o]=[X(`layer`),X(`head`)],s=new Ze(V,W,U,a,o);G=void 0,n(`how-status`,`Asking the server for the numbers of this image.`);let{signal:c}=st;try{await s.open()}catch(t){n(`how-status`,``),c.aborted||e(t,`how`);return}if(c.aborted||a!==X(`layer`)||o!==X(`head`))return;G=s,r(`stepper`,HTMLElement).inert=!1,n(`how-status`,U===null?``:`An image of class ${U}.`);let{first_byte:l,step_bytes:u,predicts:d}=G.layout;ge(d),r(`moment`,HTMLInputElement).max=String(G.count-1);for(let e of[`cell-row`,`cell-column`])r(e,HTMLInputElement).value=``;Z(i?Math.floor((Math.floor(t)*V.channels-l)/u):t)}var X=e=>Number(r(e,HTMLSelectElement).value);function Z(e){K=Math.max(0,Math.min(e,G.count-1)),r(`moment`,HTMLInputElement).value=String(K),Y===void 0&&pt(),$()}function _t(){G&&(K===G.count-1&&Z(0),yt(!0),Y=window.setInterval(()=>{if(!G)return Q();if(G.step(K)){if(K===G.count-1)return Q();Z(K+1)}},nt))}function Q(){let e=Y!==void 0;vt(),e&&G&&pt()}function vt(){window.clearInterval(Y),Y=void 0,yt(!1)}function yt(e){let t=r(`how-play`,HTMLButtonElement);t.setAttribute(`aria-pressed`,String(e)),t.textContent=e?`Pause`:`Play`}function $(){let[t,i]=[G,K];if(!t||!W)return;let{first_byte:a,step_bytes:o}=t.layout,s=t.position(i),c=Math.floor(s/W.size.channels),{width:l}=W.size;wt(c,c,t.layout.window);let u=`Step ${i+1} of ${t.count}: row ${Math.floor(c/l)+1}, column ${c%l+1}`,d=o===1&&W.size.channels===3?`, ${[`red`,`green`,`blue`][s%3]}`:``;n(`how-place`,u+d+(a&&i===0?` (byte 1 is drawn from a histogram)`:``)),r(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,u+d);let f=t.step(i);if(r(`how`,HTMLElement).setAttribute(`aria-busy`,String(!f)),f){r(`stages`,HTMLElement).hidden=!1,He(t,f,i,W,H);let e=Math.min(i+t.row,t.count-1);Y!==void 0&&!t.step(e)&&t.load(e).catch(()=>void 0),bt(t,i)}else t.load(i).then(()=>G===t&&K===i&&$(),n=>{Q(),G===t&&e(n,`how`)})}async function bt(t,r){n(`say-weights`,`Asking for the keys of all steps before.`);try{let e=await t.weights(r);if(G!==t||K!==r)return;let n=Ge(t,e,V);at.includes(q)&&Ct(n)}catch(n){G===t&&e(n,`how`)}}function xt(e,t){let{width:r,height:i,channels:a}=V,o=e*r+t;if(e<0||t<0||e>=i||t>=r||!W?.done)return;let s=G!==void 0&&o*a>G.position(K),c=W.bytes.subarray(o*a,(o+1)*a),l=s?`painted later`:c.join(`, `),u=J&&!s?`, weight ${(100*J[o]).toPrecision(3)} %`:``;n(`how-pixel`,`Row ${e+1}, column ${t+1}: ${l}${u}`)}function St(){let e=J?`Orange is what this head reads, beyond the window too.`:``,t=`Point at a pixel for its ${J?`weight`:`value`}.`;n(`how-pixel`,matchMedia(`(hover: hover)`).matches?`${e} ${t}`.trim():e)}function Ct(e){J=e;let t=r(`watched`,HTMLCanvasElement),n=t.getContext(`2d`),{width:i}=W.size,a=t.width/i,o=Math.max(...e);e.forEach((e,t)=>{n.fillStyle=`rgb(217 83 44 / ${Math.sqrt(e/o)})`,n.fillRect(t%i*a,Math.floor(t/i)*a,a,a)}),St()}function wt(e,n,i){let a=r(`watched`,HTMLCanvasElement);J=void 0;let{width:o,height:s}=W.size,c=t(o,tt),l=Math.max(1,Math.round(c*(globalThis.devicePixelRatio||1)));Object.assign(a,{width:o*l,height:s*l}),p(a,c/l);let u=a.getContext(`2d`);u.imageSmoothingEnabled=!1;let d=W.copy(t=>t<e).canvas;if(u.drawImage(d,0,0,a.width,a.height),a.setAttribute(`aria-label`,`Image so far: ${e} of ${o*s} pixels`),n===void 0)return;let[f,m]=[Math.floor(n/o),n%o];if(u.lineWidth=Math.max(1,l/6),i){let[e,t]=i,[n,r]=[Math.max(0,f-e),Math.max(0,m-t)],a=Math.min(o,m+t+1);u.strokeStyle=`#3176c9`,u.strokeRect(r*l,n*l,(a-r)*l,(f-n+1)*l)}u.fillStyle=`#d9532c`,u.fillRect(m*l,f*l,l,l),St()}export{ct as setUpHow};