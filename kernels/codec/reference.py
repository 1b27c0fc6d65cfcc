"""Quantised CDFs: a byte's distribution as whole numbers, from the parameters that a step computes.

Encoder and decoder must agree to the last bit, on any processor and in any language. So the parameters become whole
numbers at once, by one multiplication and without a rounding that could differ, and all that follows is arithmetic of
whole numbers, below 2^53 with up to 127 components: float64 holds them. The 256 values of a byte divide TOTAL = 2^24:
the interval of value x begins at P(x) - P(x) / 2^16 + x, P being the cumulative probability in units of 2^-24, so that
none is empty.

Bits, logarithms to the base 2, have the unit 1 / BIT; bytes 2^-12.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from scanline.kernels.categorical.reference import VALUES, Categorical
from scanline.kernels.codec.coder import MIN_RANGE, PRECISION, TOTAL
from scanline.kernels.codec.tables import BIT, ONE, SIGMOID_BITS, SURE, exp2_table, log2_table, sigmoid_table
from scanline.kernels.pixel_logistics.reference import PixelLogistics

BITS_OF_E = 94548  # log2(e) BIT
CENTRE = 522240  # 127.5 bytes; also what a mean's unit is
BYTE = 1 << 12
MAX_VALUE = 1 << 26  # of what a parameter becomes
FARTHEST = 1 << 23  # of a mean
MAX_FACTOR = 1 << 20
# The inverse of a scale is bits by byte, in units of 2^-20: log2(e) / 127.5 / scale.
RATE = 12441254689  # log2(e) / 127.5 in units of 2^-40
FLOOR, MAX_RATE = 661836, 13011448  # -ln of the least scale in bits, and its inverse: PixelLogistics, "exp"
MIN_SCALE = 105  # 0.0001 in units of 2^-20: PixelLogistics, "elu"

# Returns where the intervals of a byte's values [...] begin, int64 [...], for values from 0 to 256.
Starts = Callable[[torch.Tensor], torch.Tensor]
Table = Callable[[], tuple[int, ...]]
Choose = Callable[[Starts], torch.Tensor]  # returns the values int64 [...] of the byte that has these intervals


def for_each_channel(distribution: Categorical | PixelLogistics, parameters: torch.Tensor, choose: Choose) -> None:
    """Call `choose` for each byte of a step in order, under `parameters` [..., width]: to encode a byte, or find it."""
    if isinstance(distribution, Categorical):
        before = torch.nn.functional.pad(_weights(_below_largest(parameters)).cumsum(-1), (1, 0))
        choose(lambda values: _start(before.gather(-1, values[..., None])[..., 0] * TOTAL // before[..., -1], values))
    else:
        _for_each_pixel_channel(distribution, parameters, choose)


def intervals(
    distribution: Categorical | PixelLogistics, parameters: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Return the starts and widths int64 [..., C, 2] of a step's bytes `values` [..., C], each given the earlier."""
    found: list[torch.Tensor] = []

    def choose(starts: Starts) -> torch.Tensor:
        value = values[..., len(found)].long()
        start = starts(value)
        found.append(torch.stack((start, starts(value + 1) - start), dim=-1))
        return value

    for_each_channel(distribution, parameters, choose)
    return torch.stack(found, dim=-2)


