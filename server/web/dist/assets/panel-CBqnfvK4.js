import{A as e,C as t,D as n,M as r,N as i,O as a,P as o,a as s,b as c,c as l,d as u,f as d,h as f,j as p,k as m,l as h,m as g,o as _,p as v,s as y,u as b}from"./index-CLz_pgjQ.js";var ee=`<div class="controls">
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
`,x=`"""Reference of linear attention, causal (Algorithm 1 of the paper) and not (eq. 4): literal loops,
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
`,te=`"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys.

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
`,ne=`"""A byte's distribution as 256 probabilities, for images of drawn strokes: mostly black, white, and
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
`,re=`"""Feature maps phi, which turn keys and queries into positive features (section 3.2.1).

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
`,ie=`"""Distribution of the C bytes of a step: one mixture of K discretised logistics, whose channels are
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
`,ae=`"""Reference of the recurrent step: eq. 18-20, image by image and head by head, never optimised."""

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
`,S=e=>`<mi>${e}</mi>`,C=e=>`<mo stretchy="false">${e}</mo>`,w=(...e)=>`<mrow>${e.join(``)}</mrow>`,T=(e,t)=>`<msub>${e}${t}</msub>`,E=e=>`<msup>${w(e)}${S(`T`)}</msup>`,oe=(e,t)=>`<mfrac>${w(e)}${w(t)}</mfrac>`,D=e=>`<munder>${C(`∑`)}${S(e)}</munder>`,O=e=>S(`φ`)+C(`(`)+e+C(`)`),k=(e,t=`i`)=>T(S(e),S(t)),se=e=>T(S(e),`<mn>0</mn>`)+C(`=`)+`<mn>0</mn>`,ce=e=>T(S(e),w(S(`i`),C(`−`),`<mn>1</mn>`)),le=e=>k(`x`)+T(S(`W`),S(e)),[ue,de,fe]=[O(k(`Q`)),O(k(`K`,`j`)),k(`V`,`j`)],pe=`<msubsup>${S(`V`)}${S(`i`)}${C(`′`)}</msubsup>${C(`=`)}`,me=E(O(le(`Q`))),he={4:{number:`4`,math:[pe+oe(D(`j`)+E(ue)+de+fe,D(`j`)+E(ue)+de)],file:`kernels/attention/reference.py`,code:A(x,`similarity = `,`y[b, :, i] = `)},5:{number:`5`,math:[pe+oe(E(ue)+D(`j`)+de+E(fe),E(ue)+D(`j`)+de)],file:`kernels/attention/reference.py`,code:A(x,`query = phi_q[:, :, i]`,`outputs.append`)},6:{number:`6`,math:[C(`(`)+O(S(`Q`))+E(O(S(`K`)))+C(`)`)+S(`V`),C(`=`)+O(S(`Q`))+C(`(`)+E(O(S(`K`)))+S(`V`)+C(`)`)],file:`kernels/attention/noncausal.py`,code:A(te,`s = phi_k.mT`,`y = numerator.to`)},7:{number:`7`,math:[O(S(`x`))+C(`=`)+S(`elu`)+C(`(`)+S(`x`)+C(`)`)+C(`+`)+`<mn>1</mn>`],file:`kernels/feature_maps.py`,code:A(re,`return relu(x)`)},16:{number:`16, 17`,math:[se(`s`)+C(`,`)+`<mspace width="1em"/>`+se(`z`)],file:`kernels/attention/reference.py`,code:A(x,`s = phi_q.new_zeros`,`z = phi_q.new_zeros`)},18:{number:`18, 19`,math:[k(`s`)+C(`=`)+ce(`s`)+C(`+`)+O(le(`K`))+E(C(`(`)+le(`V`)+C(`)`)),k(`z`)+C(`=`)+ce(`z`)+C(`+`)+O(le(`K`))],file:`kernels/step/reference.py`,code:A(ae,`key = phi_k[b, h]`,`z[b, h] +=`)},20:{number:`20`,math:[k(`y`)+C(`=`)+k(`f`,`l`)+C(`(`)+oe(me+k(`s`),me+k(`z`))+C(`+`)+k(`x`)+C(`)`)],file:`kernels/step/reference.py`,code:A(ae,`numerator = query`,`y[b, h] = `)}},ge={categorical:{number:``,math:[],file:`kernels/categorical/reference.py`,code:A(ne,`cumulative = `,`picked = `)},logistics:{number:``,math:[],file:`kernels/pixel_logistics/reference.py`,code:A(ie,`picked = pick(`,`byte = ((drawn`)}};function A(e,t,n=t){let r=e.split(`
`),i=e=>t=>t.trimStart().startsWith(e),a=r.findIndex(i(t)),o=r.findIndex((e,t)=>t>=a&&i(n)(e));if(a<0||o<0)throw Error(`No lines from “${t}” to “${n}”.`);let s=r.slice(a,o+1),c=Math.min(...s.map(e=>e.length-e.trimStart().length));return s.map(e=>e.slice(c)).join(`
`)}function _e(e){for(let t of document.querySelectorAll(`.equation`)){let n=t.dataset.equation,r=n===`draw`?ge[e===`categorical`?`categorical`:`logistics`]:he[n],i=p(`div`,{className:`equations`});i.innerHTML=r.math.map(e=>`<math display="block">${w(e)}</math>`).join(``),r.number&&i.append(p(`span`,{},`(${r.number})`));let a=p(`pre`,{tabIndex:0},p(`code`,{},r.code));a.setAttribute(`role`,`group`),a.setAttribute(`aria-label`,`Lines of ${r.file}`),t.replaceChildren(...r.math.length?[i]:[],p(`div`,{},p(`small`,{},r.file),a))}}var j={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},ve=5,M=j.steps.at(-1),N=Math.sqrt(M);function ye(e){let{steps:t}=j,n=new Float64Array(M+1);for(let r=1,i=1;r<=M;r++){r>t[i]&&i++;let a=(r-t[i-1])/(t[i]-t[i-1]);n[r]=n[r-1]+e[i-1]+a*(e[i]-e[i-1])}return n}var be={linear:ye(j.linear),softmax:ye(j.softmax)},P=be.linear[M],xe=e=>`${Math.round(e/1e3)} s`,Se=0;function Ce(){let e=be.softmax[M];o(`say-race`,`At these times, an image of ${N} × ${N} pixels takes ${xe(P)} with (s, z) and ${xe(e)} with softmax and its cache: ${(e/P).toPrecision(2)} times as long. The race is ${Math.round(P/1e3/ve)} times as fast, and ends when the first image is painted.`),we(P);let t=matchMedia(`(prefers-reduced-motion: reduce)`);r(`race-go`,()=>{cancelAnimationFrame(Se);let e=performance.now(),n=()=>{let r=t.matches?1:Math.min(1,(performance.now()-e)/(1e3*ve));we(r*P),r<1&&(Se=requestAnimationFrame(n))};n()})}function we(t){let n=Object.entries(be).map(([n,r])=>{let i=r.findIndex(e=>e>t),a=i<0?M:i-1,[o,s]=[Math.floor(a/N),a%N];return e(`race-${n}`,SVGPathElement).setAttribute(`d`,`M0 0H${N}V${o}H${s}V${o+1}H0z`),`${a.toLocaleString(`en`)} with ${n===`linear`?`(s, z)`:`softmax`}`});o(`race-place`,`Pixels after ${xe(t)}: ${n.join(`, `)}`)}var Te=4294967295n;function Ee(e,t,n){let r=[Number(e&Te),Number(e>>32n&Te)],[i,a]=De([n,t>>>0,Math.floor(t/2**32),0],r);return[ke(i),ke(a)]}function De(e,t){let[n,r,i,a]=e,[o,s]=t;for(let e=0;e<10;e++){let[e,t]=Oe(3528531795,n),[c,l]=Oe(3449720151,i);[n,r,i,a]=[(c^r^o)>>>0,l,(e^a^s)>>>0,t],o=o+2654435769>>>0,s=s+3144134277>>>0}return[n,r,i,a]}function Oe(e,t){let n=e*(t>>>16)+Math.floor(e*(t&65535)/65536);return[Math.floor(n/65536),Math.imul(e,t)>>>0]}var ke=e=>((e>>>9)+.5)*2**-23,Ae=`http://www.w3.org/2000/svg`,[F,I]=[256,72];function L(e,t){let n=document.createElementNS(Ae,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function je(e,t){let n=L(`svg`,{viewBox:`0 0 ${F} ${I+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>I*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${I}h1v${-i(e)}h-1z`).join(``),o=L(`path`,{d:`M${t} ${I}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=L(`path`,{d:`M${t+.5} ${I+1}l3 6h-6z`,class:`drawn`});n.append(L(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; ${t} was drawn, which had ${c} %`),n}function Me(e,t){let{state:n,cacheOfStep:r}=e.memory,i=t+1,a=r*i,s=a/n,c=s>=1?`${s.toPrecision(2)} times`:`${Pe(s)} of`,l=Math.ceil(n/r);o(`say-cost`,`Softmax attention would keep the keys and values of ${i===1?`this first step`:`all ${i} steps`}: ${Ie(a)}, ${c} the ${Ie(n)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${l} on; (s, z) never grows.`);let u=(t,n)=>[[0,t],[e.count,n]],d=r*e.count,f={softmax:u(0,d),linear:u(n,n)};Ne(`chart-memory`,e.count,i,d,Ie(d),f,!1);let p=e=>j.steps.map((t,n)=>[t,j[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[j.steps.length-1,Math.max(...j.softmax)];Ne(`chart-time`,j.steps[h],i,g,Fe(g),m,!0);let _=e=>`${Fe(j.softmax[e])} with the cache and ${Fe(j.linear[e])} with (s, z)`;o(`say-measured`,`Times are not of this model and server: they were measured on ${j.date}, on one core (${j.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${j.steps[1]} took ${_(1)}, and step ${j.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function Ne(t,n,r,i,a,o,s){let c=e(t,SVGElement);c.setAttribute(`viewBox`,`0 0 ${F} ${I+18}`);let l=e=>2+(F-4)*e/n,u=e=>14+(I-14)*(1-e/(i||1)),d=(e,t)=>{let n=L(`text`,t);return n.textContent=e,n},f=L(`path`,{d:`M${l(r)} 14V${I}`,class:`rule`}),p=L(`path`,{d:`M2 14V${I}H${F-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[L(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>L(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:I+12}),d(`${n.toLocaleString(`en`)} steps`,{x:F-2,y:I+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${t===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var Pe=e=>`${(100*e).toPrecision(2)} %`,Fe=e=>`${e.toPrecision(2)} ms`,Ie=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,Le=[217,83,44],Re=[49,118,201];function ze(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?Re:Le,n],4*t)}),a.putImageData(o,0,0)}var Be=168,Ve=256,He=`14px`,Ue=182,We=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),R=e=>We.format(e).replace(`-`,`−`),Ge=new Intl.NumberFormat(`en`,{maximumSignificantDigits:6,useGrouping:!1}),Ke=e=>Ge.format(e).replace(`-`,`−`),qe=e=>e>.9995&&e<1?`over 99.9 %`:`${(100*e).toPrecision(3)} %`;function Je(e,t,n,r,i){Ye(e,n,r);let a=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),s=Math.max(e.largest.phi_q,e.largest.phi_k);et(`projected`,[[`q`,t.q,a],[`k`,t.k,a],[`v`,t.v,a],[`φ(q)`,t.phi_q,s],[`φ(k)`,t.phi_k,s]]);let c=`full colour is the largest so far, ${R(a)} in q, k and v, ${R(s)} in φ.`;o(`scale-projected`,`Warm colours are positive, cold ones negative; ${c}`),Xe(e,t,n),Qe(e,t,n,r,i),Me(e,n)}function Ye(t,n,r){let{window:a,step_bytes:s}=t.layout,{width:c,channels:l}=r.size,u=e(`heat-window`,HTMLCanvasElement);u.hidden=!a;let d=s===l?`pixel`:`byte`;if(!a){o(`say-window`,`The model is given the value of the previous byte and the place of the ${d} to draw.`);return}let[f,p]=a,h=`${f} rows above and ${p} pixels to either side, none that comes later`;o(`say-window`,`To draw this ${d}, the model reads the painted pixels around it: ${h}.`);let g=Math.floor(t.position(n)/l),[_,v]=[Math.floor(g/c),g%c];Object.assign(u,{width:2*p+1,height:f+1});let y=u.getContext(`2d`),b=r.copy(e=>e<g).canvas;y.drawImage(b,p-v,f-_),y.fillStyle=`#d9532c`,y.fillRect(p,f,1,1),m(u,i(u.width,Ue))}function Xe(t,n,r){let{key_width:a,value_width:s}=t.layout,c=new Float32Array(a*s).map((e,t)=>n.phi_k[Math.floor(t/s)]*n.v[t%s]),l=t.largest.s,u=Math.min(Be,(e(`stages`,HTMLElement).clientWidth-56)/3);for(let[t,r,o]of[[`heat-before`,`s before the step`,n.before],[`heat-outer`,`φ(k) times v transposed`,c],[`heat-s`,`s after the step`,n.after]]){let n=e(t,HTMLCanvasElement);ze(n,o,s,l),m(n,i(s,u));let c=`from ${R(Math.min(...o))} to ${R(Math.max(...o))}`;n.setAttribute(`aria-label`,`Heat map of ${r}, ${a} rows of ${s} numbers ${c}`)}et(`sums`,[[`z before`,n.zBefore,t.largest.z],[`φ(k)`,n.phi_k,t.largest.z],[`z after`,n.zAfter,t.largest.z]]),o(`scale-s`,`One scale for all three: full colour is the largest so far, ${R(l)} in s, ${R(t.largest.z)} in z.`);let d=(a*s+a).toLocaleString(`en`),f=r===0?`It begins with zeros.`:`It holds the sums over ${r===1?`the step`:`all ${r} steps`} before.`;o(`say-update`,`The memory of this head is the matrix s and the vector z: ${d} numbers, at every step. ${f} This step adds the product of key and value to s, and the key to z.`);let[p,h]=[e(`cell-row`,HTMLInputElement),e(`cell-column`,HTMLInputElement)];[p.max,h.max]=[String(a),String(s)];let g=c.map(Math.abs),_=g.indexOf(Math.max(...g)),v=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,y=v(p,a,Math.floor(_/s)),b=v(h,s,_%s);[p.placeholder,h.placeholder]=[String(y+1),String(b+1)];let ee=y*s+b,x=`${Ke(n.before[ee])} + ${R(n.phi_k[y])} × ${R(n.v[b])}`;o(`cell`,`s[${y+1}, ${b+1}] = ${x} = ${Ke(n.after[ee])}`);let te=e=>n.phi_q.reduce((t,n,r)=>t+n*e(r),0),ne=te(e=>n.zAfter[e]),re=te(e=>n.after[e*s+b]),ie=r===0?`its own`:`all ${r+1} steps so far`;o(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${ie}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),et(`read`,[[`φ(q)`,n.phi_q,Math.max(t.largest.phi_q,t.largest.phi_k)],[`y`,n.y,t.largest.y]]);let ae=`${R(re)} / ${R(ne)} = ${R(n.y[b])}`;o(`read-cell`,`y[${b+1}] = φ(q)ᵀ s[·, ${b+1}] / φ(q)ᵀ z = ${ae}`)}function Ze(t,n,r){let a=new Float32Array(r.width*r.height);n.forEach((e,n)=>a[Math.floor(t.position(n)/r.channels)]+=e);let s=Math.max(...a),c=e(`heat-weights`,HTMLCanvasElement);c.hidden=!1,ze(c,a,r.width,s),m(c,i(r.width,Be));let[l,u]=[Math.floor(a.indexOf(s)/r.width)+1,a.indexOf(s)%r.width+1],d=qe(1/n.length);return o(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${qe(s)}, in row ${l}, column ${u}; if all were equal, each would be ${d}. Softmax attention would keep every key for them; (s, z) has their sum only.`),a}function Qe(t,n,r,i,a){let s=t.position(r),{channels:c}=i.size,l=c===3?[`red`,`green`,`blue`]:[`the pixel`],u=n.probabilities.map((e,t)=>i.bytes[s+t]),d=u.map((e,t)=>`${l[(s+t)%c]} became ${e}, which had probability ${qe(n.probabilities[t][e])}`),f=u.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${t.layerCount} layers, the model gives each of the 256 values a probability; ${d.join(`, `)}.`;o(`say-draw`,m+f+(t.layout.predicts===`categorical`?$e(n,u,a,s):``)),e(`bars`,HTMLElement).replaceChildren(...n.probabilities.map((e,t)=>p(`figure`,{},p(`figcaption`,{},u.length>1?l[t]:`Probability of the values 0 (black) to 255 (white)`),je(e,u[t]))))}function $e(e,[t],n,r){let[i]=Ee(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=Math.min(...[a,o-a,1-o].filter(e=>e>0)),c=Math.max(4,Math.min(9,Math.ceil(-Math.log10(s))+1)),l=`${a.toFixed(c)} to ${o.toFixed(c)}`;return` The seed gave the random number ${i.toFixed(c)}; the probabilities, one after another, pick ${t} from ${l}.`}function et(t,n){let r=e(t,HTMLElement);for(;r.children.length<2*n.length;){let e=p(`canvas`);e.setAttribute(`role`,`img`),r.append(p(`span`),e)}n.forEach(([e,t,n],a)=>{let[o,s]=[r.children[2*a],r.children[2*a+1]];o.textContent=e,ze(s,t,t.length,n),m(s,i(t.length,Ve)),s.style.height=He;let c=`from ${R(Math.min(...t))} to ${R(Math.max(...t))}`;s.setAttribute(`aria-label`,`${e}: ${t.length} numbers ${c}`),s.title=Array.from(t,R).join(`, `)})}var tt=64,nt=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],rt=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=tt;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await f(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,it(e));this.size=it(e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get layerCount(){return this.model.layers}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await c(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:o}=i.attention;this.memory={state:a,cacheOfStep:o/(e+i.steps)};let s=Object.fromEntries(nt.map(e=>[e,at(i[e])]));for(let e of nt)this.largest[e]=Math.max(this.largest[e]??0,ot(s[e]));return{first:e,steps:i.steps,...s}}},it=e=>Math.floor(tt/e)*e||tt;function at(e){let n=new DataView(t(e).buffer);return Float32Array.from({length:n.byteLength/4},(e,t)=>n.getFloat32(4*t,!0))}var ot=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),st=280,ct=160,lt=`any`,ut={preventScroll:!0,focusVisible:!1},dt=[1,2,4],z,B=``,V=null,H,U,W=0,G=1,K=``,q,ft,J;function pt(){e(`how`,HTMLElement).innerHTML=ee,_e(`categorical`),Ce(),window.addEventListener(`beforeprint`,()=>{for(let e of document.querySelectorAll(`#how details`))e.open=!0});for(let t of[`layer`,`head`])e(t,HTMLSelectElement).addEventListener(`change`,()=>void bt(W));r(`watch`,()=>void yt()),e(`screens`,HTMLFieldSetElement).addEventListener(`change`,()=>{Y(Number(document.querySelector(`#screens :checked`).value))}),Y(G);let t={first:()=>0,up:()=>W-U.row,back:()=>W-1,next:()=>W+1,down:()=>W+U.row,last:()=>1/0};for(let[e,n]of Object.entries(t))r(`how-${e}`,()=>U&&Z(n()));r(`how-play`,()=>J===void 0?xt():Q());let n=e(`moment`,HTMLInputElement);n.addEventListener(`input`,()=>Z(Number(n.value)));for(let t of[`cell-row`,`cell-column`])e(t,HTMLInputElement).addEventListener(`input`,$);let i={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};e(`how`,HTMLElement).addEventListener(`keydown`,e=>{let n=e.target,r=n instanceof HTMLSelectElement||n instanceof HTMLPreElement||mt(n),a={PageUp:G-1,PageDown:G+1}[e.key];if(a!==void 0&&!r&&U)return e.preventDefault(),Y(a);let o=i[e.key];!o||r||e.ctrlKey||e.metaKey||e.altKey||!U||(e.preventDefault(),Z(t[o]()))}),e(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!U||!z)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*z.width),o=Math.floor(t/i*z.height);Z(Math.floor(((o*z.width+a)*z.channels-U.layout.first_byte)/U.layout.step_bytes))}),e(`watched`,HTMLCanvasElement).addEventListener(`pointermove`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i}=n;z&&Tt(Math.floor(t/i*z.height),Math.floor(e/r*z.width))}),e(`watched`,HTMLCanvasElement).addEventListener(`pointerleave`,Et),e(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:t,offsetY:n,currentTarget:r})=>{let{clientWidth:i,clientHeight:a,width:o,height:s}=r;e(`cell-row`,HTMLInputElement).value=String(1+Math.floor(n/a*s)),e(`cell-column`,HTMLInputElement).value=String(1+Math.floor(t/i*o)),$()}),window.addEventListener(`tab`,()=>u(`how`)?z&&ht():Q()),_(()=>u(`how`)&&ht()),window.addEventListener(`resize`,$),y((e,t)=>{z=e,H=U=void 0,t&&l(`how`,new URLSearchParams),K=``,vt(`layer`,e.layers,2),vt(`head`,e.heads,e.heads),u(`how`)&&(t?yt():ht())})}var mt=e=>e instanceof HTMLInputElement&&[`number`,`radio`].includes(e.type);function ht(){let t=h(`how`);if(!t.has(`seed`))return H?void 0:void yt();if(String(t)!==K)try{if(t.has(`model`)&&t.get(`model`)!==z.id)throw Error(`This server does not have the model ${t.get(`model`)} of the link.`);if(!d(t.get(`seed`)))throw Error(`The seed of this link is not a seed.`);for(let e of[`layer`,`head`])gt(e,t.get(e)??`1`);Y(Number(t.get(`screen`)??1)),document.activeElement===document.body&&e(`moment`,HTMLInputElement).focus(ut),yt(t)}catch(e){a(e,`how`)}}function gt(t,n){let r=[...e(t,HTMLSelectElement).options].find(({text:e})=>e===n);if(!r)throw Error(`The model has no ${t} ${n}.`);r.selected=!0}function Y(e){let t=[...document.querySelectorAll(`#how .stages > li`)];G=Math.max(1,Math.min(Math.round(e)||1,t.length)),t.forEach((e,t)=>e.classList.toggle(`shown`,t+1===G)),document.querySelectorAll(`#screens input`)[G-1].checked=!0,U&&(_t(),$())}function _t(){let e={layer:X(`layer`)+1,head:X(`head`)+1,step:W+1,screen:G},t=Object.entries(e).map(([e,t])=>[e,String(t)]),n=new URLSearchParams([[`model`,z.id],[`seed`,B],...t]);K=String(n);let r=l(`how`,n);u(`how`)&&b(r,!1)}function vt(t,n,r){let i=Array.from({length:n},(e,t)=>p(`option`,{value:String(t)},`${t+1}`));e(t,HTMLSelectElement).replaceChildren(...i),e(t,HTMLSelectElement).selectedIndex=Math.min(r,n)-1}async function yt(e){ft?.abort(),St(),n();let{signal:t}=ft=new AbortController,{id:r,classes:i,channels:c}=z;U=void 0;let l=H=new s(z);Ot(0),V=null,B=e?.get(`seed`)??v(),e&&(K=String(e));let u=i.length>0&&!i.includes(lt)?lt:`none`;o(`how-status`,`Painting an image.`);try{if(await g({type:`generate`,model:r,n:1,seed:B,class:u},{frame:({first:e,bytes:n})=>{l.paint(e,n),t.aborted||Ot(l.pixels)},image:(e,t)=>void(V=t.class)},t)||t.aborted)return;let n=Number(e?.get(`step`)??NaN);if(n>=1)return await bt(Math.round(n)-1);let i=l.bytes.length>>1,a=l.bytes.findIndex((e,t)=>t>=i&&e>127);await bt((a<0?i:a)/c,!0)}catch(e){if(t.aborted)return;o(`how-status`,``),a(e,`how`)}}async function bt(t,n=!1){if(!H?.done)return;St();let[r,i]=[X(`layer`),X(`head`)],s=new rt(z,H,V,r,i);U=void 0,o(`how-status`,`Asking the server for the numbers of this image.`);let{signal:c}=ft;try{await s.open()}catch(e){o(`how-status`,``),c.aborted||a(e,`how`);return}if(c.aborted||r!==X(`layer`)||i!==X(`head`))return;U=s,e(`stepper`,HTMLElement).inert=!1,o(`how-status`,V===null?``:`An image of class ${V}.`);let{first_byte:l,step_bytes:u,predicts:d}=U.layout;_e(d),e(`moment`,HTMLInputElement).max=String(U.count-1);for(let t of[`cell-row`,`cell-column`])e(t,HTMLInputElement).value=``;Z(n?Math.floor((Math.floor(t)*z.channels-l)/u):t)}var X=t=>Number(e(t,HTMLSelectElement).value);function Z(t){W=Math.max(0,Math.min(t,U.count-1)),e(`moment`,HTMLInputElement).value=String(W),J===void 0&&_t(),$()}function xt(){U&&(W===U.count-1&&Z(0),Ct(!0),J=window.setInterval(()=>{if(!U)return Q();if(U.step(W)){if(W===U.count-1)return Q();Z(W+1)}},ct))}function Q(){let e=J!==void 0;St(),e&&U&&_t()}function St(){window.clearInterval(J),J=void 0,Ct(!1)}function Ct(t){let n=e(`how-play`,HTMLButtonElement);n.setAttribute(`aria-pressed`,String(t)),n.textContent=t?`Pause`:`Play`}function $(){let[t,n]=[U,W];if(!t||!H)return;let{first_byte:r,step_bytes:i}=t.layout,s=t.position(n),c=Math.floor(s/H.size.channels),{width:l}=H.size;Ot(c,c,t.layout.window);let u=`Step ${n+1} of ${t.count}: row ${Math.floor(c/l)+1}, column ${c%l+1}`,d=i===1&&H.size.channels===3?`, ${[`red`,`green`,`blue`][s%3]}`:``;o(`how-place`,u+d+(r&&n===0?` (byte 1 is drawn from a histogram)`:``)),e(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,u+d);let f=t.step(n);if(e(`how`,HTMLElement).setAttribute(`aria-busy`,String(!f)),f){e(`stages`,HTMLElement).hidden=!1,Je(t,f,n,H,B);let r=Math.min(n+t.row,t.count-1);J!==void 0&&!t.step(r)&&t.load(r).catch(()=>void 0),wt(t,n)}else t.load(n).then(()=>U===t&&W===n&&$(),e=>{Q(),U===t&&a(e,`how`)})}async function wt(e,t){o(`say-weights`,`Asking for the keys of all steps before.`);try{let n=await e.weights(t);if(U!==e||W!==t)return;let r=Ze(e,n,z);dt.includes(G)&&Dt(r)}catch(t){U===e&&a(t,`how`)}}function Tt(e,t){let{width:n,height:r,channels:i}=z,a=e*n+t;if(e<0||t<0||e>=r||t>=n||!H?.done)return;let s=U!==void 0&&a*i>U.position(W),c=H.bytes.subarray(a*i,(a+1)*i),l=s?`painted later`:c.join(`, `),u=q&&!s?`, weight ${(100*q[a]).toPrecision(3)} %`:``;o(`how-pixel`,`Row ${e+1}, column ${t+1}: ${l}${u}`)}function Et(){let e=q?`Orange is what this head reads, beyond the window too.`:``,t=`Point at a pixel for its ${q?`weight`:`value`}.`;o(`how-pixel`,matchMedia(`(hover: hover)`).matches?`${e} ${t}`.trim():e)}function Dt(t){q=t;let n=e(`watched`,HTMLCanvasElement),r=n.getContext(`2d`),{width:i}=H.size,a=n.width/i,o=Math.max(...t);t.forEach((e,t)=>{r.fillStyle=`rgb(217 83 44 / ${Math.sqrt(e/o)})`,r.fillRect(t%i*a,Math.floor(t/i)*a,a,a)}),Et()}function Ot(t,n,r){let a=e(`watched`,HTMLCanvasElement);q=void 0;let{width:o,height:s}=H.size,c=i(o,st),l=Math.max(1,Math.round(c*(globalThis.devicePixelRatio||1)));Object.assign(a,{width:o*l,height:s*l}),m(a,c/l);let u=a.getContext(`2d`);u.imageSmoothingEnabled=!1;let d=H.copy(e=>e<t).canvas;if(u.drawImage(d,0,0,a.width,a.height),a.setAttribute(`aria-label`,`Image so far: ${t} of ${o*s} pixels`),n===void 0)return;let[f,p]=[Math.floor(n/o),n%o];if(u.lineWidth=Math.max(1,l/6),r){let[e,t]=r,[n,i]=[Math.max(0,f-e),Math.max(0,p-t)],a=Math.min(o,p+t+1);u.strokeStyle=`#3176c9`,u.strokeRect(i*l,n*l,(a-i)*l,(f-n+1)*l)}u.fillStyle=`#d9532c`,u.fillRect(p*l,f*l,l,l),Et()}export{pt as setUpHow};