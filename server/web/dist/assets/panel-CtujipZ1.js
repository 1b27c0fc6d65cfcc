import{A as e,D as t,E as n,O as r,T as i,a,b as o,c as s,d as c,f as l,h as u,j as d,k as f,l as p,m,o as h,p as g,s as _,u as ee,w as v,y}from"./index-DJJPgPX1.js";var te=`<div class="controls">
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
`,ne=`"""Reference of linear attention, causal (Algorithm 1 of the paper) and not (eq. 4): literal loops, never optimised.

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
) -> torch.Tensor:
    """Return y_i = sum over j of phi(q_i)^T phi(k_j) v_j / (sum over j of phi(q_i)^T phi(k_j) + 1e-6) (eq. 4)."""
    batch, heads, length, _ = phi_q.shape
    y = v.new_zeros(batch, heads, length, v.shape[-1])
    for b in range(batch):
        for i in range(length):
            numerator = torch.zeros_like(y[b, :, i])
            normaliser = torch.zeros_like(y[b, :, i, 0])
            for j in range(v.shape[2]):
                similarity = (phi_q[b, :, i] * phi_k[b, :, j]).sum(dim=-1)
                numerator = numerator + similarity.unsqueeze(-1) * v[b, :, j]
                normaliser = normaliser + similarity
            y[b, :, i] = numerator / (normaliser + EPSILON).unsqueeze(-1)
    return y
`,re=`"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys of its sequence.

One state (s, z) is the sum over all keys, so time and memory are O(N) and no [N, N] tensor exists. Plain torch with its
autograd is all it needs, on any device: two products. The reference is \`reference.linear_attention\`.
"""

import torch

from scanline.kernels.attention.reference import EPSILON


def linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, S, C]
    v: torch.Tensor,  # [B, H, S, M]
) -> torch.Tensor:
    """Return y [B, H, N, M], its sums in float32 or wider, in the values' dtype; ValueError where shapes do not fit."""
    if (*phi_q.shape[:2], phi_q.shape[3]) != (*phi_k.shape[:2], phi_k.shape[3]) or phi_k.shape[:3] != v.shape[:3]:
        shapes = f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)}"
        raise ValueError(f"{shapes} do not fit")
    wide = torch.promote_types(phi_q.dtype, torch.float32)
    s = (phi_k.mT @ v).to(phi_q.dtype)  # [B, H, C, M]
    z = phi_k.sum(dim=2, dtype=wide)  # [B, H, C]
    normaliser = (phi_q.to(wide) @ z.unsqueeze(-1)) + EPSILON
    return ((phi_q @ s).to(wide) / normaliser).to(v.dtype)
`,ie=`"""A byte's distribution as 256 probabilities, for images of drawn strokes: mostly black, white, and greys that follow
no smooth curve. Parameters are [..., 256] logits; \`log_prob\` and \`sample\` read the same softmax.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

VALUES = 256


def guided(with_class: Tensor, without: Tensor, guidance: Tensor) -> Tensor:
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

    def log_prob(self, parameters: Tensor, values: Tensor) -> Tensor:
        """Return the natural log-probability [..., 1] of the bytes \`values\` [..., 1] under \`parameters\` [..., 256]."""
        return F.log_softmax(parameters.float(), dim=-1).gather(-1, values.long())

    def sample(
        self, parameters: Tensor, uniforms: Tensor, temperature: Tensor, values: Tensor, known: Tensor
    ) -> Tensor:
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
        with_class: Tensor,
        without: Tensor,
        guidance: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes as \`sample\` does, of images guided by \`guidance\` [...], from logits [..., 256] with the class
        and without."""
        return self.sample(guided(with_class, without, guidance), uniforms, temperature, values, known)
`,ae=`"""Feature maps phi, which turn keys and queries into positive features (section 3.2.1).

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
`,oe=`"""Distribution of the C bytes of a step: one mixture of K discretised logistics, whose channels are conditioned on each
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
from torch import Tensor

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

    def log_prob(self, parameters: Tensor, values: Tensor) -> Tensor:
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
        self, parameters: Tensor, uniforms: Tensor, temperature: Tensor, values: Tensor, known: Tensor
    ) -> Tensor:
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
        painted: list[Tensor] = []
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
        with_class: Tensor,
        without: Tensor,
        guidance: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes as \`sample\` does, of images guided by \`guidance\` [...], from parameters [..., width] with the
        class and without.

        Channel by channel: the logarithms of the probabilities of all 256 values given the earlier bytes, in each of
        both mixtures, are mixed as logits, and divided by the temperature. The first uniform picks the value; the
        second is not used. What each component gives the byte then changes the weights of both mixtures.
        """
        logits, means, scales, coefficients = self._split(torch.stack((with_class, without)))
        weights = F.log_softmax(logits, dim=-1)
        every = torch.arange(VALUES, device=logits.device).unsqueeze(-1)
        painted: list[Tensor] = []
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

    def _split(self, parameters: Tensor) -> tuple[Tensor, ...]:
        """Return logits [..., K], means and scales [..., K, C], coefficients [..., K, C (C - 1) / 2], float32."""
        k, c = self.components, self.channels
        logits, means, raw, coefficients = parameters.float().split((k, k * c, k * c, k * self.coefficients), dim=-1)
        scales = raw.clamp(min=LOG_SCALE_FLOOR).exp() if self.scale == "exp" else F.elu(raw) + 1.0001
        return (
            logits,
            means.unflatten(-1, (k, c)),
            scales.unflatten(-1, (k, c)),
            coefficients.unflatten(-1, (k, self.coefficients)) if self.coefficients else coefficients,
        )

    def _mean(self, channel: int, means: Tensor, coefficients: Tensor, seen: Tensor) -> Tensor:
        """Return the means [..., K] of a channel, given the values \`seen\` [..., C] of the earlier ones."""
        mean, first = means[..., channel], channel * (channel - 1) // 2
        for earlier in range(channel):
            error = seen[..., None, earlier] - means[..., earlier]
            mean = mean + coefficients[..., first + earlier] * error
        return mean


def log_bin(values: Tensor, means: Tensor, scales: Tensor) -> Tensor:
    """Return the natural logarithm [..., K] of the probability that each logistic gives the bytes \`values\` [..., 1].

    sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), each factor of which has a stable logarithm; the
    outer bins drop the factors that the tails make 1.
    """
    centred = values.float() / 127.5 - 1 - means
    inner = F.logsigmoid((centred + HALF_BIN) / scales).masked_fill(values == 255, 0.0)
    outer = F.logsigmoid((HALF_BIN - centred) / scales).masked_fill(values == 0, 0.0)
    width = torch.log(-torch.expm1(-2 * HALF_BIN / scales)).masked_fill((values == 0) | (values == 255), 0.0)
    return inner + outer + width
`,se=`"""Reference of the recurrent step: eq. 18-20, image by image and head by head, never optimised."""

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
`,b=e=>`<mi>${e}</mi>`,x=e=>`<mo stretchy="false">${e}</mo>`,S=(...e)=>`<mrow>${e.join(``)}</mrow>`,C=(e,t)=>`<msub>${e}${t}</msub>`,w=e=>`<msup>${S(e)}${b(`T`)}</msup>`,ce=(e,t)=>`<mfrac>${S(e)}${S(t)}</mfrac>`,T=e=>`<munder>${x(`∑`)}${b(e)}</munder>`,E=e=>b(`φ`)+x(`(`)+e+x(`)`),D=(e,t=`i`)=>C(b(e),b(t)),le=e=>C(b(e),`<mn>0</mn>`)+x(`=`)+`<mn>0</mn>`,ue=e=>C(b(e),S(b(`i`),x(`−`),`<mn>1</mn>`)),de=e=>D(`x`)+C(b(`W`),b(e)),[fe,O,pe]=[E(D(`Q`)),E(D(`K`,`j`)),D(`V`,`j`)],me=`<msubsup>${b(`V`)}${b(`i`)}${x(`′`)}</msubsup>${x(`=`)}`,he=w(E(de(`Q`))),ge={4:{number:`4`,math:[me+ce(T(`j`)+w(fe)+O+pe,T(`j`)+w(fe)+O)],file:`kernels/attention/reference.py`,code:k(ne,`similarity = `,`y[b, :, i] = `)},5:{number:`5`,math:[me+ce(w(fe)+T(`j`)+O+w(pe),w(fe)+T(`j`)+O)],file:`kernels/attention/reference.py`,code:k(ne,`s = s + phi_k`,`outputs.append`)},6:{number:`6`,math:[x(`(`)+E(b(`Q`))+w(E(b(`K`)))+x(`)`)+b(`V`),x(`=`)+E(b(`Q`))+x(`(`)+w(E(b(`K`)))+b(`V`)+x(`)`)],file:`kernels/attention/noncausal.py`,code:k(re,`s = (phi_k.mT`,`return ((phi_q`)},7:{number:`7`,math:[E(b(`x`))+x(`=`)+b(`elu`)+x(`(`)+b(`x`)+x(`)`)+x(`+`)+`<mn>1</mn>`],file:`kernels/feature_maps.py`,code:k(ae,`return relu(x)`)},16:{number:`16, 17`,math:[le(`s`)+x(`,`)+`<mspace width="1em"/>`+le(`z`)],file:`kernels/attention/reference.py`,code:k(ne,`s = phi_q.new_zeros`,`z = phi_q.new_zeros`)},18:{number:`18, 19`,math:[D(`s`)+x(`=`)+ue(`s`)+x(`+`)+E(de(`K`))+w(x(`(`)+de(`V`)+x(`)`)),D(`z`)+x(`=`)+ue(`z`)+x(`+`)+E(de(`K`))],file:`kernels/step/reference.py`,code:k(se,`s[b, h] +=`,`z[b, h] +=`)},20:{number:`20`,math:[D(`y`)+x(`=`)+D(`f`,`l`)+x(`(`)+ce(he+D(`s`),he+D(`z`))+x(`+`)+D(`x`)+x(`)`)],file:`kernels/step/reference.py`,code:k(se,`y[b, h] = `)}},_e={categorical:{number:``,math:[],file:`kernels/categorical/reference.py`,code:k(ie,`weights = torch.softmax`,`picked = `)},logistics:{number:``,math:[],file:`kernels/pixel_logistics/reference.py`,code:k(oe,`cumulative = `,`byte = ((drawn`)}};function k(e,t,n=t){let r=e.split(`
`),i=e=>t=>t.trimStart().startsWith(e),a=r.findIndex(i(t)),o=r.findIndex((e,t)=>t>=a&&i(n)(e));if(a<0||o<0)throw Error(`No lines from “${t}” to “${n}”.`);let s=r.slice(a,o+1),c=Math.min(...s.map(e=>e.length-e.trimStart().length));return s.map(e=>e.slice(c)).join(`
`)}function ve(e){for(let t of document.querySelectorAll(`.equation`)){let n=t.dataset.equation,i=n===`draw`?_e[e===`categorical`?`categorical`:`logistics`]:ge[n],a=r(`div`,{className:`equations`});a.innerHTML=i.math.map(e=>`<math display="block">${S(e)}</math>`).join(``),i.number&&a.append(r(`span`,{},`(${i.number})`));let o=r(`pre`,{tabIndex:0},r(`code`,{},i.code));o.setAttribute(`role`,`group`),o.setAttribute(`aria-label`,`Lines of ${i.file}`),t.replaceChildren(...i.math.length?[a]:[],r(`div`,{},r(`small`,{},i.file),o))}}var A={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},ye=5,j=A.steps.at(-1),M=Math.sqrt(j);function be(e){let{steps:t}=A,n=new Float64Array(j+1);for(let r=1,i=1;r<=j;r++){r>t[i]&&i++;let a=(r-t[i-1])/(t[i]-t[i-1]);n[r]=n[r-1]+e[i-1]+a*(e[i]-e[i-1])}return n}var xe={linear:be(A.linear),softmax:be(A.softmax)},N=xe.linear[j],Se=e=>`${Math.round(e/1e3)} s`,Ce=0;function we(){let e=xe.softmax[j];d(`say-race`,`At these times, an image of ${M} × ${M} pixels takes ${Se(N)} with (s, z) and ${Se(e)} with softmax and its cache: ${(e/N).toPrecision(2)} times as long. The race is ${Math.round(N/1e3/ye)} times as fast, and ends when the first image is painted.`),Te(N);let t=matchMedia(`(prefers-reduced-motion: reduce)`);f(`race-go`,()=>{cancelAnimationFrame(Ce);let e=performance.now(),n=()=>{let r=t.matches?1:Math.min(1,(performance.now()-e)/(1e3*ye));Te(r*N),r<1&&(Ce=requestAnimationFrame(n))};n()})}function Te(e){let n=Object.entries(xe).map(([n,r])=>{let i=r.findIndex(t=>t>e),a=i<0?j:i-1,[o,s]=[Math.floor(a/M),a%M];return t(`race-${n}`,SVGPathElement).setAttribute(`d`,`M0 0H${M}V${o}H${s}V${o+1}H0z`),`${a.toLocaleString(`en`)} with ${n===`linear`?`(s, z)`:`softmax`}`});d(`race-place`,`Pixels after ${Se(e)}: ${n.join(`, `)}`)}var Ee=4294967295n;function De(e,t,n){let r=[Number(e&Ee),Number(e>>32n&Ee)],[i,a]=Oe([n,t>>>0,Math.floor(t/2**32),0],r);return[Ae(i),Ae(a)]}function Oe(e,t){let[n,r,i,a]=e,[o,s]=t;for(let e=0;e<10;e++){let[e,t]=ke(3528531795,n),[c,l]=ke(3449720151,i);[n,r,i,a]=[(c^r^o)>>>0,l,(e^a^s)>>>0,t],o=o+2654435769>>>0,s=s+3144134277>>>0}return[n,r,i,a]}function ke(e,t){let n=e*(t>>>16)+Math.floor(e*(t&65535)/65536);return[Math.floor(n/65536),Math.imul(e,t)>>>0]}var Ae=e=>((e>>>9)+.5)*2**-23,je=`http://www.w3.org/2000/svg`,[P,F]=[256,72];function I(e,t){let n=document.createElementNS(je,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function Me(e,t){let n=I(`svg`,{viewBox:`0 0 ${P} ${F+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>F*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${F}h1v${-i(e)}h-1z`).join(``),o=I(`path`,{d:`M${t} ${F}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=I(`path`,{d:`M${t+.5} ${F+1}l3 6h-6z`,class:`drawn`});n.append(I(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; ${t} was drawn, which had ${c} %`),n}function Ne(e,t){let{state:n,cacheOfStep:r}=e.memory,i=t+1,a=r*i,o=a/n,s=o>=1?`${o.toPrecision(2)} times`:`${Fe(o)} of`,c=Math.ceil(n/r);d(`say-cost`,`Softmax attention would keep the keys and values of ${i===1?`this first step`:`all ${i} steps`}: ${Le(a)}, ${s} the ${Le(n)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${c} on; (s, z) never grows.`);let l=(t,n)=>[[0,t],[e.count,n]],u=r*e.count,f={softmax:l(0,u),linear:l(n,n)};Pe(`chart-memory`,e.count,i,u,Le(u),f,!1);let p=e=>A.steps.map((t,n)=>[t,A[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[A.steps.length-1,Math.max(...A.softmax)];Pe(`chart-time`,A.steps[h],i,g,Ie(g),m,!0);let _=e=>`${Ie(A.softmax[e])} with the cache and ${Ie(A.linear[e])} with (s, z)`;d(`say-measured`,`Times are not of this model and server: they were measured on ${A.date}, on one core (${A.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${A.steps[1]} took ${_(1)}, and step ${A.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function Pe(e,n,r,i,a,o,s){let c=t(e,SVGElement);c.setAttribute(`viewBox`,`0 0 ${P} ${F+18}`);let l=e=>2+(P-4)*e/n,u=e=>14+(F-14)*(1-e/(i||1)),d=(e,t)=>{let n=I(`text`,t);return n.textContent=e,n},f=I(`path`,{d:`M${l(r)} 14V${F}`,class:`rule`}),p=I(`path`,{d:`M2 14V${F}H${P-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[I(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>I(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:F+12}),d(`${n.toLocaleString(`en`)} steps`,{x:P-2,y:F+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${e===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var Fe=e=>`${(100*e).toPrecision(2)} %`,Ie=e=>`${e.toPrecision(2)} ms`,Le=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,Re=[217,83,44],ze=[49,118,201];function Be(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?ze:Re,n],4*t)}),a.putImageData(o,0,0)}var Ve=168,He=256,Ue=`14px`,We=182,Ge=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),L=e=>Ge.format(e).replace(`-`,`−`),Ke=e=>`${(100*e).toPrecision(3)} %`;function qe(e,t,n,r,i){Je(e,n,r);let a=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),o=Math.max(e.largest.phi_q,e.largest.phi_k);$e(`projected`,[[`q`,t.q,a],[`k`,t.k,a],[`v`,t.v,a],[`φ(q)`,t.phi_q,o],[`φ(k)`,t.phi_k,o]]);let s=`full colour is ${L(a)} in q, k and v, ${L(o)} in φ.`;d(`scale-projected`,`Warm colours are positive, cold ones negative; ${s}`),Ye(e,t,n),Ze(e,t,n,r,i),Ne(e,n)}function Je(r,i,a){let{window:o,step_bytes:s}=r.layout,{width:c,channels:l}=a.size,u=t(`heat-window`,HTMLCanvasElement);u.hidden=!o;let f=s===l?`pixel`:`byte`;if(!o){d(`say-window`,`The model is given the value of the previous byte and the place of the ${f} to draw.`);return}let[p,m]=o,h=`${p} rows above and ${m} pixels to either side, none that comes later`;d(`say-window`,`To draw this ${f}, the model reads the painted pixels around it: ${h}.`);let g=Math.floor(r.position(i)/l),[_,ee]=[Math.floor(g/c),g%c];Object.assign(u,{width:2*m+1,height:p+1});let v=u.getContext(`2d`),y=a.copy(e=>e<g).canvas;v.drawImage(y,m-ee,p-_),v.fillStyle=`#d9532c`,v.fillRect(m,p,1,1),n(u,e(u.width,We))}function Ye(r,i,a){let{key_width:o,value_width:s}=r.layout,c=new Float32Array(o*s).map((e,t)=>i.phi_k[Math.floor(t/s)]*i.v[t%s]),l=r.largest.s,u=Math.min(Ve,(t(`stages`,HTMLElement).clientWidth-56)/3);for(let[r,a,d]of[[`heat-before`,`s before the step`,i.before],[`heat-outer`,`φ(k) times v transposed`,c],[`heat-s`,`s after the step`,i.after]]){let i=t(r,HTMLCanvasElement);Be(i,d,s,l),n(i,e(s,u));let c=`from ${L(Math.min(...d))} to ${L(Math.max(...d))}`;i.setAttribute(`aria-label`,`Heat map of ${a}, ${o} rows of ${s} numbers ${c}`)}$e(`sums`,[[`z before`,i.zBefore,r.largest.z],[`φ(k)`,i.phi_k,r.largest.z],[`z after`,i.zAfter,r.largest.z]]),d(`scale-s`,`One scale for all three: full colour is ${L(l)} in s, ${L(r.largest.z)} in z.`);let f=(o*s+o).toLocaleString(`en`),p=a===0?`It begins with zeros.`:`It holds the sums over ${a===1?`the step`:`all ${a} steps`} before.`;d(`say-update`,`The memory of this head is the matrix s and the vector z: ${f} numbers, at every step. ${p} This step adds the product of key and value to s, and the key to z.`);let[m,h]=[t(`cell-row`,HTMLInputElement),t(`cell-column`,HTMLInputElement)];[m.max,h.max]=[String(o),String(s)];let g=c.map(Math.abs),_=g.indexOf(Math.max(...g)),ee=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,v=ee(m,o,Math.floor(_/s)),y=ee(h,s,_%s);[m.placeholder,h.placeholder]=[String(v+1),String(y+1)];let te=v*s+y,ne=`${L(i.before[te])} + ${L(i.phi_k[v])} × ${L(i.v[y])}`;d(`cell`,`s[${v+1}, ${y+1}] = ${ne} = ${L(i.after[te])}`);let re=e=>i.phi_q.reduce((t,n,r)=>t+n*e(r),0),ie=re(e=>i.zAfter[e]),ae=re(e=>i.after[e*s+y]),oe=a===0?`its own`:`all ${a+1} steps so far`;d(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${oe}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),$e(`read`,[[`φ(q)`,i.phi_q,Math.max(r.largest.phi_q,r.largest.phi_k)],[`y`,i.y,r.largest.y]]);let se=`${L(ae)} / ${L(ie)} = ${L(i.y[y])}`;d(`read-cell`,`y[${y+1}] = φ(q)ᵀ s[·, ${y+1}] / φ(q)ᵀ z = ${se}`)}function Xe(r,i,a){let o=new Float32Array(a.width*a.height);i.forEach((e,t)=>o[Math.floor(r.position(t)/a.channels)]+=e);let s=Math.max(...o),c=t(`heat-weights`,HTMLCanvasElement);c.hidden=!1,Be(c,o,a.width,s),n(c,e(a.width,Ve));let[l,u]=[Math.floor(o.indexOf(s)/a.width)+1,o.indexOf(s)%a.width+1],f=Ke(1/i.length);return d(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${Ke(s)}, in row ${l}, column ${u}; if all were equal, each would be ${f}. Softmax attention would keep every key for them; (s, z) has their sum only.`),o}function Ze(e,n,i,a,o){let s=e.position(i),{channels:c}=a.size,l=c===3?[`red`,`green`,`blue`]:[`the pixel`],u=n.probabilities.map((e,t)=>a.bytes[s+t]),f=u.map((e,t)=>`${l[(s+t)%c]} became ${e}, which had probability ${Ke(n.probabilities[t][e])}`),p=u.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${e.layerCount} layers, the model gives each of the 256 values a probability; ${f.join(`, `)}.`;d(`say-draw`,m+p+(e.layout.predicts===`categorical`?Qe(n,u,o,s):``)),t(`bars`,HTMLElement).replaceChildren(...n.probabilities.map((e,t)=>r(`figure`,{},r(`figcaption`,{},u.length>1?l[t]:`Probability of the values 0 (black) to 255 (white)`),Me(e,u[t]))))}function Qe(e,[t],n,r){let[i]=De(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=Math.max(4,Math.min(9,Math.ceil(-Math.log10(o-a))+1)),c=`${a.toFixed(s)} to ${o.toFixed(s)}`;return` The seed gave the random number ${i.toFixed(s)}; the probabilities, one after another, pick ${t} from ${c}.`}function $e(i,a){let o=t(i,HTMLElement);for(;o.children.length<2*a.length;){let e=r(`canvas`);e.setAttribute(`role`,`img`),o.append(r(`span`),e)}a.forEach(([t,r,i],a)=>{let[s,c]=[o.children[2*a],o.children[2*a+1]];s.textContent=t,Be(c,r,r.length,i),n(c,e(r.length,He)),c.style.height=Ue;let l=`from ${L(Math.min(...r))} to ${L(Math.max(...r))}`;c.setAttribute(`aria-label`,`${t}: ${r.length} numbers ${l}`),c.title=Array.from(r,L).join(`, `)})}var et=64,tt=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],nt=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=et;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await u(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,rt(e));this.size=rt(e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get layerCount(){return this.model.layers}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await y(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:o}=i.attention;this.memory={state:a,cacheOfStep:o/(e+i.steps)};let s=Object.fromEntries(tt.map(e=>[e,it(i[e])]));for(let e of tt)this.largest[e]=Math.max(this.largest[e]??0,at(s[e]));return{first:e,steps:i.steps,...s}}},rt=e=>Math.floor(et/e)*e||et;function it(e){let t=new DataView(o(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var at=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),ot=280,st=160,ct=`any`,lt={preventScroll:!0,focusVisible:!1},ut=[1,2,4],R,z=``,B=null,V,H,U=0,W=1,G=``,K,dt,q;function ft(){t(`how`,HTMLElement).innerHTML=te,ve(`categorical`),we(),window.addEventListener(`beforeprint`,()=>{for(let e of document.querySelectorAll(`#how details`))e.open=!0});for(let e of[`layer`,`head`])t(e,HTMLSelectElement).addEventListener(`change`,()=>void vt(U));f(`watch`,()=>void Y()),t(`screens`,HTMLFieldSetElement).addEventListener(`change`,()=>{J(Number(document.querySelector(`#screens :checked`).value))}),J(W);let e={first:()=>0,up:()=>U-H.row,back:()=>U-1,next:()=>U+1,down:()=>U+H.row,last:()=>1/0};for(let[t,n]of Object.entries(e))f(`how-${t}`,()=>H&&Z(n()));f(`how-play`,()=>q===void 0?yt():Q());let n=t(`moment`,HTMLInputElement);n.addEventListener(`input`,()=>Z(Number(n.value)));for(let e of[`cell-row`,`cell-column`])t(e,HTMLInputElement).addEventListener(`input`,$);let r={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};t(`how`,HTMLElement).addEventListener(`keydown`,t=>{let n=t.target,i=n instanceof HTMLSelectElement||n instanceof HTMLPreElement||pt(n),a={PageUp:W-1,PageDown:W+1}[t.key];if(a!==void 0&&!i&&H)return t.preventDefault(),J(a);let o=r[t.key];!o||i||t.ctrlKey||t.metaKey||t.altKey||!H||(t.preventDefault(),Z(e[o]()))}),t(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!H||!R)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*R.width),o=Math.floor(t/i*R.height);Z(Math.floor(((o*R.width+a)*R.channels-H.layout.first_byte)/H.layout.step_bytes))}),t(`watched`,HTMLCanvasElement).addEventListener(`pointermove`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i}=n;R&&Ct(Math.floor(t/i*R.height),Math.floor(e/r*R.width))}),t(`watched`,HTMLCanvasElement).addEventListener(`pointerleave`,wt),t(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:n,currentTarget:r})=>{let{clientWidth:i,clientHeight:a,width:o,height:s}=r;t(`cell-row`,HTMLInputElement).value=String(1+Math.floor(n/a*s)),t(`cell-column`,HTMLInputElement).value=String(1+Math.floor(e/i*o)),$()}),window.addEventListener(`tab`,()=>c(`how`)?R&&mt():Q()),h(()=>c(`how`)&&mt()),window.addEventListener(`resize`,$),_((e,t)=>{R=e,V=H=void 0,t&&s(`how`,new URLSearchParams),G=``,_t(`layer`,e.layers,2),_t(`head`,e.heads,e.heads),c(`how`)&&(t?Y():mt())})}var pt=e=>e instanceof HTMLInputElement&&[`number`,`radio`].includes(e.type);function mt(){let e=p(`how`);if(!e.has(`seed`))return V?void 0:void Y();if(String(e)!==G)try{if(e.has(`model`)&&e.get(`model`)!==R.id)throw Error(`This server does not have the model ${e.get(`model`)} of the link.`);if(!l(e.get(`seed`)))throw Error(`The seed of this link is not a seed.`);for(let t of[`layer`,`head`])ht(t,e.get(t)??`1`);J(Number(e.get(`screen`)??1)),document.activeElement===document.body&&t(`moment`,HTMLInputElement).focus(lt),Y(e)}catch(e){i(e,`how`)}}function ht(e,n){let r=[...t(e,HTMLSelectElement).options].find(({text:e})=>e===n);if(!r)throw Error(`The model has no ${e} ${n}.`);r.selected=!0}function J(e){let t=[...document.querySelectorAll(`#how .stages > li`)];W=Math.max(1,Math.min(Math.round(e)||1,t.length)),t.forEach((e,t)=>e.classList.toggle(`shown`,t+1===W)),document.querySelectorAll(`#screens input`)[W-1].checked=!0,H&&(gt(),$())}function gt(){let e={layer:X(`layer`)+1,head:X(`head`)+1,step:U+1,screen:W},t=Object.entries(e).map(([e,t])=>[e,String(t)]),n=new URLSearchParams([[`model`,R.id],[`seed`,z],...t]);G=String(n);let r=s(`how`,n);c(`how`)&&ee(r,!1)}function _t(e,n,i){let a=Array.from({length:n},(e,t)=>r(`option`,{value:String(t)},`${t+1}`));t(e,HTMLSelectElement).replaceChildren(...a),t(e,HTMLSelectElement).selectedIndex=Math.min(i,n)-1}async function Y(e){dt?.abort(),bt(),v();let{signal:t}=dt=new AbortController,{id:n,classes:r,channels:o}=R;H=void 0;let s=V=new a(R);Et(0),B=null,z=e?.get(`seed`)??g(),e&&(G=String(e));let c=r.length>0&&!r.includes(ct)?ct:`none`;d(`how-status`,`Painting an image.`);try{if(await m({type:`generate`,model:n,n:1,seed:z,class:c},{frame:({first:e,bytes:n})=>{s.paint(e,n),t.aborted||Et(s.pixels)},image:(e,t)=>void(B=t.class)},t)||t.aborted)return;let r=Number(e?.get(`step`)??NaN);if(r>=1)return await vt(Math.round(r)-1);let i=s.bytes.length>>1,a=s.bytes.findIndex((e,t)=>t>=i&&e>127);await vt((a<0?i:a)/o,!0)}catch(e){if(t.aborted)return;d(`how-status`,``),i(e,`how`)}}async function vt(e,n=!1){if(!V?.done)return;bt();let[r,a]=[X(`layer`),X(`head`)],o=new nt(R,V,B,r,a);H=void 0,d(`how-status`,`Asking the server for the numbers of this image.`);let{signal:s}=dt;try{await o.open()}catch(e){d(`how-status`,``),s.aborted||i(e,`how`);return}if(s.aborted||r!==X(`layer`)||a!==X(`head`))return;H=o,t(`stepper`,HTMLElement).inert=!1,d(`how-status`,B===null?``:`An image of class ${B}.`);let{first_byte:c,step_bytes:l,predicts:u}=H.layout;ve(u),t(`moment`,HTMLInputElement).max=String(H.count-1);for(let e of[`cell-row`,`cell-column`])t(e,HTMLInputElement).value=``;Z(n?Math.floor((Math.floor(e)*R.channels-c)/l):e)}var X=e=>Number(t(e,HTMLSelectElement).value);function Z(e){U=Math.max(0,Math.min(e,H.count-1)),t(`moment`,HTMLInputElement).value=String(U),q===void 0&&gt(),$()}function yt(){H&&(U===H.count-1&&Z(0),xt(!0),q=window.setInterval(()=>{if(!H)return Q();if(H.step(U)){if(U===H.count-1)return Q();Z(U+1)}},st))}function Q(){let e=q!==void 0;bt(),e&&H&&gt()}function bt(){window.clearInterval(q),q=void 0,xt(!1)}function xt(e){let n=t(`how-play`,HTMLButtonElement);n.setAttribute(`aria-pressed`,String(e)),n.textContent=e?`Pause`:`Play`}function $(){let[e,n]=[H,U];if(!e||!V)return;let{first_byte:r,step_bytes:a}=e.layout,o=e.position(n),s=Math.floor(o/V.size.channels),{width:c}=V.size;Et(s,s,e.layout.window);let l=`Step ${n+1} of ${e.count}: row ${Math.floor(s/c)+1}, column ${s%c+1}`,u=a===1&&V.size.channels===3?`, ${[`red`,`green`,`blue`][o%3]}`:``;d(`how-place`,l+u+(r&&n===0?` (byte 1 is drawn from a histogram)`:``)),t(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,l+u);let f=e.step(n);if(t(`how`,HTMLElement).setAttribute(`aria-busy`,String(!f)),f){t(`stages`,HTMLElement).hidden=!1,qe(e,f,n,V,z);let r=Math.min(n+e.row,e.count-1);q!==void 0&&!e.step(r)&&e.load(r).catch(()=>void 0),St(e,n)}else e.load(n).then(()=>H===e&&U===n&&$(),t=>{Q(),H===e&&i(t,`how`)})}async function St(e,t){d(`say-weights`,`Asking for the keys of all steps before.`);try{let n=await e.weights(t);if(H!==e||U!==t)return;let r=Xe(e,n,R);ut.includes(W)&&Tt(r)}catch(t){H===e&&i(t,`how`)}}function Ct(e,t){let{width:n,height:r,channels:i}=R,a=e*n+t;if(e<0||t<0||e>=r||t>=n||!V?.done)return;let o=H!==void 0&&a*i>H.position(U),s=V.bytes.subarray(a*i,(a+1)*i),c=o?`painted later`:s.join(`, `),l=K&&!o?`, weight ${(100*K[a]).toPrecision(3)} %`:``;d(`how-pixel`,`Row ${e+1}, column ${t+1}: ${c}${l}`)}function wt(){d(`how-pixel`,K?`Orange is what the head reads. Point at a pixel for its weight.`:`Point at a pixel for its value.`)}function Tt(e){K=e;let n=t(`watched`,HTMLCanvasElement),r=n.getContext(`2d`),{width:i}=V.size,a=n.width/i,o=Math.max(...e);e.forEach((e,t)=>{r.fillStyle=`rgb(217 83 44 / ${Math.sqrt(e/o)})`,r.fillRect(t%i*a,Math.floor(t/i)*a,a,a)}),wt()}function Et(r,i,a){let o=t(`watched`,HTMLCanvasElement);K=void 0;let{width:s,height:c}=V.size,l=e(s,ot),u=Math.max(1,Math.round(l*(globalThis.devicePixelRatio||1)));Object.assign(o,{width:s*u,height:c*u}),n(o,l/u);let d=o.getContext(`2d`);d.imageSmoothingEnabled=!1;let f=V.copy(e=>e<r).canvas;if(d.drawImage(f,0,0,o.width,o.height),o.setAttribute(`aria-label`,`Image so far: ${r} of ${s*c} pixels`),i===void 0)return;let[p,m]=[Math.floor(i/s),i%s];if(d.lineWidth=Math.max(1,u/6),a){let[e,t]=a,[n,r]=[Math.max(0,p-e),Math.max(0,m-t)],i=Math.min(s,m+t+1);d.strokeStyle=`#3176c9`,d.strokeRect(r*u,n*u,(i-r)*u,(p-n+1)*u)}d.fillStyle=`#d9532c`,d.fillRect(m*u,p*u,u,u),wt()}export{ft as setUpHow};