@dataclass(frozen=True)
class Readers:
    """Decoders of B codes, as coder.Decoder, whose numbers change IN PLACE."""

    code: torch.Tensor  # [B, W] uint8, 0 behind an end
    at: torch.Tensor  # [B] int64
    value: torch.Tensor  # [B] int64
    range: torch.Tensor  # [B] int64

    def targets(self) -> torch.Tensor:
        """Return a number [B] of the next symbol's interval."""
        return (self.value // (self.range >> PRECISION)).clamp(max=TOTAL - 1)

    def take(self, starts: torch.Tensor, widths: torch.Tensor) -> None:
        """Go past symbols with the intervals `starts` and `widths` [B]."""
        unit = self.range >> PRECISION
        self.range.copy_(unit * widths)
        self.value.copy_(torch.minimum(self.value - unit * starts, self.range - 1))
        while bool((is_short := self.range < MIN_RANGE).any()):
            byte = self.code.gather(1, self.at.clamp(max=self.code.shape[1] - 1)[:, None])[:, 0].long()
            byte = byte.masked_fill(self.at >= self.code.shape[1], 0)
            self.value.copy_(torch.where(is_short, self.value << 8 | byte, self.value))
            self.range.copy_(torch.where(is_short, self.range << 8, self.range))
            self.at.add_(is_short)


def decode(distribution: Categorical | PixelLogistics, parameters: torch.Tensor, readers: Readers) -> torch.Tensor:
    """Return the bytes [B, C] uint8 of a step that codes have under `parameters` [B, width]; move the readers."""
    found: list[torch.Tensor] = []

    def choose(starts: Starts) -> torch.Tensor:
        values = find(starts, readers.targets())
        start = starts(values)
        readers.take(start, starts(values + 1) - start)
        found.append(values)
        return values

    for_each_channel(distribution, parameters, choose)
    return torch.stack(found, dim=-1).to(torch.uint8)


def histogram_starts(histogram: Sequence[float]) -> list[int]:
    """Return where the intervals of the 256 values of a first byte begin, and TOTAL, from their probabilities."""
    weights = [int(probability * (1 << 20)) + 1 for probability in histogram]
    return [sum(weights[:value]) * TOTAL // sum(weights) for value in range(VALUES + 1)]


def find(starts: Starts, targets: torch.Tensor) -> torch.Tensor:
    """Return the values int64 [...] whose intervals hold the numbers `targets` [...] below TOTAL."""
    values = torch.zeros_like(targets)
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        values = torch.where(starts(values + step) <= targets, values + step, values)
    return values


def _start(cumulative: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return cumulative - (cumulative >> 16) + values


@dataclass(frozen=True)
class _Logistics:
    """The components of one channel: all int64 [..., K]."""

    below: torch.Tensor  # how many bits each logarithm of a weight is below the largest
    means: torch.Tensor
    rates: torch.Tensor  # the inverses of the scales

    def edges(self, values: torch.Tensor) -> torch.Tensor:
        """Return how many bits [..., K] from each mean the bins of `values` [...] begin."""
        return (values[..., None] * BYTE - BYTE // 2 - self.means) * self.rates >> 16

    def starts(self, values: torch.Tensor) -> torch.Tensor:
        """See Starts."""
        weights = _weights(self.below)
        total = weights.sum(-1) * (SURE // TOTAL)
        cumulative = (weights * sigmoid(self.edges(values))).sum(-1) // total
        cumulative = cumulative.masked_fill(values == 0, 0).masked_fill(values == VALUES, TOTAL)
        return _start(cumulative, values)

    def below_after(self, values: torch.Tensor) -> torch.Tensor:
        """Return `below` of the next channel: each component's weight times what it gave the bytes `values` [...]."""
        is_black, is_white = (values == 0)[..., None], (values == VALUES - 1)[..., None]
        inner = log2_sigmoid(self.edges(values + 1)).masked_fill(is_white, 0)
        outer = log2_sigmoid(-self.edges(values)).masked_fill(is_black, 0)
        width = log2((ONE - exp2(self.rates >> 4)).clamp(min=1)) - 30 * BIT
        below = self.below - inner - outer - width.masked_fill(is_black | is_white, 0)
        return below - below.amin(-1, keepdim=True)


def _for_each_pixel_channel(distribution: PixelLogistics, parameters: torch.Tensor, choose: Choose) -> None:
    k, c = distribution.components, distribution.channels
    logits, raw_means, raw_scales, factors = parameters.split((k, k * c, k * c, k * distribution.coefficients), dim=-1)
    below = _below_largest(logits)
    means = (whole(raw_means, CENTRE).clamp(-FARTHEST, FARTHEST) + CENTRE).unflatten(-1, (k, c))
    rates = _rates(distribution.scale, raw_scales).unflatten(-1, (k, c))
    factors = whole(factors, BYTE).clamp(-MAX_FACTOR, MAX_FACTOR)
    errors: list[torch.Tensor] = []
    for channel in range(c):
        mean = means[..., channel]
        for number, error in enumerate(errors, channel * (channel - 1) // 2):
            mean = mean + (factors[..., number :: distribution.coefficients] * error >> 12)
        logistics = _Logistics(below, mean.clamp(-FARTHEST, FARTHEST), rates[..., channel])
        values = choose(logistics.starts)
        below = logistics.below_after(values)
        errors.append(values[..., None] * BYTE - means[..., channel])


def _weights(below: torch.Tensor) -> torch.Tensor:
    """Return 2^-below in units of 2^-20, rounded."""
    return exp2(below) + 512 >> 10


def _below_largest(logits: torch.Tensor) -> torch.Tensor:
    """Return how many bits each logit [..., n] is below the largest."""
    bits = whole(logits, BITS_OF_E)
    return bits.amax(-1, keepdim=True) - bits


def _rates(scale: str, raw: torch.Tensor) -> torch.Tensor:
    """Return the inverses of the logistics' scales, given by the parameters `raw`."""
    bits = whole(raw, BITS_OF_E)
    if scale == "exp":
        return (exp2((bits + FLOOR).clamp(min=0)) >> 6) * MAX_RATE >> 24
    linear = whole(raw, 1 << 20).clamp(min=0)
    return RATE // ((exp2((-bits).clamp(min=0)) >> 10) + linear + MIN_SCALE)


def whole(parameters: torch.Tensor, factor: int) -> torch.Tensor:
    """Return float32 parameters times a factor as whole numbers, rounded towards 0, from -MAX_VALUE, which is also
    what is not a number, to MAX_VALUE."""
    product = parameters.float() * float(factor)
    return torch.where(product > -MAX_VALUE, product.clamp(max=MAX_VALUE), -MAX_VALUE).long()


def exp2(bits: torch.Tensor) -> torch.Tensor:
    """Return 2^(-bits / BIT) ONE for bits of at least 0."""
    fraction = (bits & BIT - 1) << 8
    return _between(exp2_table, fraction >> 16, fraction & 0xFFFF, 16) >> (bits >> 16).clamp(max=31)


def log2(number: torch.Tensor) -> torch.Tensor:
    """Return log2(number) BIT for numbers from 1 to 2 ONE - 1."""
    places = torch.frexp(number.double()).exponent.long() - 1
    fraction = (number << 30 - places) - ONE
    return (places << 16) + _between(log2_table, fraction >> 22, (fraction & (1 << 22) - 1) >> 6, 16)


def log2_sigmoid(bits: torch.Tensor) -> torch.Tensor:
    """Return log2(1 / (1 + 2^(-bits / BIT))) BIT."""
    power = exp2(bits.abs())
    index = (power >> 22).clamp(max=255)
    return bits.clamp(max=0) - _between(log2_table, index, (power - (index << 22)) >> 6, 16)


def sigmoid(bits: torch.Tensor) -> torch.Tensor:
    """Return SURE / (1 + 2^(-bits / BIT))."""
    away = bits.abs().clamp(max=SIGMOID_BITS * BIT - 1)
    tail = _between(sigmoid_table, away >> 10, away & 1023, 10)
    return torch.where(bits < 0, tail, SURE - tail)


@cache
def _entries(table: Table, device: torch.device) -> torch.Tensor:
    return torch.tensor(table(), device=device)


def _between(table: Table, index: torch.Tensor, fraction: torch.Tensor, places: int) -> torch.Tensor:
    """Return the value of a table at index + fraction / 2^places."""
    entries = _entries(table, index.device)
    first = entries[index]
    return first + ((entries[index + 1] - first) * fraction >> places)
