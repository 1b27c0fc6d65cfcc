import{B as e,C as t,F as n,G as r,H as i,K as a,L as o,S as s,U as c,V as l,W as u,b as d,d as f,g as p,h as m,k as h,l as g,m as _,p as v,u as y,v as b,w as ee,z as te}from"./index-jzGP57YU.js";var ne=`<div class="controls how-controls">
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
      <label><input type="radio" name="screen" value="0" checked /><span>The whole</span></label>
      <label><input type="radio" name="screen" value="1" /><span>1 Window</span></label>
      <label><input type="radio" name="screen" value="2" /><span>2 Query, key, value</span></label>
      <label><input type="radio" name="screen" value="3" /><span>3 Sum</span></label>
      <label><input type="radio" name="screen" value="4" /><span>4 Reading</span></label>
      <label><input type="radio" name="screen" value="5" /><span>5 Draw</span></label>
      <label><input type="radio" name="screen" value="6" /><span>Beside softmax</span></label>
    </div>
  </fieldset>
  <ol class="stages">
    <li>
      <h2>One step, as a whole</h2>
      <p id="say-whole"></p>
      <ol id="whole">
        <li>
          <button type="button" value="1">
            <b>Pixels</b>
            <canvas id="whole-window" aria-hidden="true"></canvas>
            <span id="whole-pixels"></span>
          </button>
        </li>
        <li>
          <div class="box"><b>Embedding</b><span id="whole-embedding"></span></div>
        </li>
        <li>
          <div class="box blocks">
            <b id="whole-blocks"></b>
            <span id="whole-block"></span>
            <button type="button" value="2"><span>Query, key, value</span><canvas id="whole-projected" aria-hidden="true"></canvas></button>
            <button type="button" value="3"><span>Memory (s, z)</span><canvas id="whole-s" aria-hidden="true"></canvas></button>
            <button type="button" value="4"><span>Reading</span><canvas id="whole-y" aria-hidden="true"></canvas></button>
          </div>
        </li>
        <li>
          <button type="button" value="5">
            <b>Distribution</b>
            <span id="whole-bars" aria-hidden="true"></span>
            <span>256 probabilities</span>
          </button>
        </li>
        <li>
          <div class="box"><b>Byte</b><i id="whole-swatch"></i><span id="whole-byte" class="figures"></span></div>
        </li>
      </ol>
      <p>
        <button type="button" class="aside" value="6">Beside it: what softmax attention would keep in place of (s, z)</button>
      </p>
    </li>
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
`,re=`"""Reference of causal linear attention (Algorithm 1 of the paper): a literal loop, never optimised.

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
`,x=e=>`<mi>${e}</mi>`,S=e=>`<mo stretchy="false">${e}</mo>`,C=(...e)=>`<mrow>${e.join(``)}</mrow>`,ce=(e,t)=>`<msub>${e}${t}</msub>`,w=e=>`<msup>${C(e)}${x(`T`)}</msup>`,le=(e,t)=>`<mfrac>${C(e)}${C(t)}</mfrac>`,ue=e=>`<munder>${S(`∑`)}${x(e)}</munder>`,T=e=>x(`φ`)+S(`(`)+e+S(`)`),E=(e,t=`i`)=>ce(x(e),x(t)),de=e=>ce(x(e),`<mn>0</mn>`)+S(`=`)+`<mn>0</mn>`,fe=e=>ce(x(e),C(x(`i`),S(`−`),`<mn>1</mn>`)),D=e=>E(`x`)+ce(x(`W`),x(e)),[O,k,pe]=[T(E(`Q`)),T(E(`K`,`j`)),E(`V`,`j`)],me=`<msubsup>${x(`V`)}${x(`i`)}${S(`′`)}</msubsup>${S(`=`)}`,he=w(T(D(`Q`))),ge={4:{number:`4`,math:[me+le(ue(`j`)+w(O)+k+pe,ue(`j`)+w(O)+k)]},5:{number:`5`,math:[me+le(w(O)+ue(`j`)+k+w(pe),w(O)+ue(`j`)+k)],file:`kernels/attention/reference.py`,code:A(re,`query = phi_q[:, :, i]`,`outputs.append`)},6:{number:`6`,math:[S(`(`)+T(x(`Q`))+w(T(x(`K`)))+S(`)`)+x(`V`),S(`=`)+T(x(`Q`))+S(`(`)+w(T(x(`K`)))+x(`V`)+S(`)`)]},7:{number:`7`,math:[T(x(`x`))+S(`=`)+x(`elu`)+S(`(`)+x(`x`)+S(`)`)+S(`+`)+`<mn>1</mn>`],file:`kernels/feature_maps.py`,code:A(ae,`return relu(x)`)},16:{number:`16, 17`,math:[de(`s`)+S(`,`)+`<mspace width="1em"/>`+de(`z`)],file:`kernels/attention/reference.py`,code:A(re,`s = phi_q.new_zeros`,`z = phi_q.new_zeros`)},18:{number:`18, 19`,math:[E(`s`)+S(`=`)+fe(`s`)+S(`+`)+T(D(`K`))+w(S(`(`)+D(`V`)+S(`)`)),E(`z`)+S(`=`)+fe(`z`)+S(`+`)+T(D(`K`))],file:`kernels/step/reference.py`,code:A(se,`key = phi_k[b, h]`,`z[b, h] +=`)},20:{number:`20`,math:[E(`y`)+S(`=`)+E(`f`,`l`)+S(`(`)+le(he+E(`s`),he+E(`z`))+S(`+`)+E(`x`)+S(`)`)],file:`kernels/step/reference.py`,code:A(se,`numerator = query`,`y[b, h] = `)}},_e={categorical:{number:``,math:[],file:`kernels/categorical/reference.py`,code:A(ie,`cumulative = `,`picked = `)},logistics:{number:``,math:[],file:`kernels/pixel_logistics/reference.py`,code:A(oe,`picked = pick(`,`byte = ((drawn`)}};function A(e,t,n=t){let r=e.split(`
`),i=e=>t=>t.trimStart().startsWith(e),a=r.findIndex(i(t)),o=r.findIndex((e,t)=>t>=a&&i(n)(e));if(a<0||o<0)throw Error(`No lines from “${t}” to “${n}”.`);let s=r.slice(a,o+1),c=Math.min(...s.map(e=>e.length-e.trimStart().length));return s.map(e=>e.slice(c)).join(`
`)}function ve(e){for(let t of document.querySelectorAll(`.equation`)){let n=t.dataset.equation,r=n===`draw`?_e[e===`categorical`?`categorical`:`logistics`]:ge[n],i=c(`div`,{className:`equations`});if(i.innerHTML=r.math.map(e=>`<math display="block">${C(e)}</math>`).join(``),r.number&&i.append(c(`span`,{},`(${r.number})`)),t.replaceChildren(...r.math.length?[i]:[]),!r.file)continue;let a=c(`pre`,{tabIndex:0},c(`code`,{},r.code));a.setAttribute(`role`,`group`),a.setAttribute(`aria-label`,`Lines of ${r.file}`),t.append(c(`div`,{},c(`small`,{},r.file),a))}}var j={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},ye=5,M=j.steps.at(-1),N=Math.sqrt(M);function be(e){let{steps:t}=j,n=new Float64Array(M+1);for(let r=1,i=1;r<=M;r++){r>t[i]&&i++;let a=(r-t[i-1])/(t[i]-t[i-1]);n[r]=n[r-1]+e[i-1]+a*(e[i]-e[i-1])}return n}var xe={linear:be(j.linear),softmax:be(j.softmax)},P=xe.linear[M],Se=e=>`${Math.round(e/1e3)} s`,Ce=0;function we(){let e=xe.softmax[M];a(`say-race`,`At these times, an image of ${N} × ${N} pixels takes ${Se(P)} with (s, z) and ${Se(e)} with softmax and its cache: ${(e/P).toPrecision(2)} times as long. The race is ${Math.round(P/1e3/ye)} times as fast, and ends when the first image is painted.`),Te(P);let t=matchMedia(`(prefers-reduced-motion: reduce)`);u(`race-go`,()=>{cancelAnimationFrame(Ce);let e=performance.now(),n=()=>{let r=t.matches?1:Math.min(1,(performance.now()-e)/(1e3*ye));Te(r*P),r<1&&(Ce=requestAnimationFrame(n))};n()})}function Te(e){let t=Object.entries(xe).map(([t,n])=>{let r=n.findIndex(t=>t>e),a=r<0?M:r-1,[o,s]=[Math.floor(a/N),a%N];return i(`race-${t}`,SVGPathElement).setAttribute(`d`,`M0 0H${N}V${o}H${s}V${o+1}H0z`),`${a.toLocaleString(`en`)} with ${t===`linear`?`(s, z)`:`softmax`}`});a(`race-place`,`Pixels after ${Se(e)}: ${t.join(`, `)}`)}var Ee=`http://www.w3.org/2000/svg`,[F,I]=[256,72];function L(e,t){let n=document.createElementNS(Ee,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function De(e,t){let n=L(`svg`,{viewBox:`0 0 ${F} ${I+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>I*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${I}h1v${-i(e)}h-1z`).join(``),o=L(`path`,{d:`M${t} ${I}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=L(`path`,{d:`M${t+.5} ${I+1}l3 6h-6z`,class:`drawn`});n.append(L(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; the image has ${t}, which had ${c} %`),n}function Oe(e,t){let{state:n,cacheOfStep:r}=e.memory,i=t+1,o=r*i,s=o/n,c=s>=1?`${s.toPrecision(2)} times`:`${Ae(s)} of`,l=Math.ceil(n/r);a(`say-cost`,`Softmax attention would keep the keys and values of ${i===1?`this first step`:`all ${i} steps`}: ${Me(o)}, ${c} the ${Me(n)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${l} on; (s, z) never grows.`);let u=(t,n)=>[[0,t],[e.count,n]],d=r*e.count,f={softmax:u(0,d),linear:u(n,n)};ke(`chart-memory`,e.count,i,d,Me(d),f,!1);let p=e=>j.steps.map((t,n)=>[t,j[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[j.steps.length-1,Math.max(...j.softmax)];ke(`chart-time`,j.steps[h],i,g,je(g),m,!0);let _=e=>`${je(j.softmax[e])} with the cache and ${je(j.linear[e])} with (s, z)`;a(`say-measured`,`Times are not of this model and server: they were measured on ${j.date}, on one core (${j.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${j.steps[1]} took ${_(1)}, and step ${j.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function ke(e,t,n,r,a,o,s){let c=i(e,SVGElement);c.setAttribute(`viewBox`,`0 0 ${F} ${I+18}`);let l=e=>2+(F-4)*e/t,u=e=>14+(I-14)*(1-e/(r||1)),d=(e,t)=>{let n=L(`text`,t);return n.textContent=e,n},f=L(`path`,{d:`M${l(n)} 14V${I}`,class:`rule`}),p=L(`path`,{d:`M2 14V${I}H${F-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[L(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>L(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:I+12}),d(`${t.toLocaleString(`en`)} steps`,{x:F-2,y:I+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${e===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var Ae=e=>`${(100*e).toPrecision(2)} %`,je=e=>`${e.toPrecision(2)} ms`,Me=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,Ne=[217,83,44],Pe=[49,118,201];function R(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?Pe:Ne,n],4*t)}),a.putImageData(o,0,0)}var Fe=168,Ie=256,Le=`14px`,Re=182,ze=104,Be=`24px`,Ve=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),z=e=>Ve.format(e).replace(`-`,`−`),He=new Intl.NumberFormat(`en`,{maximumSignificantDigits:6,useGrouping:!1}),Ue=e=>He.format(e).replace(`-`,`−`),We=e=>e>.9995&&e<1?`over 99.9 %`:`${(100*e).toPrecision(3)} %`;function Ge(e,t,n,r,i){Je(e,n,r),Ke(e,t,n,r);let o=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),s=Math.max(e.largest.phi_q,e.largest.phi_k);$e(`projected`,[[`q`,t.q,o],[`k`,t.k,o],[`v`,t.v,o],[`φ(q)`,t.phi_q,s],[`φ(k)`,t.phi_k,s]]);let c=`full colour is the largest so far, ${z(o)} in q, k and v, ${z(s)} in φ.`;a(`scale-projected`,`Warm colours are positive, cold ones negative; ${c}`),Ye(e,t,n),Ze(e,t,n,r,i),Oe(e,n)}function Ke(e,t,n,o){let{window:s,key_width:c,value_width:u}=e.layout,{layers:d,heads:f}=e.model,{layer:p,head:m}=e,h=(e,t,n,a,o=ze)=>{let s=i(e,HTMLCanvasElement);return R(s,t,n,a),l(s,r(n,o)),s},g=f*u,_=e.layout.step_bytes===o.size.channels?`pixel`:`byte`;a(`say-whole`,`One step draws one ${_}. It reads the pixels before, and a memory that has one size at every step. Press a part to open it.`),a(`whole-pixels`,s?`${s[0]} rows above`:`the byte before`),a(`whole-embedding`,`${g} numbers`),a(`whole-blocks`,`${d} blocks of ${f} heads`),a(`whole-block`,`Block ${p+1}, head ${m+1}:`),qe(`whole-window`,e,n,o,ze);let v=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t]));if(c===u){let e=h(`whole-projected`,Float32Array.from([...t.q,...t.k,...t.v]),u,v);e.style.height=Be}else h(`whole-projected`,t.q,c,v);h(`whole-s`,t.after,u,e.largest.s,ze/1.5),h(`whole-y`,t.y,u,e.largest.y).style.height=Le;let y=e.position(n),b=t.probabilities.map((e,t)=>o.bytes[y+t]),ee=t.probabilities.map((e,t)=>De(e,b[t]));i(`whole-bars`,HTMLElement).replaceChildren(...ee),a(`whole-byte`,b.join(`, `));let te=b.length===3?b:[b[0],b[0],b[0]];i(`whole-swatch`,HTMLElement).style.background=`rgb(${te.join(` `)})`}function qe(e,t,n,a,o){let{window:s}=t.layout,{width:c,channels:u}=a.size,d=i(e,HTMLCanvasElement);if(d.hidden=!s,!s)return!1;let[f,p]=s,m=Math.floor(t.position(n)/u),[h,g]=[Math.floor(m/c),m%c];Object.assign(d,{width:2*p+1,height:f+1});let _=d.getContext(`2d`),v=a.copy(e=>e<m).canvas;return _.drawImage(v,p-g,f-h),_.fillStyle=`#d9532c`,_.fillRect(p,f,1,1),l(d,r(d.width,o)),!0}function Je(e,t,n){let{window:r,step_bytes:i}=e.layout,{channels:o}=n.size,s=i===o?`pixel`:`byte`;if(qe(`heat-window`,e,t,n,Re),!r){a(`say-window`,`The model is given the value of the previous byte and the place of the ${s} to draw.`);return}let[c,l]=r,u=`${c} rows above and ${l} pixels to either side, none that comes later`;a(`say-window`,`To draw this ${s}, the model reads the painted pixels around it: ${u}.`)}function Ye(e,t,n){let{key_width:o,value_width:s}=e.layout,c=new Float32Array(o*s).map((e,n)=>t.phi_k[Math.floor(n/s)]*t.v[n%s]),u=e.largest.s,d=Math.min(Fe,(i(`stages`,HTMLElement).clientWidth-56)/3);for(let[e,n,a]of[[`heat-before`,`s before the step`,t.before],[`heat-outer`,`φ(k) times v transposed`,c],[`heat-s`,`s after the step`,t.after]]){let t=i(e,HTMLCanvasElement);R(t,a,s,u),l(t,r(s,d));let c=`from ${z(Math.min(...a))} to ${z(Math.max(...a))}`;t.setAttribute(`aria-label`,`Heat map of ${n}, ${o} rows of ${s} numbers ${c}`)}$e(`sums`,[[`z before`,t.zBefore,e.largest.z],[`φ(k)`,t.phi_k,e.largest.z],[`z after`,t.zAfter,e.largest.z]]),a(`scale-s`,`One scale for all three: full colour is the largest so far, ${z(u)} in s, ${z(e.largest.z)} in z.`);let f=(o*s+o).toLocaleString(`en`),p=n===0?`It begins with zeros.`:`It holds the sums over ${n===1?`the step`:`all ${n} steps`} before.`;a(`say-update`,`The memory of this head is the matrix s and the vector z: ${f} numbers, at every step. ${p} This step adds the product of key and value to s, and the key to z.`);let[m,h]=[i(`cell-row`,HTMLInputElement),i(`cell-column`,HTMLInputElement)];[m.max,h.max]=[String(o),String(s)];let g=c.map(Math.abs),_=g.indexOf(Math.max(...g)),v=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,y=v(m,o,Math.floor(_/s)),b=v(h,s,_%s);[m.placeholder,h.placeholder]=[String(y+1),String(b+1)];let ee=y*s+b,te=`${Ue(t.before[ee])} + ${z(t.phi_k[y])} × ${z(t.v[b])}`;a(`cell`,`s[${y+1}, ${b+1}] = ${te} = ${Ue(t.after[ee])}`);let ne=e=>t.phi_q.reduce((t,n,r)=>t+n*e(r),0),re=ne(e=>t.zAfter[e]),ie=ne(e=>t.after[e*s+b]),ae=n===0?`its own`:`all ${n+1} steps so far`;a(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${ae}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),$e(`read`,[[`φ(q)`,t.phi_q,Math.max(e.largest.phi_q,e.largest.phi_k)],[`y`,t.y,e.largest.y]]);let oe=`${z(ie)} / ${z(re)} = ${z(t.y[b])}`;a(`read-cell`,`y[${b+1}] = φ(q)ᵀ s[·, ${b+1}] / φ(q)ᵀ z = ${oe}`)}function Xe(e,t,n){let o=new Float32Array(n.width*n.height);t.forEach((t,r)=>o[Math.floor(e.position(r)/n.channels)]+=t);let s=Math.max(...o),c=i(`heat-weights`,HTMLCanvasElement);c.hidden=!1,R(c,o,n.width,s),l(c,r(n.width,Fe));let[u,d]=[Math.floor(o.indexOf(s)/n.width)+1,o.indexOf(s)%n.width+1],f=We(1/t.length);return a(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${We(s)}, in row ${u}, column ${d}; if all were equal, each would be ${f}. Softmax attention would keep every key for them; (s, z) has their sum only.`),o}function Ze(e,t,n,r,o){let s=e.position(n),{channels:l}=r.size,u=l===3?[`red`,`green`,`blue`]:[`the pixel`],d=t.probabilities.map((e,t)=>r.bytes[s+t]),f=d.map((e,n)=>`${u[(s+n)%l]} ${o===void 0?`is`:`became`} ${e}, which had probability ${We(t.probabilities[n][e])}`),p=d.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${e.model.layers} layers, the model gives each of the 256 values a probability; ${f.join(`, `)}.`,h=o!==void 0&&e.layout.predicts===`categorical`;a(`say-draw`,m+p+(h?Qe(t,d,o,s):``)),i(`bars`,HTMLElement).replaceChildren(...t.probabilities.map((e,t)=>c(`figure`,{},c(`figcaption`,{},d.length>1?u[t]:`Probability of the values 0 (black) to 255 (white)`),De(e,d[t]))))}function Qe(e,[t],n,r){let[i]=s(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],c=Math.min(...[a,o-a,1-o].filter(e=>e>0)),l=Math.max(4,Math.min(9,Math.ceil(-Math.log10(c))+1)),u=`${a.toFixed(l)} to ${o.toFixed(l)}`;return` The seed gave the random number ${i.toFixed(l)}; the probabilities, one after another, pick ${t} from ${u}.`}function $e(e,t){let n=i(e,HTMLElement);for(;n.children.length<2*t.length;){let e=c(`canvas`);e.setAttribute(`role`,`img`),n.append(c(`span`),e)}t.forEach(([e,t,i],a)=>{let[o,s]=[n.children[2*a],n.children[2*a+1]];o.textContent=e,R(s,t,t.length,i),l(s,r(t.length,Ie)),s.style.height=Le;let c=`from ${z(Math.min(...t))} to ${z(Math.max(...t))}`;s.setAttribute(`aria-label`,`${e}: ${t.length} numbers ${c}`),s.title=Array.from(t,z).join(`, `)})}var et=64,tt=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],nt=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=et;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await ee(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,rt(e));this.size=rt(e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,t){let n={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:t},r=this.className===null?{}:{class:this.className},i=await(await h(`v1/images/steps`,{...n,...r})).json();this.layout=i;let{state_bytes:a,cache_bytes:o}=i.attention;this.memory={state:a,cacheOfStep:o/(e+i.steps)};let s=Object.fromEntries(tt.map(e=>[e,it(i[e])]));for(let e of tt)this.largest[e]=Math.max(this.largest[e]??0,at(s[e]));return{first:e,steps:i.steps,...s}}},rt=e=>Math.floor(et/e)*e||et;function it(e){let t=new DataView(n(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var at=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),ot=280,st=160,ct=`any`,lt={preventScroll:!0,focusVisible:!1},ut=4,B,V,H=null,U,W,G=0,K=0,dt=``,q,ft,J;function pt(){i(`how`,HTMLElement).innerHTML=ne,ve(`categorical`),we(),window.addEventListener(`beforeprint`,()=>{for(let e of document.querySelectorAll(`#how details`))e.open=!0});for(let e of[`layer`,`head`])i(e,HTMLSelectElement).addEventListener(`change`,()=>void xt(G));u(`watch`,()=>void bt()),i(`screens`,HTMLFieldSetElement).addEventListener(`change`,()=>{Y(Number(document.querySelector(`#screens :checked`).value))});for(let e of document.querySelectorAll(`#how [value].aside, #whole button`))e.addEventListener(`click`,()=>{Y(Number(e.value)),document.querySelectorAll(`#screens input`)[K].focus(lt)});Y(K);let e={first:()=>0,up:()=>G-W.row,back:()=>G-1,next:()=>G+1,down:()=>G+W.row,last:()=>1/0};for(let[t,n]of Object.entries(e))u(`how-${t}`,()=>W&&Z(n()));u(`how-play`,()=>J===void 0?St():Q());let t=i(`moment`,HTMLInputElement);t.addEventListener(`input`,()=>Z(Number(t.value)));for(let e of[`cell-row`,`cell-column`])i(e,HTMLInputElement).addEventListener(`input`,$);let n={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};i(`how`,HTMLElement).addEventListener(`keydown`,t=>{let r=t.target,i=r instanceof HTMLSelectElement||r instanceof HTMLPreElement||mt(r),a={PageUp:K-1,PageDown:K+1}[t.key];if(a!==void 0&&!i&&W)return t.preventDefault(),Y(a);let o=n[t.key];!o||i||t.ctrlKey||t.metaKey||t.altKey||!W||(t.preventDefault(),Z(e[o]()))}),i(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!W||!B)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*B.width),o=Math.floor(t/i*B.height);Z(Math.floor(((o*B.width+a)*B.channels-W.layout.first_byte)/W.layout.step_bytes))}),i(`watched`,HTMLCanvasElement).addEventListener(`pointermove`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i}=n;B&&Et(Math.floor(t/i*B.height),Math.floor(e/r*B.width))}),i(`watched`,HTMLCanvasElement).addEventListener(`pointerleave`,Dt),i(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:a,width:o,height:s}=n;i(`cell-row`,HTMLInputElement).value=String(1+Math.floor(t/a*s)),i(`cell-column`,HTMLInputElement).value=String(1+Math.floor(e/r*o)),$()}),window.addEventListener(`tab`,()=>p(`how`)?B&&ht():Q()),y(()=>p(`how`)&&ht()),window.addEventListener(`resize`,$),f((e,t)=>{B=e,U=W=void 0,t&&v(`how`,new URLSearchParams),dt=``,vt(`layer`,e.layers,2),vt(`head`,e.heads,e.heads),p(`how`)&&(t?bt():ht())})}var mt=e=>e instanceof HTMLInputElement&&[`number`,`radio`].includes(e.type);function ht(){let t=_(`how`);if(!t.has(`seed`)&&!t.has(`image`))return U?void 0:void bt();if(String(t)!==dt)try{if(t.has(`model`)&&t.get(`model`)!==B.id)throw Error(`This server does not have the model ${t.get(`model`)} of the link.`);if(!t.has(`image`)&&!b(t.get(`seed`)))throw Error(`The seed of this link is not a seed.`);let e=t.has(`image`)&&!t.has(`step`);for(let n of[`layer`,`head`])e||gt(n,t.get(n)??`1`);Y(Number(t.get(`screen`))),document.activeElement===document.body&&i(`moment`,HTMLInputElement).focus(lt);let n=t.get(`image`);bt(t,n===null?void 0:yt(n))}catch(t){e(t,`how`)}}function gt(e,t){let n=[...i(e,HTMLSelectElement).options].find(({text:e})=>e===t);if(!n)throw Error(`The model has no ${e} ${t}.`);n.selected=!0}function Y(e){let t=[...document.querySelectorAll(`#how .stages > li`)];K=Math.max(0,Math.min(Math.round(e)||0,t.length-1)),t.forEach((e,t)=>e.classList.toggle(`shown`,t===K)),document.querySelectorAll(`#screens input`)[K].checked=!0,W&&(_t(),$())}function _t(){let e={layer:X(`layer`)+1,head:X(`head`)+1,step:G+1,screen:K},t=Object.entries(e).map(([e,t])=>[e,String(t)]),n=V===void 0?[`image`,o(U.bytes)]:[`seed`,V],r=new URLSearchParams([[`model`,B.id],n,...t]);dt=String(r);let i=v(`how`,r);p(`how`)&&m(i,!1)}function vt(e,t,n){let r=Array.from({length:t},(e,t)=>c(`option`,{value:String(t)},`${t+1}`));i(e,HTMLSelectElement).replaceChildren(...r),i(e,HTMLSelectElement).selectedIndex=Math.min(n,t)-1}function yt(e){let{width:t,height:r,channels:i}=B,a;try{a=n(e)}catch{}if(a?.length===t*r*i)return g.of({width:t,height:r,channels:i},a);throw Error(`The picture of this link does not have the size of the model's images.`)}async function bt(n,r){ft?.abort(),Ct(),te();let{signal:i}=ft=new AbortController,{id:o,classes:s,channels:c}=B;W=void 0;let l=U=r??new g(B);kt(l.pixels),H=null,V=r?void 0:n?.get(`seed`)??d(),n&&(dt=String(n));let u=s.length>0&&!s.includes(ct)?ct:`none`;V!==void 0&&a(`how-status`,`Painting an image.`);try{if(V!==void 0&&await t({type:`generate`,model:o,n:1,class:u,temperature:1,seed:V},{frame:({first:e,bytes:t})=>{l.paint(e,t),i.aborted||kt(l.pixels)},image:(e,t)=>void(H=t.class)},i)||i.aborted)return;let e=Number(n?.get(`step`)??NaN);if(e>=1)return await xt(Math.round(e)-1);let r=l.bytes.length>>1,a=l.bytes.findIndex((e,t)=>t>=r&&e>127);await xt((a<0?r:a)/c,!0)}catch(t){if(i.aborted)return;a(`how-status`,``),e(t,`how`)}}async function xt(t,n=!1){if(!U?.done)return;Ct();let[r,o]=[X(`layer`),X(`head`)],s=new nt(B,U,H,r,o);W=void 0,a(`how-status`,`Asking the server for the numbers of this image.`);let{signal:c}=ft;try{await s.open()}catch(t){a(`how-status`,``),c.aborted||e(t,`how`);return}if(c.aborted||r!==X(`layer`)||o!==X(`head`))return;W=s,i(`stepper`,HTMLElement).inert=!1,a(`how-status`,H===null?V===void 0?`Your picture, read without a class.`:``:`An image of class ${H}.`);let{first_byte:l,step_bytes:u,predicts:d}=W.layout;ve(d),i(`moment`,HTMLInputElement).max=String(W.count-1);for(let e of[`cell-row`,`cell-column`])i(e,HTMLInputElement).value=``;Z(n?Math.floor((Math.floor(t)*B.channels-l)/u):t)}var X=e=>Number(i(e,HTMLSelectElement).value);function Z(e){G=Math.max(0,Math.min(e,W.count-1)),i(`moment`,HTMLInputElement).value=String(G),J===void 0&&_t(),$()}function St(){W&&(G===W.count-1&&Z(0),wt(!0),J=window.setInterval(()=>{if(!W)return Q();if(W.step(G)){if(G===W.count-1)return Q();Z(G+1)}},st))}function Q(){let e=J!==void 0;Ct(),e&&W&&_t()}function Ct(){window.clearInterval(J),J=void 0,wt(!1)}function wt(e){let t=i(`how-play`,HTMLButtonElement);t.setAttribute(`aria-pressed`,String(e)),t.textContent=e?`Pause`:`Play`}function $(){let[t,n]=[W,G];if(!t||!U)return;let{first_byte:r,step_bytes:o}=t.layout,s=t.position(n),c=Math.floor(s/U.size.channels),{width:l}=U.size;kt(c,c,t.layout.window);let u=`Step ${n+1} of ${t.count}: row ${Math.floor(c/l)+1}, column ${c%l+1}`,d=o===1&&U.size.channels===3?`, ${[`red`,`green`,`blue`][s%3]}`:``;a(`how-place`,u+d+(r&&n===0?` (byte 1 is drawn from a histogram)`:``)),i(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,u+d);let f=t.step(n);if(i(`how`,HTMLElement).setAttribute(`aria-busy`,String(!f)),f){i(`stages`,HTMLElement).hidden=!1,Ge(t,f,n,U,V);let e=Math.min(n+t.row,t.count-1);J!==void 0&&!t.step(e)&&t.load(e).catch(()=>void 0),Tt(t,n)}else t.load(n).then(()=>W===t&&G===n&&$(),n=>{Q(),W===t&&e(n,`how`)})}async function Tt(t,n){a(`say-weights`,`Asking for the keys of all steps before.`);try{let e=await t.weights(n);if(W!==t||G!==n)return;let r=Xe(t,e,B);K===ut&&Ot(r)}catch(n){W===t&&e(n,`how`)}}function Et(e,t){let{width:n,height:r,channels:i}=B,o=e*n+t;if(e<0||t<0||e>=r||t>=n||!U?.done)return;let s=W!==void 0&&o*i>W.position(G),c=U.bytes.subarray(o*i,(o+1)*i),l=s?`painted later`:c.join(`, `),u=q&&!s?`, weight ${(100*q[o]).toPrecision(3)} %`:``;a(`how-pixel`,`Row ${e+1}, column ${t+1}: ${l}${u}`)}function Dt(){let e=K===1&&W?.layout.window?`The frame is what is read.`:``,t=q?`Orange is what this head reads, beyond the window too.`:e,n=`Point at a pixel for its ${q?`weight`:`value`}.`;a(`how-pixel`,matchMedia(`(hover: hover)`).matches?`${t} ${n}`.trim():t)}function Ot(e){q=e;let t=i(`watched`,HTMLCanvasElement),n=t.getContext(`2d`),{width:r}=U.size,a=t.width/r,o=Math.max(...e);e.forEach((e,t)=>{n.fillStyle=`rgb(217 83 44 / ${Math.sqrt(e/o)})`,n.fillRect(t%r*a,Math.floor(t/r)*a,a,a)}),Dt()}function kt(e,t,n){let a=i(`watched`,HTMLCanvasElement);if(q=void 0,!U)return;let{width:o,height:s}=U.size,c=r(o,ot),u=Math.max(1,Math.round(c*(globalThis.devicePixelRatio||1)));Object.assign(a,{width:o*u,height:s*u}),l(a,c/u);let d=a.getContext(`2d`);d.imageSmoothingEnabled=!1;let f=U.copy(t=>t<e).canvas;if(d.drawImage(f,0,0,a.width,a.height),a.setAttribute(`aria-label`,`Image so far: ${e} of ${o*s} pixels`),t===void 0)return;let[p,m]=[Math.floor(t/o),t%o];if(d.lineWidth=Math.max(1,u/6),n){let[e,t]=n,[r,i]=[Math.max(0,p-e),Math.max(0,m-t)],a=Math.min(o,m+t+1);d.strokeStyle=`#3176c9`,d.strokeRect(i*u,r*u,(a-i)*u,(p-r+1)*u)}d.fillStyle=`#d9532c`,d.fillRect(m*u,p*u,u,u),Dt()}export{pt as setUpHow};