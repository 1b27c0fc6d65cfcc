import{A as e,F as t,M as n,N as r,O as i,P as a,a as o,c as s,d as c,f as l,g as u,h as d,j as f,k as p,l as m,m as h,o as g,p as _,s as ee,u as v,w as y,x as te}from"./index-DUo19GpG.js";var ne=`<div class="controls">
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
`)}function ge(e){for(let t of document.querySelectorAll(`.equation`)){let r=t.dataset.equation,i=r===`draw`?he[e===`categorical`?`categorical`:`logistics`]:me[r],a=n(`div`,{className:`equations`});a.innerHTML=i.math.map(e=>`<math display="block">${C(e)}</math>`).join(``),i.number&&a.append(n(`span`,{},`(${i.number})`));let o=n(`pre`,{tabIndex:0},n(`code`,{},i.code));o.setAttribute(`role`,`group`),o.setAttribute(`aria-label`,`Lines of ${i.file}`),t.replaceChildren(...i.math.length?[a]:[],n(`div`,{},n(`small`,{},i.file),o))}}var N={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},_e=5,P=N.steps.at(-1),F=Math.sqrt(P);function ve(e){let{steps:t}=N,n=new Float64Array(P+1);for(let r=1,i=1;r<=P;r++){r>t[i]&&i++;let a=(r-t[i-1])/(t[i]-t[i-1]);n[r]=n[r-1]+e[i-1]+a*(e[i]-e[i-1])}return n}var ye={linear:ve(N.linear),softmax:ve(N.softmax)},I=ye.linear[P],be=e=>`${Math.round(e/1e3)} s`,xe=0;function Se(){let e=ye.softmax[P];t(`say-race`,`At these times, an image of ${F} × ${F} pixels takes ${be(I)} with (s, z) and ${be(e)} with softmax and its cache: ${(e/I).toPrecision(2)} times as long. The race is ${Math.round(I/1e3/_e)} times as fast, and ends when the first image is painted.`),Ce(I);let n=matchMedia(`(prefers-reduced-motion: reduce)`);r(`race-go`,()=>{cancelAnimationFrame(xe);let e=performance.now(),t=()=>{let r=n.matches?1:Math.min(1,(performance.now()-e)/(1e3*_e));Ce(r*I),r<1&&(xe=requestAnimationFrame(t))};t()})}function Ce(e){let n=Object.entries(ye).map(([t,n])=>{let r=n.findIndex(t=>t>e),i=r<0?P:r-1,[a,o]=[Math.floor(i/F),i%F];return f(`race-${t}`,SVGPathElement).setAttribute(`d`,`M0 0H${F}V${a}H${o}V${a+1}H0z`),`${i.toLocaleString(`en`)} with ${t===`linear`?`(s, z)`:`softmax`}`});t(`race-place`,`Pixels after ${be(e)}: ${n.join(`, `)}`)}var we=`http://www.w3.org/2000/svg`,[L,R]=[256,72];function z(e,t){let n=document.createElementNS(we,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function Te(e,t){let n=z(`svg`,{viewBox:`0 0 ${L} ${R+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>R*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${R}h1v${-i(e)}h-1z`).join(``),o=z(`path`,{d:`M${t} ${R}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=z(`path`,{d:`M${t+.5} ${R+1}l3 6h-6z`,class:`drawn`});n.append(z(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; ${t} was drawn, which had ${c} %`),n}function Ee(e,n){let{state:r,cacheOfStep:i}=e.memory,a=n+1,o=i*a,s=o/r,c=s>=1?`${s.toPrecision(2)} times`:`${Oe(s)} of`,l=Math.ceil(r/i);t(`say-cost`,`Softmax attention would keep the keys and values of ${a===1?`this first step`:`all ${a} steps`}: ${Ae(o)}, ${c} the ${Ae(r)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${l} on; (s, z) never grows.`);let u=(t,n)=>[[0,t],[e.count,n]],d=i*e.count,f={softmax:u(0,d),linear:u(r,r)};De(`chart-memory`,e.count,a,d,Ae(d),f,!1);let p=e=>N.steps.map((t,n)=>[t,N[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[N.steps.length-1,Math.max(...N.softmax)];De(`chart-time`,N.steps[h],a,g,ke(g),m,!0);let _=e=>`${ke(N.softmax[e])} with the cache and ${ke(N.linear[e])} with (s, z)`;t(`say-measured`,`Times are not of this model and server: they were measured on ${N.date}, on one core (${N.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${N.steps[1]} took ${_(1)}, and step ${N.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function De(e,t,n,r,i,a,o){let s=f(e,SVGElement);s.setAttribute(`viewBox`,`0 0 ${L} ${R+18}`);let c=e=>2+(L-4)*e/t,l=e=>14+(R-14)*(1-e/(r||1)),u=(e,t)=>{let n=z(`text`,t);return n.textContent=e,n},d=z(`path`,{d:`M${c(n)} 14V${R}`,class:`rule`}),p=z(`path`,{d:`M2 14V${R}H${L-2}`,class:`axis`}),m=Object.entries(a).flatMap(([e,t])=>[z(`polyline`,{points:t.map(([e,t])=>`${c(e)},${l(t)}`).join(` `),class:e}),...o?t.map(([t,n])=>z(`circle`,{cx:c(t),cy:l(n),r:2,class:e})):[]]),h=[u(i,{x:2,y:9}),u(`0`,{x:2,y:R+12}),u(`${t.toLocaleString(`en`)} steps`,{x:L-2,y:R+12,"text-anchor":`end`})];s.replaceChildren(p,d,...m,...h),s.setAttribute(`aria-label`,`${e===`chart-memory`?`Memory`:`Time`} over steps, up to ${i}`)}var Oe=e=>`${(100*e).toPrecision(2)} %`,ke=e=>`${e.toPrecision(2)} ms`,Ae=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,je=[217,83,44],Me=[49,118,201];function Ne(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?Me:je,n],4*t)}),a.putImageData(o,0,0)}var Pe=168,Fe=256,Ie=`14px`,Le=182,Re=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),B=e=>Re.format(e).replace(`-`,`−`),ze=new Intl.NumberFormat(`en`,{maximumSignificantDigits:6,useGrouping:!1}),Be=e=>ze.format(e).replace(`-`,`−`),Ve=e=>e>.9995&&e<1?`over 99.9 %`:`${(100*e).toPrecision(3)} %`;function He(e,n,r,i,a){Ue(e,r,i);let o=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),s=Math.max(e.largest.phi_q,e.largest.phi_k);Je(`projected`,[[`q`,n.q,o],[`k`,n.k,o],[`v`,n.v,o],[`φ(q)`,n.phi_q,s],[`φ(k)`,n.phi_k,s]]);let c=`full colour is the largest so far, ${B(o)} in q, k and v, ${B(s)} in φ.`;t(`scale-projected`,`Warm colours are positive, cold ones negative; ${c}`),We(e,n,r),Ke(e,n,r,i,a),Ee(e,r)}function Ue(n,r,i){let{window:o,step_bytes:s}=n.layout,{width:c,channels:l}=i.size,u=f(`heat-window`,HTMLCanvasElement);u.hidden=!o;let d=s===l?`pixel`:`byte`;if(!o){t(`say-window`,`The model is given the value of the previous byte and the place of the ${d} to draw.`);return}let[p,m]=o,h=`${p} rows above and ${m} pixels to either side, none that comes later`;t(`say-window`,`To draw this ${d}, the model reads the painted pixels around it: ${h}.`);let g=Math.floor(n.position(r)/l),[_,ee]=[Math.floor(g/c),g%c];Object.assign(u,{width:2*m+1,height:p+1});let v=u.getContext(`2d`),y=i.copy(e=>e<g).canvas;v.drawImage(y,m-ee,p-_),v.fillStyle=`#d9532c`,v.fillRect(m,p,1,1),e(u,a(u.width,Le))}function We(n,r,i){let{key_width:o,value_width:s}=n.layout,c=new Float32Array(o*s).map((e,t)=>r.phi_k[Math.floor(t/s)]*r.v[t%s]),l=n.largest.s,u=Math.min(Pe,(f(`stages`,HTMLElement).clientWidth-56)/3);for(let[t,n,i]of[[`heat-before`,`s before the step`,r.before],[`heat-outer`,`φ(k) times v transposed`,c],[`heat-s`,`s after the step`,r.after]]){let r=f(t,HTMLCanvasElement);Ne(r,i,s,l),e(r,a(s,u));let c=`from ${B(Math.min(...i))} to ${B(Math.max(...i))}`;r.setAttribute(`aria-label`,`Heat map of ${n}, ${o} rows of ${s} numbers ${c}`)}Je(`sums`,[[`z before`,r.zBefore,n.largest.z],[`φ(k)`,r.phi_k,n.largest.z],[`z after`,r.zAfter,n.largest.z]]),t(`scale-s`,`One scale for all three: full colour is the largest so far, ${B(l)} in s, ${B(n.largest.z)} in z.`);let d=(o*s+o).toLocaleString(`en`),p=i===0?`It begins with zeros.`:`It holds the sums over ${i===1?`the step`:`all ${i} steps`} before.`;t(`say-update`,`The memory of this head is the matrix s and the vector z: ${d} numbers, at every step. ${p} This step adds the product of key and value to s, and the key to z.`);let[m,h]=[f(`cell-row`,HTMLInputElement),f(`cell-column`,HTMLInputElement)];[m.max,h.max]=[String(o),String(s)];let g=c.map(Math.abs),_=g.indexOf(Math.max(...g)),ee=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,v=ee(m,o,Math.floor(_/s)),y=ee(h,s,_%s);[m.placeholder,h.placeholder]=[String(v+1),String(y+1)];let te=v*s+y,ne=`${Be(r.before[te])} + ${B(r.phi_k[v])} × ${B(r.v[y])}`;t(`cell`,`s[${v+1}, ${y+1}] = ${ne} = ${Be(r.after[te])}`);let b=e=>r.phi_q.reduce((t,n,r)=>t+n*e(r),0),re=b(e=>r.zAfter[e]),ie=b(e=>r.after[e*s+y]),ae=i===0?`its own`:`all ${i+1} steps so far`;t(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${ae}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),Je(`read`,[[`φ(q)`,r.phi_q,Math.max(n.largest.phi_q,n.largest.phi_k)],[`y`,r.y,n.largest.y]]);let oe=`${B(ie)} / ${B(re)} = ${B(r.y[y])}`;t(`read-cell`,`y[${y+1}] = φ(q)ᵀ s[·, ${y+1}] / φ(q)ᵀ z = ${oe}`)}function Ge(n,r,i){let o=new Float32Array(i.width*i.height);r.forEach((e,t)=>o[Math.floor(n.position(t)/i.channels)]+=e);let s=Math.max(...o),c=f(`heat-weights`,HTMLCanvasElement);c.hidden=!1,Ne(c,o,i.width,s),e(c,a(i.width,Pe));let[l,u]=[Math.floor(o.indexOf(s)/i.width)+1,o.indexOf(s)%i.width+1],d=Ve(1/r.length);return t(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${Ve(s)}, in row ${l}, column ${u}; if all were equal, each would be ${d}. Softmax attention would keep every key for them; (s, z) has their sum only.`),o}function Ke(e,r,i,a,o){let s=e.position(i),{channels:c}=a.size,l=c===3?[`red`,`green`,`blue`]:[`the pixel`],u=r.probabilities.map((e,t)=>a.bytes[s+t]),d=u.map((e,t)=>`${l[(s+t)%c]} became ${e}, which had probability ${Ve(r.probabilities[t][e])}`),p=u.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${e.layerCount} layers, the model gives each of the 256 values a probability; ${d.join(`, `)}.`;t(`say-draw`,m+p+(e.layout.predicts===`categorical`?qe(r,u,o,s):``)),f(`bars`,HTMLElement).replaceChildren(...r.probabilities.map((e,t)=>n(`figure`,{},n(`figcaption`,{},u.length>1?l[t]:`Probability of the values 0 (black) to 255 (white)`),Te(e,u[t]))))}function qe(e,[t],n,r){let[i]=h(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=Math.min(...[a,o-a,1-o].filter(e=>e>0)),c=Math.max(4,Math.min(9,Math.ceil(-Math.log10(s))+1)),l=`${a.toFixed(c)} to ${o.toFixed(c)}`;return` The seed gave the random number ${i.toFixed(c)}; the probabilities, one after another, pick ${t} from ${l}.`}function Je(t,r){let i=f(t,HTMLElement);for(;i.children.length<2*r.length;){let e=n(`canvas`);e.setAttribute(`role`,`img`),i.append(n(`span`),e)}r.forEach(([t,n,r],o)=>{let[s,c]=[i.children[2*o],i.children[2*o+1]];s.textContent=t,Ne(c,n,n.length,r),e(c,a(n.length,Fe)),c.style.height=Ie;let l=`from ${B(Math.min(...n))} to ${B(Math.max(...n))}`;c.setAttribute(`aria-label`,`${t}: ${n.length} numbers ${l}`),c.title=Array.from(n,B).join(`, `)})}var Ye=64,Xe=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],Ze=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=Ye;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await u(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,Qe(e));this.size=Qe(e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get layerCount(){return this.model.layers}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await te(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:o}=i.attention;this.memory={state:a,cacheOfStep:o/(e+i.steps)};let s=Object.fromEntries(Xe.map(e=>[e,$e(i[e])]));for(let e of Xe)this.largest[e]=Math.max(this.largest[e]??0,et(s[e]));return{first:e,steps:i.steps,...s}}},Qe=e=>Math.floor(Ye/e)*e||Ye;function $e(e){let t=new DataView(y(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var et=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),tt=280,nt=160,rt=`any`,it={preventScroll:!0,focusVisible:!1},at=[1,2,4],V,H=``,U=null,W,G,K=0,q=1,ot=``,J,st,Y;function ct(){f(`how`,HTMLElement).innerHTML=ne,ge(`categorical`),Se(),window.addEventListener(`beforeprint`,()=>{for(let e of document.querySelectorAll(`#how details`))e.open=!0});for(let e of[`layer`,`head`])f(e,HTMLSelectElement).addEventListener(`change`,()=>void gt(K));r(`watch`,()=>void ht()),f(`screens`,HTMLFieldSetElement).addEventListener(`change`,()=>{ft(Number(document.querySelector(`#screens :checked`).value))}),ft(q);let e={first:()=>0,up:()=>K-G.row,back:()=>K-1,next:()=>K+1,down:()=>K+G.row,last:()=>1/0};for(let[t,n]of Object.entries(e))r(`how-${t}`,()=>G&&Z(n()));r(`how-play`,()=>Y===void 0?_t():Q());let t=f(`moment`,HTMLInputElement);t.addEventListener(`input`,()=>Z(Number(t.value)));for(let e of[`cell-row`,`cell-column`])f(e,HTMLInputElement).addEventListener(`input`,$);let n={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};f(`how`,HTMLElement).addEventListener(`keydown`,t=>{let r=t.target,i=r instanceof HTMLSelectElement||r instanceof HTMLPreElement||lt(r),a={PageUp:q-1,PageDown:q+1}[t.key];if(a!==void 0&&!i&&G)return t.preventDefault(),ft(a);let o=n[t.key];!o||i||t.ctrlKey||t.metaKey||t.altKey||!G||(t.preventDefault(),Z(e[o]()))}),f(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!G||!V)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*V.width),o=Math.floor(t/i*V.height);Z(Math.floor(((o*V.width+a)*V.channels-G.layout.first_byte)/G.layout.step_bytes))}),f(`watched`,HTMLCanvasElement).addEventListener(`pointermove`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i}=n;V&&xt(Math.floor(t/i*V.height),Math.floor(e/r*V.width))}),f(`watched`,HTMLCanvasElement).addEventListener(`pointerleave`,St),f(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i,width:a,height:o}=n;f(`cell-row`,HTMLInputElement).value=String(1+Math.floor(t/i*o)),f(`cell-column`,HTMLInputElement).value=String(1+Math.floor(e/r*a)),$()}),window.addEventListener(`tab`,()=>c(`how`)?V&&ut():Q()),g(()=>c(`how`)&&ut()),window.addEventListener(`resize`,$),ee((e,t)=>{V=e,W=G=void 0,t&&s(`how`,new URLSearchParams),ot=``,mt(`layer`,e.layers,2),mt(`head`,e.heads,e.heads),c(`how`)&&(t?ht():ut())})}var lt=e=>e instanceof HTMLInputElement&&[`number`,`radio`].includes(e.type);function ut(){let e=m(`how`);if(!e.has(`seed`))return W?void 0:void ht();if(String(e)!==ot)try{if(e.has(`model`)&&e.get(`model`)!==V.id)throw Error(`This server does not have the model ${e.get(`model`)} of the link.`);if(!l(e.get(`seed`)))throw Error(`The seed of this link is not a seed.`);for(let t of[`layer`,`head`])dt(t,e.get(t)??`1`);ft(Number(e.get(`screen`)??1)),document.activeElement===document.body&&f(`moment`,HTMLInputElement).focus(it),ht(e)}catch(e){p(e,`how`)}}function dt(e,t){let n=[...f(e,HTMLSelectElement).options].find(({text:e})=>e===t);if(!n)throw Error(`The model has no ${e} ${t}.`);n.selected=!0}function ft(e){let t=[...document.querySelectorAll(`#how .stages > li`)];q=Math.max(1,Math.min(Math.round(e)||1,t.length)),t.forEach((e,t)=>e.classList.toggle(`shown`,t+1===q)),document.querySelectorAll(`#screens input`)[q-1].checked=!0,G&&(pt(),$())}function pt(){let e={layer:X(`layer`)+1,head:X(`head`)+1,step:K+1,screen:q},t=Object.entries(e).map(([e,t])=>[e,String(t)]),n=new URLSearchParams([[`model`,V.id],[`seed`,H],...t]);ot=String(n);let r=s(`how`,n);c(`how`)&&v(r,!1)}function mt(e,t,r){let i=Array.from({length:t},(e,t)=>n(`option`,{value:String(t)},`${t+1}`));f(e,HTMLSelectElement).replaceChildren(...i),f(e,HTMLSelectElement).selectedIndex=Math.min(r,t)-1}async function ht(e){st?.abort(),vt(),i();let{signal:n}=st=new AbortController,{id:r,classes:a,channels:s}=V;G=void 0;let c=W=new o(V);wt(0),U=null,H=e?.get(`seed`)??_(),e&&(ot=String(e));let l=a.length>0&&!a.includes(rt)?rt:`none`;t(`how-status`,`Painting an image.`);try{if(await d({type:`generate`,model:r,n:1,seed:H,class:l},{frame:({first:e,bytes:t})=>{c.paint(e,t),n.aborted||wt(c.pixels)},image:(e,t)=>void(U=t.class)},n)||n.aborted)return;let t=Number(e?.get(`step`)??NaN);if(t>=1)return await gt(Math.round(t)-1);let i=c.bytes.length>>1,a=c.bytes.findIndex((e,t)=>t>=i&&e>127);await gt((a<0?i:a)/s,!0)}catch(e){if(n.aborted)return;t(`how-status`,``),p(e,`how`)}}async function gt(e,n=!1){if(!W?.done)return;vt();let[r,i]=[X(`layer`),X(`head`)],a=new Ze(V,W,U,r,i);G=void 0,t(`how-status`,`Asking the server for the numbers of this image.`);let{signal:o}=st;try{await a.open()}catch(e){t(`how-status`,``),o.aborted||p(e,`how`);return}if(o.aborted||r!==X(`layer`)||i!==X(`head`))return;G=a,f(`stepper`,HTMLElement).inert=!1,t(`how-status`,U===null?``:`An image of class ${U}.`);let{first_byte:s,step_bytes:c,predicts:l}=G.layout;ge(l),f(`moment`,HTMLInputElement).max=String(G.count-1);for(let e of[`cell-row`,`cell-column`])f(e,HTMLInputElement).value=``;Z(n?Math.floor((Math.floor(e)*V.channels-s)/c):e)}var X=e=>Number(f(e,HTMLSelectElement).value);function Z(e){K=Math.max(0,Math.min(e,G.count-1)),f(`moment`,HTMLInputElement).value=String(K),Y===void 0&&pt(),$()}function _t(){G&&(K===G.count-1&&Z(0),yt(!0),Y=window.setInterval(()=>{if(!G)return Q();if(G.step(K)){if(K===G.count-1)return Q();Z(K+1)}},nt))}function Q(){let e=Y!==void 0;vt(),e&&G&&pt()}function vt(){window.clearInterval(Y),Y=void 0,yt(!1)}function yt(e){let t=f(`how-play`,HTMLButtonElement);t.setAttribute(`aria-pressed`,String(e)),t.textContent=e?`Pause`:`Play`}function $(){let[e,n]=[G,K];if(!e||!W)return;let{first_byte:r,step_bytes:i}=e.layout,a=e.position(n),o=Math.floor(a/W.size.channels),{width:s}=W.size;wt(o,o,e.layout.window);let c=`Step ${n+1} of ${e.count}: row ${Math.floor(o/s)+1}, column ${o%s+1}`,l=i===1&&W.size.channels===3?`, ${[`red`,`green`,`blue`][a%3]}`:``;t(`how-place`,c+l+(r&&n===0?` (byte 1 is drawn from a histogram)`:``)),f(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,c+l);let u=e.step(n);if(f(`how`,HTMLElement).setAttribute(`aria-busy`,String(!u)),u){f(`stages`,HTMLElement).hidden=!1,He(e,u,n,W,H);let t=Math.min(n+e.row,e.count-1);Y!==void 0&&!e.step(t)&&e.load(t).catch(()=>void 0),bt(e,n)}else e.load(n).then(()=>G===e&&K===n&&$(),t=>{Q(),G===e&&p(t,`how`)})}async function bt(e,n){t(`say-weights`,`Asking for the keys of all steps before.`);try{let t=await e.weights(n);if(G!==e||K!==n)return;let r=Ge(e,t,V);at.includes(q)&&Ct(r)}catch(t){G===e&&p(t,`how`)}}function xt(e,n){let{width:r,height:i,channels:a}=V,o=e*r+n;if(e<0||n<0||e>=i||n>=r||!W?.done)return;let s=G!==void 0&&o*a>G.position(K),c=W.bytes.subarray(o*a,(o+1)*a),l=s?`painted later`:c.join(`, `),u=J&&!s?`, weight ${(100*J[o]).toPrecision(3)} %`:``;t(`how-pixel`,`Row ${e+1}, column ${n+1}: ${l}${u}`)}function St(){let e=J?`Orange is what this head reads, beyond the window too.`:``,n=`Point at a pixel for its ${J?`weight`:`value`}.`;t(`how-pixel`,matchMedia(`(hover: hover)`).matches?`${e} ${n}`.trim():e)}function Ct(e){J=e;let t=f(`watched`,HTMLCanvasElement),n=t.getContext(`2d`),{width:r}=W.size,i=t.width/r,a=Math.max(...e);e.forEach((e,t)=>{n.fillStyle=`rgb(217 83 44 / ${Math.sqrt(e/a)})`,n.fillRect(t%r*i,Math.floor(t/r)*i,i,i)}),St()}function wt(t,n,r){let i=f(`watched`,HTMLCanvasElement);J=void 0;let{width:o,height:s}=W.size,c=a(o,tt),l=Math.max(1,Math.round(c*(globalThis.devicePixelRatio||1)));Object.assign(i,{width:o*l,height:s*l}),e(i,c/l);let u=i.getContext(`2d`);u.imageSmoothingEnabled=!1;let d=W.copy(e=>e<t).canvas;if(u.drawImage(d,0,0,i.width,i.height),i.setAttribute(`aria-label`,`Image so far: ${t} of ${o*s} pixels`),n===void 0)return;let[p,m]=[Math.floor(n/o),n%o];if(u.lineWidth=Math.max(1,l/6),r){let[e,t]=r,[n,i]=[Math.max(0,p-e),Math.max(0,m-t)],a=Math.min(o,m+t+1);u.strokeStyle=`#3176c9`,u.strokeRect(i*l,n*l,(a-i)*l,(p-n+1)*l)}u.fillStyle=`#d9532c`,u.fillRect(m*l,p*l,l,l),St()}export{ct as setUpHow};