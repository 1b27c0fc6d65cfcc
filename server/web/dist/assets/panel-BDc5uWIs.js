import{B as e,D as t,F as n,H as r,L as i,N as a,R as o,S as s,U as c,V as l,W as u,b as d,c as f,d as p,f as m,g as h,l as g,m as _,p as v,s as y,v as b,x as ee,z as x}from"./index-B1QePa5I.js";var te=`<div class="controls how-controls">
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
`,ne=`"""Reference of causal linear attention (Algorithm 1 of the paper): a literal loop, never optimised.

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
`,re=`"""A byte's distribution as 256 probabilities, for images of drawn strokes: mostly black, white, and
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
`,ie=`"""Feature maps phi, which turn keys and queries into positive features (section 3.2.1).

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
`,ae=`"""Distribution of the C bytes of a step: one mixture of K discretised logistics, whose channels are
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
`,oe=`"""Reference of the recurrent step: eq. 18-20, image by image and head by head, never optimised."""

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
`,S=e=>`<mi>${e}</mi>`,C=e=>`<mo stretchy="false">${e}</mo>`,w=(...e)=>`<mrow>${e.join(``)}</mrow>`,se=(e,t)=>`<msub>${e}${t}</msub>`,T=e=>`<msup>${w(e)}${S(`T`)}</msup>`,ce=(e,t)=>`<mfrac>${w(e)}${w(t)}</mfrac>`,E=e=>`<munder>${C(`∑`)}${S(e)}</munder>`,D=e=>S(`φ`)+C(`(`)+e+C(`)`),O=(e,t=`i`)=>se(S(e),S(t)),le=e=>se(S(e),`<mn>0</mn>`)+C(`=`)+`<mn>0</mn>`,ue=e=>se(S(e),w(S(`i`),C(`−`),`<mn>1</mn>`)),k=e=>O(`x`)+se(S(`W`),S(e)),[de,fe,pe]=[D(O(`Q`)),D(O(`K`,`j`)),O(`V`,`j`)],me=`<msubsup>${S(`V`)}${S(`i`)}${C(`′`)}</msubsup>${C(`=`)}`,he=T(D(k(`Q`))),ge={4:{number:`4`,math:[me+ce(E(`j`)+T(de)+fe+pe,E(`j`)+T(de)+fe)]},5:{number:`5`,math:[me+ce(T(de)+E(`j`)+fe+T(pe),T(de)+E(`j`)+fe)],file:`kernels/attention/reference.py`,code:A(ne,`query = phi_q[:, :, i]`,`outputs.append`)},6:{number:`6`,math:[C(`(`)+D(S(`Q`))+T(D(S(`K`)))+C(`)`)+S(`V`),C(`=`)+D(S(`Q`))+C(`(`)+T(D(S(`K`)))+S(`V`)+C(`)`)]},7:{number:`7`,math:[D(S(`x`))+C(`=`)+S(`elu`)+C(`(`)+S(`x`)+C(`)`)+C(`+`)+`<mn>1</mn>`],file:`kernels/feature_maps.py`,code:A(ie,`return relu(x)`)},16:{number:`16, 17`,math:[le(`s`)+C(`,`)+`<mspace width="1em"/>`+le(`z`)],file:`kernels/attention/reference.py`,code:A(ne,`s = phi_q.new_zeros`,`z = phi_q.new_zeros`)},18:{number:`18, 19`,math:[O(`s`)+C(`=`)+ue(`s`)+C(`+`)+D(k(`K`))+T(C(`(`)+k(`V`)+C(`)`)),O(`z`)+C(`=`)+ue(`z`)+C(`+`)+D(k(`K`))],file:`kernels/step/reference.py`,code:A(oe,`key = phi_k[b, h]`,`z[b, h] +=`)},20:{number:`20`,math:[O(`y`)+C(`=`)+O(`f`,`l`)+C(`(`)+ce(he+O(`s`),he+O(`z`))+C(`+`)+O(`x`)+C(`)`)],file:`kernels/step/reference.py`,code:A(oe,`numerator = query`,`y[b, h] = `)}},_e={categorical:{number:``,math:[],file:`kernels/categorical/reference.py`,code:A(re,`cumulative = `,`picked = `)},logistics:{number:``,math:[],file:`kernels/pixel_logistics/reference.py`,code:A(ae,`picked = pick(`,`byte = ((drawn`)}};function A(e,t,n=t){let r=e.split(`
`),i=e=>t=>t.trimStart().startsWith(e),a=r.findIndex(i(t)),o=r.findIndex((e,t)=>t>=a&&i(n)(e));if(a<0||o<0)throw Error(`No lines from “${t}” to “${n}”.`);let s=r.slice(a,o+1),c=Math.min(...s.map(e=>e.length-e.trimStart().length));return s.map(e=>e.slice(c)).join(`
`)}function ve(e){for(let t of document.querySelectorAll(`.equation`)){let n=t.dataset.equation,r=n===`draw`?_e[e===`categorical`?`categorical`:`logistics`]:ge[n],i=l(`div`,{className:`equations`});if(i.innerHTML=r.math.map(e=>`<math display="block">${w(e)}</math>`).join(``),r.number&&i.append(l(`span`,{},`(${r.number})`)),t.replaceChildren(...r.math.length?[i]:[]),!r.file)continue;let a=l(`pre`,{tabIndex:0},l(`code`,{},r.code));a.setAttribute(`role`,`group`),a.setAttribute(`aria-label`,`Lines of ${r.file}`),t.append(l(`div`,{},l(`small`,{},r.file),a))}}var j={date:`2026-11-28`,cpu:`Intel Xeon Processor`,steps:[1,784,2048,4096,6144,8192,10240,12288,14336,16384],linear:[4.58,4.44,4.3,4.28,4.35,4.23,4.28,4.39,4.49,4.38],softmax:[3.84,5.77,8.12,12.03,15.61,19.57,23.76,28.18,32.86,36.07]},ye=5,M=j.steps.at(-1),N=Math.sqrt(M);function be(e){let{steps:t}=j,n=new Float64Array(M+1);for(let r=1,i=1;r<=M;r++){r>t[i]&&i++;let a=(r-t[i-1])/(t[i]-t[i-1]);n[r]=n[r-1]+e[i-1]+a*(e[i]-e[i-1])}return n}var xe={linear:be(j.linear),softmax:be(j.softmax)},P=xe.linear[M],Se=e=>`${Math.round(e/1e3)} s`,Ce=0;function we(){let e=xe.softmax[M];u(`say-race`,`At these times, an image of ${N} × ${N} pixels takes ${Se(P)} with (s, z) and ${Se(e)} with softmax and its cache: ${(e/P).toPrecision(2)} times as long. The race is ${Math.round(P/1e3/ye)} times as fast, and ends when the first image is painted.`),Te(P);let t=matchMedia(`(prefers-reduced-motion: reduce)`);r(`race-go`,()=>{cancelAnimationFrame(Ce);let e=performance.now(),n=()=>{let r=t.matches?1:Math.min(1,(performance.now()-e)/(1e3*ye));Te(r*P),r<1&&(Ce=requestAnimationFrame(n))};n()})}function Te(t){let n=Object.entries(xe).map(([n,r])=>{let i=r.findIndex(e=>e>t),a=i<0?M:i-1,[o,s]=[Math.floor(a/N),a%N];return e(`race-${n}`,SVGPathElement).setAttribute(`d`,`M0 0H${N}V${o}H${s}V${o+1}H0z`),`${a.toLocaleString(`en`)} with ${n===`linear`?`(s, z)`:`softmax`}`});u(`race-place`,`Pixels after ${Se(t)}: ${n.join(`, `)}`)}var Ee=`http://www.w3.org/2000/svg`,[F,I]=[256,72];function L(e,t){let n=document.createElementNS(Ee,e);for(let[e,r]of Object.entries(t))n.setAttribute(e,String(r));return n}function De(e,t){let n=L(`svg`,{viewBox:`0 0 ${F} ${I+8}`,role:`img`,class:`bars`}),r=Math.max(...e),i=e=>I*Math.sqrt(e/r),a=Array.from(e,(e,t)=>`M${t} ${I}h1v${-i(e)}h-1z`).join(``),o=L(`path`,{d:`M${t} ${I}h1v${-i(e[t])}h-1z`,class:`drawn`}),s=L(`path`,{d:`M${t+.5} ${I+1}l3 6h-6z`,class:`drawn`});n.append(L(`path`,{d:a}),o,s);let c=(100*e[t]).toPrecision(3);return n.setAttribute(`aria-label`,`Probabilities of 256 values; the image has ${t}, which had ${c} %`),n}function Oe(e,t){let{state:n,cacheOfStep:r}=e.memory,i=t+1,a=r*i,o=a/n,s=o>=1?`${o.toPrecision(2)} times`:`${Ae(o)} of`,c=Math.ceil(n/r);u(`say-cost`,`Softmax attention would keep the keys and values of ${i===1?`this first step`:`all ${i} steps`}: ${Me(a)}, ${s} the ${Me(n)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ${c} on; (s, z) never grows.`);let l=(t,n)=>[[0,t],[e.count,n]],d=r*e.count,f={softmax:l(0,d),linear:l(n,n)};ke(`chart-memory`,e.count,i,d,Me(d),f,!1);let p=e=>j.steps.map((t,n)=>[t,j[e][n]]),m={softmax:p(`softmax`),linear:p(`linear`)},[h,g]=[j.steps.length-1,Math.max(...j.softmax)];ke(`chart-time`,j.steps[h],i,g,je(g),m,!0);let _=e=>`${je(j.softmax[e])} with the cache and ${je(j.linear[e])} with (s, z)`;u(`say-measured`,`Times are not of this model and server: they were measured on ${j.date}, on one core (${j.cpu}), in PyTorch, for one image and the paper's MNIST network. Step ${j.steps[1]} took ${_(1)}, and step ${j.steps[h].toLocaleString(`en`)} took ${_(h)}.`)}function ke(t,n,r,i,a,o,s){let c=e(t,SVGElement);c.setAttribute(`viewBox`,`0 0 ${F} ${I+18}`);let l=e=>2+(F-4)*e/n,u=e=>14+(I-14)*(1-e/(i||1)),d=(e,t)=>{let n=L(`text`,t);return n.textContent=e,n},f=L(`path`,{d:`M${l(r)} 14V${I}`,class:`rule`}),p=L(`path`,{d:`M2 14V${I}H${F-2}`,class:`axis`}),m=Object.entries(o).flatMap(([e,t])=>[L(`polyline`,{points:t.map(([e,t])=>`${l(e)},${u(t)}`).join(` `),class:e}),...s?t.map(([t,n])=>L(`circle`,{cx:l(t),cy:u(n),r:2,class:e})):[]]),h=[d(a,{x:2,y:9}),d(`0`,{x:2,y:I+12}),d(`${n.toLocaleString(`en`)} steps`,{x:F-2,y:I+12,"text-anchor":`end`})];c.replaceChildren(p,f,...m,...h),c.setAttribute(`aria-label`,`${t===`chart-memory`?`Memory`:`Time`} over steps, up to ${a}`)}var Ae=e=>`${(100*e).toPrecision(2)} %`,je=e=>`${e.toPrecision(2)} ms`,Me=e=>e<1e6?`${(e/1e3).toPrecision(3)} kB`:`${(e/1e6).toPrecision(3)} MB`,Ne=[217,83,44],Pe=[49,118,201];function R(e,t,n,r){let i=t.length/n;e.width!==n&&(e.width=n),e.height!==i&&(e.height=i);let a=e.getContext(`2d`),o=a.createImageData(n,i);t.forEach((e,t)=>{let n=255*Math.sqrt(Math.abs(e)/(r||1));o.data.set([...e<0?Pe:Ne,n],4*t)}),a.putImageData(o,0,0)}var Fe=168,Ie=256,Le=`14px`,Re=182,ze=104,Be=`24px`,Ve=new Intl.NumberFormat(`en`,{maximumSignificantDigits:3,minimumSignificantDigits:3,useGrouping:!1}),z=e=>Ve.format(e).replace(`-`,`−`),He=new Intl.NumberFormat(`en`,{maximumSignificantDigits:6,useGrouping:!1}),Ue=e=>He.format(e).replace(`-`,`−`),We=e=>e>.9995&&e<1?`over 99.9 %`:`${(100*e).toPrecision(3)} %`;function Ge(e,t,n,r,i){Je(e,n,r),Ke(e,t,n,r);let a=Math.max(...[`q`,`k`,`v`].map(t=>e.largest[t])),o=Math.max(e.largest.phi_q,e.largest.phi_k);$e(`projected`,[[`q`,t.q,a],[`k`,t.k,a],[`v`,t.v,a],[`φ(q)`,t.phi_q,o],[`φ(k)`,t.phi_k,o]]);let s=`full colour is the largest so far, ${z(a)} in q, k and v, ${z(o)} in φ.`;u(`scale-projected`,`Warm colours are positive, cold ones negative; ${s}`),Ye(e,t,n),Ze(e,t,n,r,i),Oe(e,n)}function Ke(t,n,r,i){let{window:a,key_width:o,value_width:s}=t.layout,{layers:l,heads:d}=t.model,{layer:f,head:p}=t,m=(t,n,r,i,a=ze)=>{let o=e(t,HTMLCanvasElement);return R(o,n,r,i),x(o,c(r,a)),o},h=d*s,g=t.layout.step_bytes===i.size.channels?`pixel`:`byte`;u(`say-whole`,`One step draws one ${g}. It reads the pixels before, and a memory that has one size at every step. Press a part to open it.`),u(`whole-pixels`,a?`${a[0]} rows above`:`the byte before`),u(`whole-embedding`,`${h} numbers`),u(`whole-blocks`,`${l} blocks of ${d} heads`),u(`whole-block`,`Block ${f+1}, head ${p+1}:`),qe(`whole-window`,t,r,i,ze);let _=Math.max(...[`q`,`k`,`v`].map(e=>t.largest[e]));if(o===s){let e=m(`whole-projected`,Float32Array.from([...n.q,...n.k,...n.v]),s,_);e.style.height=Be}else m(`whole-projected`,n.q,o,_);m(`whole-s`,n.after,s,t.largest.s,ze/1.5),m(`whole-y`,n.y,s,t.largest.y).style.height=Le;let v=t.position(r),y=n.probabilities.map((e,t)=>i.bytes[v+t]),b=n.probabilities.map((e,t)=>De(e,y[t]));e(`whole-bars`,HTMLElement).replaceChildren(...b),u(`whole-byte`,y.join(`, `));let ee=y.length===3?y:[y[0],y[0],y[0]];e(`whole-swatch`,HTMLElement).style.background=`rgb(${ee.join(` `)})`}function qe(t,n,r,i,a){let{window:o}=n.layout,{width:s,channels:l}=i.size,u=e(t,HTMLCanvasElement);if(u.hidden=!o,!o)return!1;let[d,f]=o,p=Math.floor(n.position(r)/l),[m,h]=[Math.floor(p/s),p%s];Object.assign(u,{width:2*f+1,height:d+1});let g=u.getContext(`2d`),_=i.copy(e=>e<p).canvas;return g.drawImage(_,f-h,d-m),g.fillStyle=`#d9532c`,g.fillRect(f,d,1,1),x(u,c(u.width,a)),!0}function Je(e,t,n){let{window:r,step_bytes:i}=e.layout,{channels:a}=n.size,o=i===a?`pixel`:`byte`;if(qe(`heat-window`,e,t,n,Re),!r){u(`say-window`,`The model is given the value of the previous byte and the place of the ${o} to draw.`);return}let[s,c]=r,l=`${s} rows above and ${c} pixels to either side, none that comes later`;u(`say-window`,`To draw this ${o}, the model reads the painted pixels around it: ${l}.`)}function Ye(t,n,r){let{key_width:i,value_width:a}=t.layout,o=new Float32Array(i*a).map((e,t)=>n.phi_k[Math.floor(t/a)]*n.v[t%a]),s=t.largest.s,l=Math.min(Fe,(e(`stages`,HTMLElement).clientWidth-56)/3);for(let[t,r,u]of[[`heat-before`,`s before the step`,n.before],[`heat-outer`,`φ(k) times v transposed`,o],[`heat-s`,`s after the step`,n.after]]){let n=e(t,HTMLCanvasElement);R(n,u,a,s),x(n,c(a,l));let o=`from ${z(Math.min(...u))} to ${z(Math.max(...u))}`;n.setAttribute(`aria-label`,`Heat map of ${r}, ${i} rows of ${a} numbers ${o}`)}$e(`sums`,[[`z before`,n.zBefore,t.largest.z],[`φ(k)`,n.phi_k,t.largest.z],[`z after`,n.zAfter,t.largest.z]]),u(`scale-s`,`One scale for all three: full colour is the largest so far, ${z(s)} in s, ${z(t.largest.z)} in z.`);let d=(i*a+i).toLocaleString(`en`),f=r===0?`It begins with zeros.`:`It holds the sums over ${r===1?`the step`:`all ${r} steps`} before.`;u(`say-update`,`The memory of this head is the matrix s and the vector z: ${d} numbers, at every step. ${f} This step adds the product of key and value to s, and the key to z.`);let[p,m]=[e(`cell-row`,HTMLInputElement),e(`cell-column`,HTMLInputElement)];[p.max,m.max]=[String(i),String(a)];let h=o.map(Math.abs),g=h.indexOf(Math.max(...h)),_=(e,t,n)=>e.value?Math.min(Math.max(Math.trunc(Number(e.value)),1),t)-1:n,v=_(p,i,Math.floor(g/a)),y=_(m,a,g%a);[p.placeholder,m.placeholder]=[String(v+1),String(y+1)];let b=v*a+y,ee=`${Ue(n.before[b])} + ${z(n.phi_k[v])} × ${z(n.v[y])}`;u(`cell`,`s[${v+1}, ${y+1}] = ${ee} = ${Ue(n.after[b])}`);let te=e=>n.phi_q.reduce((t,n,r)=>t+n*e(r),0),ne=te(e=>n.zAfter[e]),re=te(e=>n.after[e*a+y]),ie=r===0?`its own`:`all ${r+1} steps so far`;u(`say-read`,`The query asks the memory: each number of y is a mean of the values of ${ie}, weighted by φ(q)ᵀφ(k). Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.`),$e(`read`,[[`φ(q)`,n.phi_q,Math.max(t.largest.phi_q,t.largest.phi_k)],[`y`,n.y,t.largest.y]]);let ae=`${z(re)} / ${z(ne)} = ${z(n.y[y])}`;u(`read-cell`,`y[${y+1}] = φ(q)ᵀ s[·, ${y+1}] / φ(q)ᵀ z = ${ae}`)}function Xe(t,n,r){let i=new Float32Array(r.width*r.height);n.forEach((e,n)=>i[Math.floor(t.position(n)/r.channels)]+=e);let a=Math.max(...i),o=e(`heat-weights`,HTMLCanvasElement);o.hidden=!1,R(o,i,r.width,a),x(o,c(r.width,Fe));let[s,l]=[Math.floor(i.indexOf(a)/r.width)+1,i.indexOf(a)%r.width+1],d=We(1/n.length);return u(`say-weights`,`The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${We(a)}, in row ${s}, column ${l}; if all were equal, each would be ${d}. Softmax attention would keep every key for them; (s, z) has their sum only.`),i}function Ze(t,n,r,i,a){let o=t.position(r),{channels:s}=i.size,c=s===3?[`red`,`green`,`blue`]:[`the pixel`],d=n.probabilities.map((e,t)=>i.bytes[o+t]),f=d.map((e,t)=>`${c[(o+t)%s]} ${a===void 0?`is`:`became`} ${e}, which had probability ${We(n.probabilities[t][e])}`),p=d.length>1?` Green is drawn given red, blue given both.`:``,m=`After ${t.model.layers} layers, the model gives each of the 256 values a probability; ${f.join(`, `)}.`,h=a!==void 0&&t.layout.predicts===`categorical`;u(`say-draw`,m+p+(h?Qe(n,d,a,o):``)),e(`bars`,HTMLElement).replaceChildren(...n.probabilities.map((e,t)=>l(`figure`,{},l(`figcaption`,{},d.length>1?c[t]:`Probability of the values 0 (black) to 255 (white)`),De(e,d[t]))))}function Qe(e,[t],n,r){let[i]=d(BigInt(n),0,r),a=e.probabilities[0].subarray(0,t).reduce((e,t)=>e+t,0),o=a+e.probabilities[0][t],s=Math.min(...[a,o-a,1-o].filter(e=>e>0)),c=Math.max(4,Math.min(9,Math.ceil(-Math.log10(s))+1)),l=`${a.toFixed(c)} to ${o.toFixed(c)}`;return` The seed gave the random number ${i.toFixed(c)}; the probabilities, one after another, pick ${t} from ${l}.`}function $e(t,n){let r=e(t,HTMLElement);for(;r.children.length<2*n.length;){let e=l(`canvas`);e.setAttribute(`role`,`img`),r.append(l(`span`),e)}n.forEach(([e,t,n],i)=>{let[a,o]=[r.children[2*i],r.children[2*i+1]];a.textContent=e,R(o,t,t.length,n),x(o,c(t.length,Ie)),o.style.height=Le;let s=`from ${z(Math.min(...t))} to ${z(Math.max(...t))}`;o.setAttribute(`aria-label`,`${e}: ${t.length} numbers ${s}`),o.title=Array.from(t,z).join(`, `)})}var et=64,tt=[`q`,`k`,`v`,`phi_q`,`phi_k`,`s`,`z`,`y`,`probabilities`],nt=class{model;picture;className;layer;head;largest={};blocks=new Map;loaded=new Map;image=``;size=et;layout;memory;constructor(e,t,n,r,i){this.model=e,this.picture=t,this.className=n,this.layer=r,this.head=i}async open(){this.image=await s(this.picture.canvas);let{width:e}=this.model,t=await this.ask(0,rt(e));this.size=rt(e*this.model.channels/this.layout.step_bytes),t.steps===this.size&&this.keep(0,Promise.resolve(t)),await this.load(this.count-1)}get count(){return(this.picture.bytes.length-this.layout.first_byte)/this.layout.step_bytes}get row(){return this.model.width*this.model.channels/this.layout.step_bytes}position(e){return this.layout.first_byte+e*this.layout.step_bytes}async load(e){let t=Math.floor(e/this.size);this.blocks.has(t)||this.keep(t,this.ask(t*this.size,this.size)),await this.blocks.get(t)}step(e){let t=this.loaded.get(Math.floor(e/this.size));if(!t)return;let{key_width:n,value_width:r,step_bytes:i}=this.layout,a=e-t.first,o=(e,n,r=a)=>t[e].subarray(r*n,(r+1)*n);return{q:o(`q`,n),k:o(`k`,n),v:o(`v`,r),phi_q:o(`phi_q`,n),phi_k:o(`phi_k`,n),y:o(`y`,r),before:o(`s`,n*r),after:o(`s`,n*r,a+1),zBefore:o(`z`,n),zAfter:o(`z`,n,a+1),probabilities:Array.from({length:i},(e,t)=>o(`probabilities`,256,a*i+t))}}async weights(e){for(let t=0;t<=e;t+=this.size)await this.load(t);let{phi_q:t}=this.step(e),n=Float32Array.from({length:e+1},(e,n)=>{let{phi_k:r}=this.step(n);return t.reduce((e,t,n)=>e+t*r[n],0)}),r=n.reduce((e,t)=>e+t,0);return n.map(e=>e/r)}keep(e,t){this.blocks.set(e,t),t.then(t=>this.loaded.set(e,t),()=>this.blocks.delete(e))}async ask(e,n){let r={model:this.model.id,image:this.image,layer:this.layer,head:this.head,first:e,steps:n},i=this.className===null?{}:{class:this.className},a=await(await t(`v1/images/steps`,{...r,...i})).json();this.layout=a;let{state_bytes:o,cache_bytes:s}=a.attention;this.memory={state:o,cacheOfStep:s/(e+a.steps)};let c=Object.fromEntries(tt.map(e=>[e,it(a[e])]));for(let e of tt)this.largest[e]=Math.max(this.largest[e]??0,at(c[e]));return{first:e,steps:a.steps,...c}}},rt=e=>Math.floor(et/e)*e||et;function it(e){let t=new DataView(a(e).buffer);return Float32Array.from({length:t.byteLength/4},(e,n)=>t.getFloat32(4*n,!0))}var at=e=>e.reduce((e,t)=>Math.max(e,Math.abs(t)),0),ot=280,st=160,ct=`any`,lt={preventScroll:!0,focusVisible:!1},ut=4,B,V,H=null,U,W,G=0,K=0,dt=``,q,ft,J;function pt(){e(`how`,HTMLElement).innerHTML=te,ve(`categorical`),we(),window.addEventListener(`beforeprint`,()=>{for(let e of document.querySelectorAll(`#how details`))e.open=!0});for(let t of[`layer`,`head`])e(t,HTMLSelectElement).addEventListener(`change`,()=>void xt(G));r(`watch`,()=>void bt()),e(`screens`,HTMLFieldSetElement).addEventListener(`change`,()=>{Y(Number(document.querySelector(`#screens :checked`).value))});for(let e of document.querySelectorAll(`#how [value].aside, #whole button`))e.addEventListener(`click`,()=>{Y(Number(e.value)),document.querySelectorAll(`#screens input`)[K].focus(lt)});Y(K);let t={first:()=>0,up:()=>G-W.row,back:()=>G-1,next:()=>G+1,down:()=>G+W.row,last:()=>1/0};for(let[e,n]of Object.entries(t))r(`how-${e}`,()=>W&&Z(n()));r(`how-play`,()=>J===void 0?St():Q());let n=e(`moment`,HTMLInputElement);n.addEventListener(`input`,()=>Z(Number(n.value)));for(let t of[`cell-row`,`cell-column`])e(t,HTMLInputElement).addEventListener(`input`,$);let i={ArrowLeft:`back`,ArrowRight:`next`,ArrowUp:`up`,ArrowDown:`down`,Home:`first`,End:`last`};e(`how`,HTMLElement).addEventListener(`keydown`,e=>{let n=e.target,r=n instanceof HTMLSelectElement||n instanceof HTMLPreElement||mt(n),a={PageUp:K-1,PageDown:K+1}[e.key];if(a!==void 0&&!r&&W)return e.preventDefault(),Y(a);let o=i[e.key];!o||r||e.ctrlKey||e.metaKey||e.altKey||!W||(e.preventDefault(),Z(t[o]()))}),e(`watched`,HTMLCanvasElement).addEventListener(`click`,({offsetX:e,offsetY:t,currentTarget:n})=>{if(!W||!B)return;let{clientWidth:r,clientHeight:i}=n,a=Math.floor(e/r*B.width),o=Math.floor(t/i*B.height);Z(Math.floor(((o*B.width+a)*B.channels-W.layout.first_byte)/W.layout.step_bytes))}),e(`watched`,HTMLCanvasElement).addEventListener(`pointermove`,({offsetX:e,offsetY:t,currentTarget:n})=>{let{clientWidth:r,clientHeight:i}=n;B&&Et(Math.floor(t/i*B.height),Math.floor(e/r*B.width))}),e(`watched`,HTMLCanvasElement).addEventListener(`pointerleave`,Dt),e(`heat-s`,HTMLCanvasElement).addEventListener(`click`,({offsetX:t,offsetY:n,currentTarget:r})=>{let{clientWidth:i,clientHeight:a,width:o,height:s}=r;e(`cell-row`,HTMLInputElement).value=String(1+Math.floor(n/a*s)),e(`cell-column`,HTMLInputElement).value=String(1+Math.floor(t/i*o)),$()}),window.addEventListener(`tab`,()=>_(`how`)?B&&ht():Q()),f(()=>_(`how`)&&ht()),window.addEventListener(`resize`,$),g((e,t)=>{B=e,U=W=void 0,t&&p(`how`,new URLSearchParams),dt=``,vt(`layer`,e.layers,2),vt(`head`,e.heads,e.heads),_(`how`)&&(t?bt():ht())})}var mt=e=>e instanceof HTMLInputElement&&[`number`,`radio`].includes(e.type);function ht(){let t=m(`how`);if(!t.has(`seed`)&&!t.has(`image`))return U?void 0:void bt();if(String(t)!==dt)try{if(t.has(`model`)&&t.get(`model`)!==B.id)throw Error(`This server does not have the model ${t.get(`model`)} of the link.`);if(!t.has(`image`)&&!h(t.get(`seed`)))throw Error(`The seed of this link is not a seed.`);let n=t.has(`image`)&&!t.has(`step`);for(let e of[`layer`,`head`])n||gt(e,t.get(e)??`1`);Y(Number(t.get(`screen`))),document.activeElement===document.body&&e(`moment`,HTMLInputElement).focus(lt);let r=t.get(`image`);bt(t,r===null?void 0:yt(r))}catch(e){o(e,`how`)}}function gt(t,n){let r=[...e(t,HTMLSelectElement).options].find(({text:e})=>e===n);if(!r)throw Error(`The model has no ${t} ${n}.`);r.selected=!0}function Y(e){let t=[...document.querySelectorAll(`#how .stages > li`)];K=Math.max(0,Math.min(Math.round(e)||0,t.length-1)),t.forEach((e,t)=>e.classList.toggle(`shown`,t===K)),document.querySelectorAll(`#screens input`)[K].checked=!0,W&&(_t(),$())}function _t(){let e={layer:X(`layer`)+1,head:X(`head`)+1,step:G+1,screen:K},t=Object.entries(e).map(([e,t])=>[e,String(t)]),r=V===void 0?[`image`,n(U.bytes)]:[`seed`,V],i=new URLSearchParams([[`model`,B.id],r,...t]);dt=String(i);let a=p(`how`,i);_(`how`)&&v(a,!1)}function vt(t,n,r){let i=Array.from({length:n},(e,t)=>l(`option`,{value:String(t)},`${t+1}`));e(t,HTMLSelectElement).replaceChildren(...i),e(t,HTMLSelectElement).selectedIndex=Math.min(r,n)-1}function yt(e){let{width:t,height:n,channels:r}=B,i;try{i=a(e)}catch{}if(i?.length===t*n*r)return y.of({width:t,height:n,channels:r},i);throw Error(`The picture of this link does not have the size of the model's images.`)}async function bt(e,t){ft?.abort(),Ct(),i();let{signal:n}=ft=new AbortController,{id:r,classes:a,channels:s}=B;W=void 0;let c=U=t??new y(B);kt(c.pixels),H=null,V=t?void 0:e?.get(`seed`)??b(),e&&(dt=String(e));let l=a.length>0&&!a.includes(ct)?ct:`none`;V!==void 0&&u(`how-status`,`Painting an image.`);try{if(V!==void 0&&await ee({type:`generate`,model:r,n:1,class:l,temperature:1,seed:V},{frame:({first:e,bytes:t})=>{c.paint(e,t),n.aborted||kt(c.pixels)},image:(e,t)=>void(H=t.class)},n)||n.aborted)return;let t=Number(e?.get(`step`)??NaN);if(t>=1)return await xt(Math.round(t)-1);let i=c.bytes.length>>1,a=c.bytes.findIndex((e,t)=>t>=i&&e>127);await xt((a<0?i:a)/s,!0)}catch(e){if(n.aborted)return;u(`how-status`,``),o(e,`how`)}}async function xt(t,n=!1){if(!U?.done)return;Ct();let[r,i]=[X(`layer`),X(`head`)],a=new nt(B,U,H,r,i);W=void 0,u(`how-status`,`Asking the server for the numbers of this image.`);let{signal:s}=ft;try{await a.open()}catch(e){u(`how-status`,``),s.aborted||o(e,`how`);return}if(s.aborted||r!==X(`layer`)||i!==X(`head`))return;W=a,e(`stepper`,HTMLElement).inert=!1,u(`how-status`,H===null?V===void 0?`Your picture, read without a class.`:``:`An image of class ${H}.`);let{first_byte:c,step_bytes:l,predicts:d}=W.layout;ve(d),e(`moment`,HTMLInputElement).max=String(W.count-1);for(let t of[`cell-row`,`cell-column`])e(t,HTMLInputElement).value=``;Z(n?Math.floor((Math.floor(t)*B.channels-c)/l):t)}var X=t=>Number(e(t,HTMLSelectElement).value);function Z(t){G=Math.max(0,Math.min(t,W.count-1)),e(`moment`,HTMLInputElement).value=String(G),J===void 0&&_t(),$()}function St(){W&&(G===W.count-1&&Z(0),wt(!0),J=window.setInterval(()=>{if(!W)return Q();if(W.step(G)){if(G===W.count-1)return Q();Z(G+1)}},st))}function Q(){let e=J!==void 0;Ct(),e&&W&&_t()}function Ct(){window.clearInterval(J),J=void 0,wt(!1)}function wt(t){let n=e(`how-play`,HTMLButtonElement);n.setAttribute(`aria-pressed`,String(t)),n.textContent=t?`Pause`:`Play`}function $(){let[t,n]=[W,G];if(!t||!U)return;let{first_byte:r,step_bytes:i}=t.layout,a=t.position(n),s=Math.floor(a/U.size.channels),{width:c}=U.size;kt(s,s,t.layout.window);let l=`Step ${n+1} of ${t.count}: row ${Math.floor(s/c)+1}, column ${s%c+1}`,d=i===1&&U.size.channels===3?`, ${[`red`,`green`,`blue`][a%3]}`:``;u(`how-place`,l+d+(r&&n===0?` (byte 1 is drawn from a histogram)`:``)),e(`moment`,HTMLInputElement).setAttribute(`aria-valuetext`,l+d);let f=t.step(n);if(e(`how`,HTMLElement).setAttribute(`aria-busy`,String(!f)),f){e(`stages`,HTMLElement).hidden=!1,Ge(t,f,n,U,V);let r=Math.min(n+t.row,t.count-1);J!==void 0&&!t.step(r)&&t.load(r).catch(()=>void 0),Tt(t,n)}else t.load(n).then(()=>W===t&&G===n&&$(),e=>{Q(),W===t&&o(e,`how`)})}async function Tt(e,t){u(`say-weights`,`Asking for the keys of all steps before.`);try{let n=await e.weights(t);if(W!==e||G!==t)return;let r=Xe(e,n,B);K===ut&&Ot(r)}catch(t){W===e&&o(t,`how`)}}function Et(e,t){let{width:n,height:r,channels:i}=B,a=e*n+t;if(e<0||t<0||e>=r||t>=n||!U?.done)return;let o=W!==void 0&&a*i>W.position(G),s=U.bytes.subarray(a*i,(a+1)*i),c=o?`painted later`:s.join(`, `),l=q&&!o?`, weight ${(100*q[a]).toPrecision(3)} %`:``;u(`how-pixel`,`Row ${e+1}, column ${t+1}: ${c}${l}`)}function Dt(){let e=K===1&&W?.layout.window?`The frame is what is read.`:``,t=q?`Orange is what this head reads, beyond the window too.`:e,n=`Point at a pixel for its ${q?`weight`:`value`}.`;u(`how-pixel`,matchMedia(`(hover: hover)`).matches?`${t} ${n}`.trim():t)}function Ot(t){q=t;let n=e(`watched`,HTMLCanvasElement),r=n.getContext(`2d`),{width:i}=U.size,a=n.width/i,o=Math.max(...t);t.forEach((e,t)=>{r.fillStyle=`rgb(217 83 44 / ${Math.sqrt(e/o)})`,r.fillRect(t%i*a,Math.floor(t/i)*a,a,a)}),Dt()}function kt(t,n,r){let i=e(`watched`,HTMLCanvasElement);if(q=void 0,!U)return;let{width:a,height:o}=U.size,s=c(a,ot),l=Math.max(1,Math.round(s*(globalThis.devicePixelRatio||1)));Object.assign(i,{width:a*l,height:o*l}),x(i,s/l);let u=i.getContext(`2d`);u.imageSmoothingEnabled=!1;let d=U.copy(e=>e<t).canvas;if(u.drawImage(d,0,0,i.width,i.height),i.setAttribute(`aria-label`,`Image so far: ${t} of ${a*o} pixels`),n===void 0)return;let[f,p]=[Math.floor(n/a),n%a];if(u.lineWidth=Math.max(1,l/6),r){let[e,t]=r,[n,i]=[Math.max(0,f-e),Math.max(0,p-t)],o=Math.min(a,p+t+1);u.strokeStyle=`#3176c9`,u.strokeRect(i*l,n*l,(o-i)*l,(f-n+1)*l)}u.fillStyle=`#d9532c`,u.fillRect(p*l,f*l,l,l),Dt()}export{pt as setUpHow};