import{C as e,S as t,_ as n,a as r,b as i,c as a,f as o,g as s,l as c,o as l,p as u,s as d,v as f,w as p,x as m,y as h}from"./index-VWbiwlb5.js";var g=`<div class="controls">
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
`)}function se(e){for(let t of document.querySelectorAll(`.equation`)){let n=t.dataset.equation,r=n===`draw`?oe[e===`categorical`?`categorical`:`logistics`]:ae[n],i=m(`div`,{className:`equations`});i.innerHTML=r.math.map(e=>`<math display="block">${T(e)}</math>`).join(``),r.number&&i.append(m(`span`,{},`(${r.number})`));let a=m(`pre`,{tabIndex:0},m(`code`,{},r.code));a.setAttribute(`role`,`group`),a.setAttribute(`aria-label`,`Lines of ${r.file}`),t.replaceChildren(...r.math.length?[i]:[],m(`div`,{},m(`small`,{},r.file),a))}}var ce=4294967295n;function le(e,t,n){let r=[Number(e&ce),Number(e>>32n&ce)],[i,a]=ue([n,t>>>0,Math.floor(t/2**32),0],r);return[fe(i),fe(a)]}function ue(e,t){let[n,r,i,a]=e,[o,s]=t;for(let e=0;e<10;e++){let[e,t]=de(3528531795,n),[c,l]=de(3449720151,i);[n,r,i,a]=[(c^r^o)>>>0,l,(e^a^s)>>>0,t],o=o+2654435769>>>0,s=s+3144134277>>>0}return[n,r,i,a]}function de(e,t){let n=e*(t>>>16)+Math.floor(e*(t&65535)/65536);return[Math.floor(n/65536),Math.imul(e,t)>>>0]}var fe=e=>((e>>>9)+.5)*2**-23,I={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},pe=`http://www.w3.org/2000/svg`,[L,R]=[256,72];function z(e,t){let n=document.createElementNS(pe,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function me(e,t){let n=z(`svg`,{viewBox:`0 0 ${L} ${R+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>R*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${R}h1v${-i(e)}h-1z`).join(``),o=z(`path`,{d:`M${t} ${R}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=z(`path`,{d:`M${t+.5} ${R+1}l3 6h-6z`,class:`drawn`});n.append(z(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; ${t} was drawn, which had ${c} %`),n}function he(e,t){let{state:n,cacheOfStep:r}=e.memory,i=t+1,a=r*i,o=a/n,s=o>=1?`${o.toPrecision(2)} times`:`${_e(o)} of`,c=Math.ceil(n/r);p(`say-cost`,`Softmax attention would keep the keys and values of ${i===1?`this first step`:`all ${i} steps`}: ${ve(a)}, ${s} the ${ve(n)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${c} on; (s, z) never grows.`);let l=(t,n)=>[[0,t],[e.count,n]],u=r*e.count,d={softmax:l(0,u),linear:l(n,n)};ge(`chart-memory`,e.count,i,u,ve(u),d,!1);let f=e=>I.steps.map((t,n)=>[t,I[e][n]]),m={softmax:f(`softmax`),linear:f(`linear`)},[h,g]=[I.steps.length-1,Math.max(...I.softmax)];ge(`chart-time`,I.steps[h],i,g,B(g),m,!0);let _=e=>`${B(I.softmax[e])} with the cache and ${B(I.linear[e])} with (s, z)`;p(`say-measured`,`Times are not of this model and server: they were measured on ${I.date}, on one core (${I.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${I.steps[1]} took ${_(1)}, and step ${I.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function ge(e,t,n,r,a,o,s){let c=i(e,SVGElement);c.setAttribute(`viewBox`,`0 0 ${L} ${R+18}`);let l=e=>2+(L-4)*e/t,u=e=>14+(R-14)*(1-e/(r||1)),d=(e,t)=>{let n=z(`text`,t);return n.textContent=e,n},f=z(`path`,{d:`M${l(n)} 14V${R}`,class:`rule`}),p=z(`path`,{d:`M2 14V${R}H${L-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[z(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>z(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:R+12}),d(`${t} steps`,{x:L-2,y:R+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${e===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var _e=e=>`${(100*e).toPrecision(2)} %`,B=e=>`${e.toPrecision(2)} ms`,ve=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,ye=[217,83,44],be=[49,118,201];function xe(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?be:ye,n],4*t)}),a.putImageData(o,0,0)}var Se=168,Ce=256,we=`14px`,Te=182,Ee=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),V=e=>Ee.format(e).replace(`-`,`−`),De=e=>`${(100*e).toPrecision(3)} %`;function Oe(e,t,n,r,i){ke(e,n,r);let a=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),o=Math.max(e.largest.phi_q,e.largest.phi_k);Pe(`projected`,[[`q`,t.q,a],[`k`,t.k,a],[`v`,t.v,a],[`φ(q)`,t.phi_q,o],[`φ(k)`,t.phi_k,o]]);let s=`full colour is ${V(a)} in q, k and v, ${V(o)} in φ.`;p(`scale-projected`,`Warm colours are positive, cold ones negative; ${s}`),Ae(e,t,n),Me(e,t,n,r,i),he(e,n)}function ke(t,n,r){let{window:a,step_bytes:o}=t.layout,{width:s,channels:c}=r.size,l=i(`heat-window`,HTMLCanvasElement);l.hidden=!a;let u=o===c?`pixel`:`byte`;if(!a){p(`say-window`,`The model is given the value of the previous byte and the place of the ${u} to draw.`);return}let[d,f]=a,m=`${d} rows above and ${f} pixels to either side, none that comes later`;p(`say-window`,`To draw this ${u}, the model reads the painted pixels around it: ${m}.`);let g=Math.floor(t.position(n)/c),[_,v]=[Math.floor(g/s),g%s];Object.assign(l,{width:2*f+1,height:d+1});let y=l.getContext(`2d`),b=r.copy(e=>e<g).canvas;y.drawImage(b,f-v,d-_),y.fillStyle=`#d9532c`,y.fillRect(f,d,1,1),h(l,e(l.width,Te))}function Ae(t,n,r){let{key_width:a,value_width:o}=t.layout,s=new Float32Array(a*o).map((e,t)=>n.phi_k[Math.floor(t/o)]*n.v[t%o]),c=t.largest.s,l=Math.min(Se,(i(`sum`,HTMLElement).clientWidth-56)/3);for(let[t,r,u]of[[`heat-before`,`s before the step`,n.before],[`heat-outer`,`φ(k) times v transposed`,s],[`heat-s`,`s after the step`,n.after]]){let n=i(t,HTMLCanvasElement);xe(n,u,o,c),h(n,e(o,l));let s=`from ${V(Math.min(...u))} to ${V(Math.max(...u))}`;n.setAttribute(`aria-label`,`Heat map of ${r}, ${a} rows of ${o} numbers ${s}`)}Pe(`sums`,[[`z before`,n.zBefore,t.largest.z],[`φ(k)`,n.phi_k,t.largest.z],[`z after`,n.zAfter,t.largest.z]]),p(`scale-s`,`One scale for all three: full colour is ${V(c)} in s, ${V(t.largest.z)} in z.`);let u=(a*o+a).toLocaleString(`en`),d=r===0?`It begins with zeros.`:`It holds the sums over ${r===1?`the step`:`all ${r} steps`} before.`;p(`say-update`,`The memory of this head is the matrix s and the vector z: ${u} numbers, at every step. ${d} This step adds the product of key and value to s, and the key to z.`);let[f,m]=[i(`cell-row`,HTMLInputElement),i(`cell-column`,HTMLInputElement)];[f.max,m.max]=[String(a),String(o)];let g=s.map(Math.abs),_=g.indexOf(Math.max(...g)),v=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,y=v(f,a,Math.floor(_/o)),b=v(m,o,_%o);[f.placeholder,m.placeholder]=[String(y+1),String(b+1)];let x=y*o+b,S=`${V(n.before[x])} + ${V(n.phi_k[y])} × ${V(n.v[b])}`;p(`cell`,`s[${y+1}, ${b+1}] = ${S} = ${V(n.after[x])}`);let C=e=>n.phi_q.reduce((t,n,r)=>t+n*e(r),0),w=C(e=>n.zAfter[e]),T=C(e=>n.after[e*o+b]),E=r===0?`its own`:`all ${r+1} steps so far`;p(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${E}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),Pe(`read`,[[`φ(q)`,n.phi_q,Math.max(t.largest.phi_q,t.largest.phi_k)],[`y`,n.y,t.largest.y]]);let D=`${V(T)} / ${V(w)} = ${V(n.y[b])}`;p(`read-cell`,`y[${b+1}] = φ(q)ᵀ s[·, ${b+1}] / φ(q)ᵀ z = ${D}`)}function je(t,n,r){let a=new Float32Array(r.width*r.height);n.forEach((e,n)=>a[Math.floor(t.position(n)/r.channels)]+=e);let o=Math.max(...a),s=i(`heat-weights`,HTMLCanvasElement);xe(s,a,r.width,o),h(s,e(r.width,Se));let[c,l]=[Math.floor(a.indexOf(o)/r.width)+1,a.indexOf(o)%r.width+1],u=De(1/n.length);p(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${De(o)}, in row ${c}, column ${l}; if all were equal, each would be ${u}. Softmax attention would keep every key for them; (s, z) has their sum only.`)}function Me(e,t,n,r,a){let o=e.position(n),{channels:s}=r.size,c=s===3?[`red`,`green`,`blue`]:[`the pixel`],l=t.probabilities.map((e,t)=>r.bytes[o+t]),u=l.map((e,n)=>`${c[(o+n)%s]} became ${e}, which had probability ${De(t.probabilities[n][e])}`),d=l.length>1?` Green is drawn given red, blue given both.`:``,f=`After ${e.layerCount} layers, the model gives each of the 256 values a probability; ${u.join(`, `)}.`;p(`say-draw`,f+d+(e.layout.predicts===`categorical`?Ne(t,l,a,o):``)),i(`bars`,HTMLElement).replaceChildren(...t.probabilities.map((e,t)=>m(`figure`,{},m(`figcaption`,{},l.length>1?c[t]:`Probability of the values 0 (black) to 255 (white)`),me(e,l[t]))))}function Ne(e,[t],n,r){let[i]=le(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=`${a.toFixed(4)} to ${o.toFixed(4)}`;return` The seed gave the random number ${i.toFixed(4)}; the probabilities, one after another, pick ${t} from ${s}.`}function Pe(t,n){let r=i(t,HTMLElement);for(;r.children.length<2*n.length;){let e=m(`canvas`);e.setAttribute(`role`,`img`),r.append(m(`span`),e)}n.forEach(([t,n,i],a)=>{let[o,s]=[r.children[2*a],r.children[2*a+1]];o.textContent=t,xe(s,n,n.length,i),h(s,e(n.length,Ce)),s.style.height=we;let c=`from ${V(Math.min(...n))} to ${V(Math.max(...n))}`;s.setAttribute(`aria-label`,`${t}: ${n.length} numbers ${c}`),s.title=Array.from(n,V).join(`, `)})}var Fe=64,Ie=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],Le=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=Fe;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await c(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,Math.min(Fe,e));this.size=Math.min(Fe,e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get layerCount(){return this.model.layers}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await o(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:s}=i.attention;this.memory={state:a,cacheOfStep:s/(e+i.steps)};let c=Object.fromEntries(Ie.map(e=>[e,Re(i[e])]));for(let e of Ie)this.largest[e]=Math.max(this.largest[e]??0,ze(c[e]));return{first:e,steps:i.steps,...c}}};function Re(e){let t=new DataView(u(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var ze=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),Be=280,Ve=160,He=`any`,H,Ue=``,U=null,W,G,K=0,q,J;function We(){i(`how`,HTMLElement).innerHTML=g,se(`categorical`);for(let e of[`layer`,`head`])i(e,HTMLSelectElement).addEventListener(`change`,()=>void Je(K));t(`watch`,()=>void qe());let e={first:()=>0,up:()=>K-G.row,back:()=>K-1,next:()=>K+1,down:()=>K+G.row,last:()=>1/0};for(let[n,r]of Object.entries(e))t(`how-${n}`,()=>G&&X(r()));i(`weights`,HTMLDetailsElement).addEventListener(`toggle`,Q),t(`how-play`,()=>J===void 0?Ye():Z());let n=i(`moment`,HTMLInputElement);n.addEventListener(`input`,()=>X(Number(n.value)));for(let e of[`cell-row`,`cell-column`])i(e,HTMLInputElement).addEventListener(`input`,Q);let r={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};i(`how`,HTMLElement).addEventListener(`keydown`,t=>{let n=r[t.key],i=t.target,a=i instanceof HTMLSelectElement||i instanceof HTMLPreElement||Ge(i);!n||a||t.ctrlKey||t.metaKey||t.altKey||!G||(t.preventDefault(),X(e[n]()))}),i(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!G||!H)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*H.width),o=Math.floor(t/i*H.height);X(Math.floor(((o*H.width+a)*H.channels-G.layout.first_byte)/G.layout.step_bytes))}),i(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:a,width:o,height:s}=n;i(`cell-row`,HTMLInputElement).value=String(1+Math.floor(t/a*s)),i(`cell-column`,HTMLInputElement).value=String(1+Math.floor(e/r*o)),Q()}),window.addEventListener(`tab`,()=>f(`how`)?H&&!W&&void qe():Z()),window.addEventListener(`resize`,Q),l(e=>{H=e,W=G=void 0,Ke(`layer`,e.layers),Ke(`head`,e.heads),f(`how`)&&qe()})}var Ge=e=>e instanceof HTMLInputElement&&e.type===`number`;function Ke(e,t){let n=Array.from({length:t},(e,t)=>m(`option`,{value:String(t)},`${t+1}`));i(e,HTMLSelectElement).replaceChildren(...n)}async function qe(){q?.abort(),Z(),s();let{signal:e}=q=new AbortController,{id:t,classes:i,channels:o}=H;G=void 0;let c=W=new r(H);$(0),U=null,Ue=d();let l=i.length>0&&!i.includes(He)?He:`none`;p(`how-status`,`Painting an image.`);try{if(await a({type:`generate`,model:t,n:1,seed:Ue,class:l},{frame:({first:t,bytes:n})=>{c.paint(t,n),e.aborted||$(c.pixels)},image:(e,t)=>void(U=t.class)},e)||e.aborted)return;let n=c.bytes.length>>1,r=c.bytes.findIndex((e,t)=>t>=n&&e>127);await Je((r<0?n:r)/o,!0)}catch(t){if(e.aborted)return;p(`how-status`,``),n(t,`how`)}}async function Je(e,t=!1){if(!W?.done)return;Z();let[r,a]=[Y(`layer`),Y(`head`)],o=new Le(H,W,U,r,a);G=void 0,p(`how-status`,`Asking the server for the numbers of this image.`);let{signal:s}=q;try{await o.open()}catch(e){p(`how-status`,``),s.aborted||n(e,`how`);return}if(s.aborted||r!==Y(`layer`)||a!==Y(`head`))return;G=o,i(`stepper`,HTMLElement).inert=!1,p(`how-status`,U===null?``:`An image of class ${U}.`);let{first_byte:c,step_bytes:l,predicts:u}=G.layout;se(u),i(`moment`,HTMLInputElement).max=String(G.count-1);for(let e of[`cell-row`,`cell-column`])i(e,HTMLInputElement).value=``;X(t?Math.floor((Math.floor(e)*H.channels-c)/l):e)}var Y=e=>Number(i(e,HTMLSelectElement).value);function X(e){K=Math.max(0,Math.min(e,G.count-1)),i(`moment`,HTMLInputElement).value=String(K),Q()}function Ye(){G&&(K===G.count-1&&X(0),Xe(!0),J=window.setInterval(()=>{if(!G)return Z();if(G.step(K)){if(K===G.count-1)return Z();X(K+1)}},Ve))}function Z(){window.clearInterval(J),J=void 0,Xe(!1)}function Xe(e){let t=i(`how-play`,HTMLButtonElement);t.setAttribute(`aria-pressed`,String(e)),t.textContent=e?`Pause`:`Play`}function Q(){let[e,t]=[G,K];if(!e||!W)return;let{first_byte:r,step_bytes:a}=e.layout,o=e.position(t),s=Math.floor(o/W.size.channels),{width:c}=W.size;$(s,s,e.layout.window);let l=`Step ${t+1} of ${e.count}: row ${Math.floor(s/c)+1}, column ${s%c+1}`,u=a===1&&W.size.channels===3?`, ${[`red`,`green`,`blue`][o%3]}`:``;p(`how-place`,l+u+(r&&t===0?` (byte 1 is drawn from a histogram)`:``)),i(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,l+u);let d=e.step(t);if(i(`how`,HTMLElement).setAttribute(`aria-busy`,String(!d)),d){i(`stages`,HTMLElement).hidden=i(`why`,HTMLElement).hidden=!1,Oe(e,d,t,W,Ue);let n=Math.min(t+e.row,e.count-1);J!==void 0&&!e.step(n)&&e.load(n).catch(()=>void 0),i(`weights`,HTMLDetailsElement).open&&Ze(e,t)}else e.load(t).then(()=>G===e&&K===t&&Q(),t=>{Z(),G===e&&n(t,`how`)})}async function Ze(e,t){p(`say-weights`,`Asking for the keys of all steps before.`);try{let n=await e.weights(t);G===e&&K===t&&je(e,n,H)}catch(t){G===e&&n(t,`how`)}}function $(t,n,r){let a=i(`watched`,HTMLCanvasElement),{width:o,height:s}=W.size,c=e(o,Be),l=Math.max(1,Math.round(c*(globalThis.devicePixelRatio||1)));Object.assign(a,{width:o*l,height:s*l}),h(a,c/l);let u=a.getContext(`2d`);u.imageSmoothingEnabled=!1;let d=W.copy(e=>e<t).canvas;if(u.drawImage(d,0,0,a.width,a.height),a.setAttribute(`aria-label`,`Image so far: ${t} of ${o*s} pixels`),n===void 0)return;let[f,p]=[Math.floor(n/o),n%o];if(u.lineWidth=Math.max(1,l/6),r){let[e,t]=r,[n,i]=[Math.max(0,f-e),Math.max(0,p-t)],a=Math.min(o,p+t+1);u.strokeStyle=`#3176c9`,u.strokeRect(i*l,n*l,(a-i)*l,(f-n+1)*l)}u.fillStyle=`#d9532c`,u.fillRect(p*l,f*l,l,l)}export{We as setUpHow};