import{A as e,D as t,E as n,O as r,T as i,a,b as o,c as s,h as c,k as l,l as u,m as d,s as f,u as p,w as m,y as h}from"./index-BueiEv4T.js";var g=`<div class="controls">
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
    <p class="hint">Arrow keys move by one step or one row, Home and End to the ends; or click a pixel.</p>
  </div>
  <ol id="stages" class="stages" hidden>
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
      <div class="equation" data-equation="7"></div>
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
      <div class="equation" data-equation="16"></div>
      <div class="equation" data-equation="18"></div>
    </li>
    <li>
      <h2>Read the memory</h2>
      <p id="say-read"></p>
      <div id="read" class="strips"></div>
      <p id="read-cell" class="figures"></p>
      <details id="weights">
        <summary>Which pixels it reads most</summary>
        <canvas id="heat-weights" role="img" aria-labelledby="say-weights"></canvas>
        <p id="say-weights"></p>
      </details>
      <div class="equation" data-equation="20"></div>
    </li>
    <li>
      <h2>Draw the byte</h2>
      <p id="say-draw"></p>
      <div id="bars"></div>
      <div class="equation" data-equation="draw"></div>
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
    </li>
  </ol>
</div>
<div id="why" hidden>
  <h2>Why one sum is enough</h2>
  <p class="hint">
    Softmax attention compares every query with every key. With a feature map φ in its place, the sums over keys can be
    formed first, once for all queries; causal attention keeps them as running sums. Equations of “Transformers are RNNs”
    (Katharopoulos, Vyas, Pappas and Fleuret, ICML 2020), beside the lines of this server’s source that compute them.
  </p>
  <div class="equation" data-equation="4"></div>
  <div class="equation" data-equation="5"></div>
  <div class="equation" data-equation="6"></div>
</div>
`,_=`"""Reference of linear attention, causal (Algorithm 1 of the paper) and not (eq. 4): literal loops, never optimised.

Autograd through it is the reference of gradients.
"""

import torch

EPSILON = 1e-6  # added to the normaliser, as the authors' published code does


def causal_linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, N, C]
    v: torch.Tensor,  # [B, H, N, M]
    s: torch.Tensor | None = None,  # [B, H, C, M]
    z: torch.Tensor | None = None,  # [B, H, C]
    weight: torch.Tensor | None = None,  # [B, N]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute y_i = phi(q_i)^T s_i / (phi(q_i)^T z_i + 1e-6) for every i, s and z being the running sums of
    phi(k_j) v_j^T and phi(k_j) over j <= i (eq. 10-12), from the given state or from zero.

    weight: how many times phi(k_j) counts for the queries after j and in the state; for its own query it counts once.
    Without weights, it is 1.

    Return y [B, H, N, M] and the state after the last position, s [B, H, C, M] and z [B, H, C]. The
    arguments are not changed.
    """
    batch, heads, length, key_width = phi_q.shape
    s = phi_q.new_zeros(batch, heads, key_width, v.shape[-1]) if s is None else s
    z = phi_q.new_zeros(batch, heads, key_width) if z is None else z
    outputs = []
    for i in range(length):
        s = s + phi_k[:, :, i, :, None] * v[:, :, i, None, :]
        z = z + phi_k[:, :, i]
        numerator = (phi_q[:, :, i, :, None] * s).sum(dim=2)
        normaliser = (phi_q[:, :, i] * z).sum(dim=2)
        outputs.append(numerator / (normaliser + EPSILON)[..., None])
        if weight is not None:
            rest = phi_k[:, :, i] * (weight[:, i, None, None] - 1)
            s = s + rest[..., None] * v[:, :, i, None, :]
            z = z + rest
    return torch.stack(outputs, dim=2), s, z


def linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, S, C]
    v: torch.Tensor,  # [B, H, S, M]
    mask: torch.Tensor | None = None,  # [B, S] bool
) -> torch.Tensor:
    """Compute y_i = sum over j of phi(q_i)^T phi(k_j) v_j / (sum over j of phi(q_i)^T phi(k_j) + 1e-6) (eq. 4), over
    all j of the sequence that the mask does not leave out.

    Return y [B, H, N, M]. The arguments are not changed.
    """
    batch, heads, length, _ = phi_q.shape
    y = v.new_zeros(batch, heads, length, v.shape[-1])
    for b in range(batch):
        kept = [j for j in range(v.shape[2]) if mask is None or mask[b, j]]
        for i in range(length):
            numerator = torch.zeros_like(y[b, :, i])
            normaliser = torch.zeros_like(y[b, :, i, 0])
            for j in kept:
                similarity = (phi_q[b, :, i] * phi_k[b, :, j]).sum(dim=-1)
                numerator = numerator + similarity.unsqueeze(-1) * v[b, :, j]
                normaliser = normaliser + similarity
            y[b, :, i] = numerator / (normaliser + EPSILON).unsqueeze(-1)
    return y
`,v=`"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys of its sequence.

One state (s, z) is the sum over all keys, so time and memory are O(N) and no [N, N] tensor exists. Sequences of a batch
may have different lengths: a mask leaves out their padding. Plain torch with its autograd is all it needs, on any
device: two products. The reference is \`reference.linear_attention\`.
"""

import torch

from scanline.kernels.attention.reference import EPSILON


def linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, S, C]
    v: torch.Tensor,  # [B, H, S, M]
    mask: torch.Tensor | None = None,  # [B, S] bool, true for keys; false for padding, which is not read
) -> torch.Tensor:
    """Return y [B, H, N, M], with sums in float32 or wider, in the values' dtype.

    The output of a query of the padding has no meaning, and that of a sequence without keys is 0. The arguments are
    not changed. ValueError where their shapes do not fit.
    """
    batch, heads, _, width = phi_q.shape
    fits = phi_k.shape[:2] == (batch, heads) and phi_k.shape[3] == width and phi_k.shape[:3] == v.shape[:3]
    if not fits or (mask is not None and mask.shape != (batch, phi_k.shape[2])):
        shapes = f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)}"
        raise ValueError(shapes + (f" and mask {list(mask.shape)}" if mask is not None else "") + " do not fit")
    if mask is not None:
        padding = ~mask[:, None, :, None]
        phi_k, v = phi_k.masked_fill(padding, 0), v.masked_fill(padding, 0)  # values too: 0 x NaN is NaN
    wide = torch.promote_types(phi_q.dtype, torch.float32)
    s = (phi_k.mT @ v).to(phi_q.dtype)  # [B, H, C, M]
    z = phi_k.sum(dim=2, dtype=wide)  # [B, H, C]
    normaliser = (phi_q.to(wide) @ z.unsqueeze(-1)) + EPSILON
    return ((phi_q @ s).to(wide) / normaliser).to(v.dtype)
`,y=`"""A byte's distribution as 256 probabilities, for images of drawn strokes: mostly black, white, and greys that follow
no smooth curve. Parameters are [..., 256] logits; \`log_prob\` and \`sample\` read the same softmax.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

VALUES = 256


def guided(with_class: torch.Tensor, without: torch.Tensor, guidance: torch.Tensor) -> torch.Tensor:
    """Return the logits [..., 256] that a guided byte is drawn from: u + w (c - u), c being those with the class, u
    those without and w the guidance [...].

    Source: classifier-free guidance, Ho and Salimans 2022, eq. 6, there of scores, here of logits.
    """
    return without + guidance.unsqueeze(-1) * (with_class - without)


def range_bits(parameters: np.ndarray, values: np.ndarray, tolerances: np.ndarray) -> np.ndarray:
    """Return the bits [B, n] float64 of bytes that are known to within \`tolerances\` [B]: of all that differ no more
    from \`values\` [B, n] uint8, under \`parameters\` [B, n, 256]. numpy's: no image's bits depend on the others."""
    away = np.abs(np.arange(VALUES, dtype=np.int16) - values[..., None].astype(np.int16))
    with np.errstate(divide="ignore", invalid="ignore"):  # of values that are ruled out; of numbers that are not finite
        weights = parameters.astype(np.float64)
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        total = weights.sum(axis=-1)
        weights[away > tolerances[:, None, None].astype(np.int16)] = 0.0
        return np.asarray(np.log2(total) - np.log2(weights.sum(axis=-1)))


@dataclass(frozen=True)
class Categorical:
    """The distribution of one byte a step."""

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return VALUES

    def log_prob(self, parameters: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the natural log-probability [..., 1] of the bytes \`values\` [..., 1] under \`parameters\` [..., 256]."""
        return F.log_softmax(parameters.float(), dim=-1).gather(-1, values.long())

    def sample(
        self,
        parameters: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return bytes [..., 1] uint8, one for each row of \`parameters\` [..., 256]; where \`known\`, those of \`values\`.

        uniforms [..., 1, 2] in (0, 1): the first picks the value, the second is not used. temperature [...] > 0 divides
        the logits.
        """
        weights = torch.softmax(parameters.float() / temperature.unsqueeze(-1), dim=-1)
        cumulative = weights.cumsum(dim=-1)
        picked = (uniforms[..., 0, :1] * cumulative[..., -1:] >= cumulative).sum(dim=-1, keepdim=True)
        return torch.where(known, values, picked.clamp(max=VALUES - 1).to(torch.uint8))

    def sample_guided(
        self,
        with_class: torch.Tensor,
        without: torch.Tensor,
        guidance: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return bytes as \`sample\` does, of images guided by \`guidance\` [...], from logits [..., 256] with the class
        and without."""
        return self.sample(guided(with_class, without, guidance), uniforms, temperature, values, known)
`,b=`"""Feature maps phi, which turn keys and queries into positive features (section 3.2.1).

A map is a function on a tensor [..., C] that keeps its shape and is positive everywhere, so that the normaliser
phi(q)^T z of eq. 20 is never zero. FEATURE_MAPS lists all of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # configurations are checked by processes that do not import torch
    import torch

FeatureMap = Callable[["torch.Tensor"], "torch.Tensor"]


def elu_plus_one(x: "torch.Tensor") -> "torch.Tensor":
    """Return phi(x) = elu(x) + 1 (eq. 7), elementwise on [..., C], in the dtype of x.

    Below zero it is e^x. Computed as (e^x - 1) + 1 it would lose the digits of small features, on which a query with
    few keys before it depends: an error of 6e-8 in float32, 4e-3 in bfloat16.
    """
    from torch.nn.functional import relu

    return relu(x) + x.clamp(max=0).exp().to(x.dtype)  # autocast computes exp in float32 on a GPU


FEATURE_MAPS: dict[str, FeatureMap] = {"elu": elu_plus_one}


def feature_map(name: str) -> FeatureMap:
    """Return the map of that name; ValueError with the known names if there is none."""
    try:
        return FEATURE_MAPS[name]
    except KeyError:
        raise ValueError(f"unknown feature map {name!r}; known: {', '.join(sorted(FEATURE_MAPS))}") from None
`,x=`"""Distribution of the C bytes of a step: one mixture of K discretised logistics, whose channels are conditioned on each
other (Salimans et al., "PixelCNN++", 2017, section 2.2). With one channel it is the paper's distribution of a byte
(section 4.2). Log-probability and sampling share \`_split\` and \`_mean\`, so that what is sampled is what was trained.

A byte x has the value x / 127.5 - 1; its bin reaches half a step to either side, and the first and the last bin take
the tails. Within a component, the mean of a channel is moved by what the pixel's earlier channels were, relative to
their own means, times coefficients that the network predicts: green's by a (R - mu_R), blue's by b (R - mu_R) +
c (G - mu_G).

Parameters of C channels are [..., K + 2 K C + K C (C - 1) / 2]: K logits; K x C means; K x C raw scales;
K x C (C - 1) / 2 coefficients, for colour (a, b, c).

A guided byte is drawn as a categorical one, from the logarithms of the probabilities of its 256 values in two mixtures,
one with the class and one without.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from scanline.kernels.categorical.reference import VALUES, Categorical, guided

LOG_SCALE_FLOOR = -7.0
HALF_BIN = 1 / 255
# Of a guided byte: a probability below it counts as it. Far from all means logarithms differ without bound, and mixed
# they would choose the byte.
MIN_PROBABILITY = 2.0**-40
SCALES = ("exp", "elu")


@dataclass(frozen=True)
class PixelLogistics:
    """The distribution of the \`channels\` bytes of a step, by \`components\` logistics.

    scale: "exp" (floored at e^-7, as the authors' loss) or "elu" (elu(x) + 1.0001, as their sampler).
    """

    components: int
    channels: int
    scale: str = "exp"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(f"unknown scale parametrisation {self.scale!r}; known: {', '.join(SCALES)}")

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return self.components * (1 + 2 * self.channels + self.coefficients)

    @property
    def coefficients(self) -> int:
        """Number of coefficients of a component."""
        return self.channels * (self.channels - 1) // 2

    def log_prob(self, parameters: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the natural log-probability [..., C] of each of a pixel's bytes \`values\` [..., C] given its earlier
        ones, under \`parameters\` [..., width]: differences of the log-sums over components."""
        logits, means, scales, coefficients = self._split(parameters)
        before = F.log_softmax(logits, dim=-1)  # log-weight of each component, times what it gave the earlier bytes
        given, total = torch.zeros_like(before[..., 0]), []
        seen = values.float() / 127.5 - 1
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            before = before + log_bin(values[..., channel, None], mean, scales[..., channel])
            now = torch.logsumexp(before, dim=-1)
            total.append(now - given)
            given = now
        return torch.stack(total, dim=-1)

    def sample(
        self,
        parameters: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return the bytes [..., C] uint8 of a pixel for each row of \`parameters\` [..., width]; where \`known\` [..., C],
        those of \`values\` [..., C].

        Channel by channel: the first of the byte's uniforms [..., C, 2] picks a component by its weight given the
        earlier bytes, painted or known, and the second inverts its logistic. temperature [...] > 0 divides the logits
        and multiplies the scales.
        """
        logits, means, scales, coefficients = self._split(parameters)
        temperature = temperature.unsqueeze(-1)
        scales = scales * temperature.unsqueeze(-1)
        weights = logits / temperature
        painted: list[torch.Tensor] = []
        seen = torch.zeros_like(means[..., 0, :])
        for channel in range(self.channels):
            mean, scale = self._mean(channel, means, coefficients, seen), scales[..., channel]
            cumulative = torch.softmax(weights, dim=-1).cumsum(dim=-1)
            picked = (uniforms[..., channel, :1] * cumulative[..., -1:] >= cumulative).sum(dim=-1, keepdim=True)
            picked = picked.clamp(max=self.components - 1)
            u = uniforms[..., channel, 1:]
            drawn = mean.gather(-1, picked) + scale.gather(-1, picked) * (u.log() - (-u).log1p())
            byte = ((drawn + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
            byte = torch.where(known[..., channel, None], values[..., channel, None], byte)
            painted.append(byte)
            weights = weights + log_bin(byte, mean, scale)
            seen = torch.cat((seen[..., :channel], byte.float() / 127.5 - 1, seen[..., channel + 1 :]), dim=-1)
        return torch.cat(painted, dim=-1)

    def sample_guided(
        self,
        with_class: torch.Tensor,
        without: torch.Tensor,
        guidance: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return bytes as \`sample\` does, of images guided by \`guidance\` [...], from parameters [..., width] with the
        class and without.

        Channel by channel: the logarithms of the probabilities of all 256 values given the earlier bytes, in each of
        both mixtures, are mixed as logits, and divided by the temperature. The first uniform picks the value; the
        second is not used. What each component gives the byte then changes the weights of both mixtures.
        """
        logits, means, scales, coefficients = self._split(torch.stack((with_class, without)))
        weights = F.log_softmax(logits, dim=-1)
        every = torch.arange(VALUES, device=logits.device).unsqueeze(-1)
        painted: list[torch.Tensor] = []
        seen = torch.zeros_like(means[0, ..., 0, :])
        for channel in range(self.channels):
            mean, scale = self._mean(channel, means, coefficients, seen), scales[..., channel]
            each = log_bin(every, mean.unsqueeze(-2), scale.unsqueeze(-2))  # [2, ..., 256, K]
            logs = torch.logsumexp(weights.unsqueeze(-2) + each, dim=-1).clamp(min=math.log(MIN_PROBABILITY))
            own = (part[..., channel : channel + 1] for part in (values, known))
            draws = uniforms[..., channel : channel + 1, :]
            byte = Categorical().sample(guided(logs[0], logs[1], guidance), draws, temperature, *own)
            painted.append(byte)
            weights = F.log_softmax(weights + log_bin(byte, mean, scale), dim=-1)
            seen = torch.cat((seen[..., :channel], byte.float() / 127.5 - 1, seen[..., channel + 1 :]), dim=-1)
        return torch.cat(painted, dim=-1)

    def _split(self, parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return logits [..., K], means and scales [..., K, C], coefficients [..., K, C (C - 1) / 2], float32."""
        k, c = self.components, self.channels
        sizes = (k, k * c, k * c, k * self.coefficients)
        logits, means, raw, coefficients = parameters.float().split(sizes, dim=-1)
        scales = raw.clamp(min=LOG_SCALE_FLOOR).exp() if self.scale == "exp" else F.elu(raw) + 1.0001
        return (
            logits,
            means.unflatten(-1, (k, c)),
            scales.unflatten(-1, (k, c)),
            coefficients.unflatten(-1, (k, self.coefficients)) if self.coefficients else coefficients,
        )

    def _mean(self, channel: int, means: torch.Tensor, coefficients: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Return the means [..., K] of a channel, given the values \`seen\` [..., C] of the earlier ones."""
        mean, first = means[..., channel], channel * (channel - 1) // 2
        for earlier in range(channel):
            error = seen[..., None, earlier] - means[..., earlier]
            mean = mean + coefficients[..., first + earlier] * error
        return mean


def log_bin(values: torch.Tensor, means: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the natural logarithm [..., K] of the probability that each logistic gives the bytes \`values\` [..., 1].

    sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), each factor of which has a stable logarithm; the
    outer bins drop the factors that the tails make 1.
    """
    centred = values.float() / 127.5 - 1 - means
    inner = F.logsigmoid((centred + HALF_BIN) / scales).masked_fill(values == 255, 0.0)
    outer = F.logsigmoid((HALF_BIN - centred) / scales).masked_fill(values == 0, 0.0)
    width = torch.log(-torch.expm1(-2 * HALF_BIN / scales)).masked_fill((values == 0) | (values == 255), 0.0)
    return inner + outer + width
`,S=`"""Reference of the recurrent step: eq. 18-20, image by image and head by head, never optimised."""

import torch

from scanline.kernels.attention.reference import EPSILON


def recurrent_step(
    phi_q: torch.Tensor,  # [B, H, C]
    phi_k: torch.Tensor,  # [B, H, C]
    v: torch.Tensor,  # [B, H, M]
    s: torch.Tensor,  # [B, H, C, M], changed in place
    z: torch.Tensor,  # [B, H, C], changed in place
) -> torch.Tensor:
    """Add phi(k) v^T to s (eq. 18) and phi(k) to z (eq. 19), both IN PLACE, and return
    y = phi(q)^T s / (phi(q)^T z + 1e-6) [B, H, M], the attention's part of eq. 20."""
    y = torch.empty_like(v)
    for b in range(s.shape[0]):
        for h in range(s.shape[1]):
            s[b, h] += torch.outer(phi_k[b, h], v[b, h])
            z[b, h] += phi_k[b, h]
            y[b, h] = (phi_q[b, h] @ s[b, h]) / (phi_q[b, h] @ z[b, h] + EPSILON)
    return y
`,C=e=>`<mi>${e}</mi>`,w=e=>`<mo stretchy="false">${e}</mo>`,T=(...e)=>`<mrow>${e.join(``)}</mrow>`,E=(e,t)=>`<msub>${e}${t}</msub>`,D=e=>`<msup>${T(e)}${C(`T`)}</msup>`,O=(e,t)=>`<mfrac>${T(e)}${T(t)}</mfrac>`,k=e=>`<munder>${w(`∑`)}${C(e)}</munder>`,A=e=>C(`φ`)+w(`(`)+e+w(`)`),j=(e,t=`i`)=>E(C(e),C(t)),ee=e=>E(C(e),`<mn>0</mn>`)+w(`=`)+`<mn>0</mn>`,te=e=>E(C(e),T(C(`i`),w(`−`),`<mn>1</mn>`)),M=e=>j(`x`)+E(C(`W`),C(e)),[N,P,ne]=[A(j(`Q`)),A(j(`K`,`j`)),j(`V`,`j`)],re=`<msubsup>${C(`V`)}${C(`i`)}${w(`′`)}</msubsup>${w(`=`)}`,ie=D(A(M(`Q`))),ae={4:{number:`4`,math:[re+O(k(`j`)+D(N)+P+ne,k(`j`)+D(N)+P)],file:`kernels/attention/reference.py`,code:F(_,`similarity = `,`y[b, :, i] = `)},5:{number:`5`,math:[re+O(D(N)+k(`j`)+P+D(ne),D(N)+k(`j`)+P)],file:`kernels/attention/reference.py`,code:F(_,`s = s + phi_k`,`outputs.append`)},6:{number:`6`,math:[w(`(`)+A(C(`Q`))+D(A(C(`K`)))+w(`)`)+C(`V`),w(`=`)+A(C(`Q`))+w(`(`)+D(A(C(`K`)))+C(`V`)+w(`)`)],file:`kernels/attention/noncausal.py`,code:F(v,`s = (phi_k.mT`,`return ((phi_q`)},7:{number:`7`,math:[A(C(`x`))+w(`=`)+C(`elu`)+w(`(`)+C(`x`)+w(`)`)+w(`+`)+`<mn>1</mn>`],file:`kernels/feature_maps.py`,code:F(b,`return relu(x)`)},16:{number:`16, 17`,math:[ee(`s`)+w(`,`)+`<mspace width="1em"/>`+ee(`z`)],file:`kernels/attention/reference.py`,code:F(_,`s = phi_q.new_zeros`,`z = phi_q.new_zeros`)},18:{number:`18, 19`,math:[j(`s`)+w(`=`)+te(`s`)+w(`+`)+A(M(`K`))+D(w(`(`)+M(`V`)+w(`)`)),j(`z`)+w(`=`)+te(`z`)+w(`+`)+A(M(`K`))],file:`kernels/step/reference.py`,code:F(S,`s[b, h] +=`,`z[b, h] +=`)},20:{number:`20`,math:[j(`y`)+w(`=`)+j(`f`,`l`)+w(`(`)+O(ie+j(`s`),ie+j(`z`))+w(`+`)+j(`x`)+w(`)`)],file:`kernels/step/reference.py`,code:F(S,`y[b, h] = `)}},oe={categorical:{number:``,math:[],file:`kernels/categorical/reference.py`,code:F(y,`weights = torch.softmax`,`picked = `)},logistics:{number:``,math:[],file:`kernels/pixel_logistics/reference.py`,code:F(x,`cumulative = `,`byte = ((drawn`)}};function F(e,t,n=t){let r=e.split(`
`),i=e=>t=>t.trimStart().startsWith(e),a=r.findIndex(i(t)),o=r.findIndex((e,t)=>t>=a&&i(n)(e));if(a<0||o<0)throw Error(`No lines from “${t}” to “${n}”.`);let s=r.slice(a,o+1),c=Math.min(...s.map(e=>e.length-e.trimStart().length));return s.map(e=>e.slice(c)).join(`
`)}function se(e){for(let n of document.querySelectorAll(`.equation`)){let r=n.dataset.equation,i=r===`draw`?oe[e===`categorical`?`categorical`:`logistics`]:ae[r],a=t(`div`,{className:`equations`});a.innerHTML=i.math.map(e=>`<math display="block">${T(e)}</math>`).join(``),i.number&&a.append(t(`span`,{},`(${i.number})`));let o=t(`pre`,{tabIndex:0},t(`code`,{},i.code));o.setAttribute(`role`,`group`),o.setAttribute(`aria-label`,`Lines of ${i.file}`),n.replaceChildren(...i.math.length?[a]:[],t(`div`,{},t(`small`,{},i.file),o))}}var ce=4294967295n;function le(e,t,n){let r=[Number(e&ce),Number(e>>32n&ce)],[i,a]=ue([n,t>>>0,Math.floor(t/2**32),0],r);return[fe(i),fe(a)]}function ue(e,t){let[n,r,i,a]=e,[o,s]=t;for(let e=0;e<10;e++){let[e,t]=de(3528531795,n),[c,l]=de(3449720151,i);[n,r,i,a]=[(c^r^o)>>>0,l,(e^a^s)>>>0,t],o=o+2654435769>>>0,s=s+3144134277>>>0}return[n,r,i,a]}function de(e,t){let n=e*(t>>>16)+Math.floor(e*(t&65535)/65536);return[Math.floor(n/65536),Math.imul(e,t)>>>0]}var fe=e=>((e>>>9)+.5)*2**-23,I={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},pe=`http://www.w3.org/2000/svg`,[L,R]=[256,72];function z(e,t){let n=document.createElementNS(pe,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function me(e,t){let n=z(`svg`,{viewBox:`0 0 ${L} ${R+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>R*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${R}h1v${-i(e)}h-1z`).join(``),o=z(`path`,{d:`M${t} ${R}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=z(`path`,{d:`M${t+.5} ${R+1}l3 6h-6z`,class:`drawn`});n.append(z(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; ${t} was drawn, which had ${c} %`),n}function he(t,n){let{state:r,cacheOfStep:i}=t.memory,a=n+1,o=i*a,s=o/r,c=s>=1?`${s.toPrecision(2)} times`:`${_e(s)} of`,l=Math.ceil(r/i);e(`say-cost`,`Softmax attention would keep the keys and values of ${a===1?`this first step`:`all ${a} steps`}: ${ve(o)}, ${c} the ${ve(r)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${l} on; (s, z) never grows.`);let u=(e,n)=>[[0,e],[t.count,n]],d=i*t.count,f={softmax:u(0,d),linear:u(r,r)};ge(`chart-memory`,t.count,a,d,ve(d),f,!1);let p=e=>I.steps.map((t,n)=>[t,I[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[I.steps.length-1,Math.max(...I.softmax)];ge(`chart-time`,I.steps[h],a,g,B(g),m,!0);let _=e=>`${B(I.softmax[e])} with the cache and ${B(I.linear[e])} with (s, z)`;e(`say-measured`,`Times are not of this model and server: they were measured on ${I.date}, on one core (${I.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${I.steps[1]} took ${_(1)}, and step ${I.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function ge(e,t,r,i,a,o,s){let c=n(e,SVGElement);c.setAttribute(`viewBox`,`0 0 ${L} ${R+18}`);let l=e=>2+(L-4)*e/t,u=e=>14+(R-14)*(1-e/(i||1)),d=(e,t)=>{let n=z(`text`,t);return n.textContent=e,n},f=z(`path`,{d:`M${l(r)} 14V${R}`,class:`rule`}),p=z(`path`,{d:`M2 14V${R}H${L-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[z(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>z(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:R+12}),d(`${t} steps`,{x:L-2,y:R+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${e===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var _e=e=>`${(100*e).toPrecision(2)} %`,B=e=>`${e.toPrecision(2)} ms`,ve=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,ye=[217,83,44],be=[49,118,201];function xe(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?be:ye,n],4*t)}),a.putImageData(o,0,0)}var Se=168,Ce=256,we=`14px`,Te=182,Ee=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),V=e=>Ee.format(e).replace(`-`,`−`),De=e=>`${(100*e).toPrecision(3)} %`;function Oe(t,n,r,i,a){ke(t,r,i);let o=Math.max(...[`q`,`k`,`v`].map(e=>t.largest[e])),s=Math.max(t.largest.phi_q,t.largest.phi_k);Pe(`projected`,[[`q`,n.q,o],[`k`,n.k,o],[`v`,n.v,o],[`φ(q)`,n.phi_q,s],[`φ(k)`,n.phi_k,s]]);let c=`full colour is ${V(o)} in q, k and v, ${V(s)} in φ.`;e(`scale-projected`,`Warm colours are positive, cold ones negative; ${c}`),Ae(t,n,r),Me(t,n,r,i,a),he(t,r)}function ke(t,r,a){let{window:o,step_bytes:s}=t.layout,{width:c,channels:u}=a.size,d=n(`heat-window`,HTMLCanvasElement);d.hidden=!o;let f=s===u?`pixel`:`byte`;if(!o){e(`say-window`,`The model is given the value of the previous byte and the place of the ${f} to draw.`);return}let[p,m]=o,h=`${p} rows above and ${m} pixels to either side, none that comes later`;e(`say-window`,`To draw this ${f}, the model reads the painted pixels around it: ${h}.`);let g=Math.floor(t.position(r)/u),[_,v]=[Math.floor(g/c),g%c];Object.assign(d,{width:2*m+1,height:p+1});let y=d.getContext(`2d`),b=a.copy(e=>e<g).canvas;y.drawImage(b,m-v,p-_),y.fillStyle=`#d9532c`,y.fillRect(m,p,1,1),i(d,l(d.width,Te))}function Ae(t,r,a){let{key_width:o,value_width:s}=t.layout,c=new Float32Array(o*s).map((e,t)=>r.phi_k[Math.floor(t/s)]*r.v[t%s]),u=t.largest.s,d=Math.min(Se,(n(`sum`,HTMLElement).clientWidth-56)/3);for(let[e,t,a]of[[`heat-before`,`s before the step`,r.before],[`heat-outer`,`φ(k) times v transposed`,c],[`heat-s`,`s after the step`,r.after]]){let r=n(e,HTMLCanvasElement);xe(r,a,s,u),i(r,l(s,d));let c=`from ${V(Math.min(...a))} to ${V(Math.max(...a))}`;r.setAttribute(`aria-label`,`Heat map of ${t}, ${o} rows of ${s} numbers ${c}`)}Pe(`sums`,[[`z before`,r.zBefore,t.largest.z],[`φ(k)`,r.phi_k,t.largest.z],[`z after`,r.zAfter,t.largest.z]]),e(`scale-s`,`One scale for all three: full colour is ${V(u)} in s, ${V(t.largest.z)} in z.`);let f=(o*s+o).toLocaleString(`en`),p=a===0?`It begins with zeros.`:`It holds the sums over ${a===1?`the step`:`all ${a} steps`} before.`;e(`say-update`,`The memory of this head is the matrix s and the vector z: ${f} numbers, at every step. ${p} This step adds the product of key and value to s, and the key to z.`);let[m,h]=[n(`cell-row`,HTMLInputElement),n(`cell-column`,HTMLInputElement)];[m.max,h.max]=[String(o),String(s)];let g=c.map(Math.abs),_=g.indexOf(Math.max(...g)),v=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,y=v(m,o,Math.floor(_/s)),b=v(h,s,_%s);[m.placeholder,h.placeholder]=[String(y+1),String(b+1)];let x=y*s+b,S=`${V(r.before[x])} + ${V(r.phi_k[y])} × ${V(r.v[b])}`;e(`cell`,`s[${y+1}, ${b+1}] = ${S} = ${V(r.after[x])}`);let C=e=>r.phi_q.reduce((t,n,r)=>t+n*e(r),0),w=C(e=>r.zAfter[e]),T=C(e=>r.after[e*s+b]),E=a===0?`its own`:`all ${a+1} steps so far`;e(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${E}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),Pe(`read`,[[`φ(q)`,r.phi_q,Math.max(t.largest.phi_q,t.largest.phi_k)],[`y`,r.y,t.largest.y]]);let D=`${V(T)} / ${V(w)} = ${V(r.y[b])}`;e(`read-cell`,`y[${b+1}] = φ(q)ᵀ s[·, ${b+1}] / φ(q)ᵀ z = ${D}`)}function je(t,r,a){let o=new Float32Array(a.width*a.height);r.forEach((e,n)=>o[Math.floor(t.position(n)/a.channels)]+=e);let s=Math.max(...o),c=n(`heat-weights`,HTMLCanvasElement);xe(c,o,a.width,s),i(c,l(a.width,Se));let[u,d]=[Math.floor(o.indexOf(s)/a.width)+1,o.indexOf(s)%a.width+1],f=De(1/r.length);e(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${De(s)}, in row ${u}, column ${d}; if all were equal, each would be ${f}. Softmax attention would keep every key for them; (s, z) has their sum only.`)}function Me(r,i,a,o,s){let c=r.position(a),{channels:l}=o.size,u=l===3?[`red`,`green`,`blue`]:[`the pixel`],d=i.probabilities.map((e,t)=>o.bytes[c+t]),f=d.map((e,t)=>`${u[(c+t)%l]} became ${e}, which had probability ${De(i.probabilities[t][e])}`),p=d.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${r.layerCount} layers, the model gives each of the 256 values a probability; ${f.join(`, `)}.`;e(`say-draw`,m+p+(r.layout.predicts===`categorical`?Ne(i,d,s,c):``)),n(`bars`,HTMLElement).replaceChildren(...i.probabilities.map((e,n)=>t(`figure`,{},t(`figcaption`,{},d.length>1?u[n]:`Probability of the values 0 (black) to 255 (white)`),me(e,d[n]))))}function Ne(e,[t],n,r){let[i]=le(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=`${a.toFixed(4)} to ${o.toFixed(4)}`;return` The seed gave the random number ${i.toFixed(4)}; the probabilities, one after another, pick ${t} from ${s}.`}function Pe(e,r){let a=n(e,HTMLElement);for(;a.children.length<2*r.length;){let e=t(`canvas`);e.setAttribute(`role`,`img`),a.append(t(`span`),e)}r.forEach(([e,t,n],r)=>{let[o,s]=[a.children[2*r],a.children[2*r+1]];o.textContent=e,xe(s,t,t.length,n),i(s,l(t.length,Ce)),s.style.height=we;let c=`from ${V(Math.min(...t))} to ${V(Math.max(...t))}`;s.setAttribute(`aria-label`,`${e}: ${t.length} numbers ${c}`),s.title=Array.from(t,V).join(`, `)})}var Fe=64,Ie=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],Le=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=Fe;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await p(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,Math.min(Fe,e));this.size=Math.min(Fe,e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get layerCount(){return this.model.layers}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await d(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:o}=i.attention;this.memory={state:a,cacheOfStep:o/(e+i.steps)};let s=Object.fromEntries(Ie.map(e=>[e,Re(i[e])]));for(let e of Ie)this.largest[e]=Math.max(this.largest[e]??0,ze(s[e]));return{first:e,steps:i.steps,...s}}};function Re(e){let t=new DataView(c(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var ze=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),Be=280,Ve=160,He=`any`,H,Ue=``,U=null,W,G,K=0,q,J;function We(){n(`how`,HTMLElement).innerHTML=g,se(`categorical`);for(let e of[`layer`,`head`])n(e,HTMLSelectElement).addEventListener(`change`,()=>void Je(K));r(`watch`,()=>void qe());let e={first:()=>0,up:()=>K-G.row,back:()=>K-1,next:()=>K+1,down:()=>K+G.row,last:()=>1/0};for(let[t,n]of Object.entries(e))r(`how-${t}`,()=>G&&X(n()));n(`weights`,HTMLDetailsElement).addEventListener(`toggle`,Q),r(`how-play`,()=>J===void 0?Ye():Z());let t=n(`moment`,HTMLInputElement);t.addEventListener(`input`,()=>X(Number(t.value)));for(let e of[`cell-row`,`cell-column`])n(e,HTMLInputElement).addEventListener(`input`,Q);let i={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};n(`how`,HTMLElement).addEventListener(`keydown`,t=>{let n=i[t.key],r=t.target,a=r instanceof HTMLSelectElement||r instanceof HTMLPreElement||Ge(r);!n||a||t.ctrlKey||t.metaKey||t.altKey||!G||(t.preventDefault(),X(e[n]()))}),n(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!G||!H)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*H.width),o=Math.floor(t/i*H.height);X(Math.floor(((o*H.width+a)*H.channels-G.layout.first_byte)/G.layout.step_bytes))}),n(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:r})=>{let{clientWidth:i,clientHeight:a,width:o,height:s}=r;n(`cell-row`,HTMLInputElement).value=String(1+Math.floor(t/a*s)),n(`cell-column`,HTMLInputElement).value=String(1+Math.floor(e/i*o)),Q()}),window.addEventListener(`tab`,()=>m(`how`)?H&&!W&&void qe():Z()),window.addEventListener(`resize`,Q),f(e=>{H=e,W=G=void 0,Ke(`layer`,e.layers),Ke(`head`,e.heads),m(`how`)&&qe()})}var Ge=e=>e instanceof HTMLInputElement&&e.type===`number`;function Ke(e,r){let i=Array.from({length:r},(e,n)=>t(`option`,{value:String(n)},`${n+1}`));n(e,HTMLSelectElement).replaceChildren(...i)}async function qe(){q?.abort(),Z(),h();let{signal:t}=q=new AbortController,{id:n,classes:r,channels:i}=H;G=void 0;let c=W=new a(H);$(0),U=null,Ue=s();let l=r.length>0&&!r.includes(He)?He:`none`;e(`how-status`,`Painting an image.`);try{if(await u({type:`generate`,model:n,n:1,seed:Ue,class:l},{frame:({first:e,bytes:n})=>{c.paint(e,n),t.aborted||$(c.pixels)},image:(e,t)=>void(U=t.class)},t)||t.aborted)return;let e=c.bytes.length>>1,r=c.bytes.findIndex((t,n)=>n>=e&&t>127);await Je((r<0?e:r)/i,!0)}catch(n){if(t.aborted)return;e(`how-status`,``),o(n,`how`)}}async function Je(t,r=!1){if(!W?.done)return;Z();let[i,a]=[Y(`layer`),Y(`head`)],s=new Le(H,W,U,i,a);G=void 0,e(`how-status`,`Asking the server for the numbers of this image.`);let{signal:c}=q;try{await s.open()}catch(t){e(`how-status`,``),c.aborted||o(t,`how`);return}if(c.aborted||i!==Y(`layer`)||a!==Y(`head`))return;G=s,n(`stepper`,HTMLElement).inert=!1,e(`how-status`,U===null?``:`An image of class ${U}.`);let{first_byte:l,step_bytes:u,predicts:d}=G.layout;se(d),n(`moment`,HTMLInputElement).max=String(G.count-1);for(let e of[`cell-row`,`cell-column`])n(e,HTMLInputElement).value=``;X(r?Math.floor((Math.floor(t)*H.channels-l)/u):t)}var Y=e=>Number(n(e,HTMLSelectElement).value);function X(e){K=Math.max(0,Math.min(e,G.count-1)),n(`moment`,HTMLInputElement).value=String(K),Q()}function Ye(){G&&(K===G.count-1&&X(0),Xe(!0),J=window.setInterval(()=>{if(!G)return Z();if(G.step(K)){if(K===G.count-1)return Z();X(K+1)}},Ve))}function Z(){window.clearInterval(J),J=void 0,Xe(!1)}function Xe(e){let t=n(`how-play`,HTMLButtonElement);t.setAttribute(`aria-pressed`,String(e)),t.textContent=e?`Pause`:`Play`}function Q(){let[t,r]=[G,K];if(!t||!W)return;let{first_byte:i,step_bytes:a}=t.layout,s=t.position(r),c=Math.floor(s/W.size.channels),{width:l}=W.size;$(c,c,t.layout.window);let u=`Step ${r+1} of ${t.count}: row ${Math.floor(c/l)+1}, column ${c%l+1}`,d=a===1&&W.size.channels===3?`, ${[`red`,`green`,`blue`][s%3]}`:``;e(`how-place`,u+d+(i&&r===0?` (byte 1 is drawn from a histogram)`:``)),n(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,u+d);let f=t.step(r);if(n(`how`,HTMLElement).setAttribute(`aria-busy`,String(!f)),f){n(`stages`,HTMLElement).hidden=n(`why`,HTMLElement).hidden=!1,Oe(t,f,r,W,Ue);let e=Math.min(r+t.row,t.count-1);J!==void 0&&!t.step(e)&&t.load(e).catch(()=>void 0),n(`weights`,HTMLDetailsElement).open&&Ze(t,r)}else t.load(r).then(()=>G===t&&K===r&&Q(),e=>{Z(),G===t&&o(e,`how`)})}async function Ze(t,n){e(`say-weights`,`Asking for the keys of all steps before.`);try{let e=await t.weights(n);G===t&&K===n&&je(t,e,H)}catch(e){G===t&&o(e,`how`)}}function $(e,t,r){let a=n(`watched`,HTMLCanvasElement),{width:o,height:s}=W.size,c=l(o,Be),u=Math.max(1,Math.round(c*(globalThis.devicePixelRatio||1)));Object.assign(a,{width:o*u,height:s*u}),i(a,c/u);let d=a.getContext(`2d`);d.imageSmoothingEnabled=!1;let f=W.copy(t=>t<e).canvas;if(d.drawImage(f,0,0,a.width,a.height),a.setAttribute(`aria-label`,`Image so far: ${e} of ${o*s} pixels`),t===void 0)return;let[p,m]=[Math.floor(t/o),t%o];if(d.lineWidth=Math.max(1,u/6),r){let[e,t]=r,[n,i]=[Math.max(0,p-e),Math.max(0,m-t)],a=Math.min(o,m+t+1);d.strokeStyle=`#3176c9`,d.strokeRect(i*u,n*u,(a-i)*u,(p-n+1)*u)}d.fillStyle=`#d9532c`,d.fillRect(m*u,p*u,u,u)}export{We as setUpHow};