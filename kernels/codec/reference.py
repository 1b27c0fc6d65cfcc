"""Quantised CDFs: a byte's distribution as whole numbers, from the parameters that a step computes.

Encoder and decoder must agree to the last bit, on any processor and in any language. So the
parameters become whole numbers at once, by one multiplication and without a rounding that could
differ, and all that follows is arithmetic of whole numbers, below 2^53 with up to 127 components:
float64 holds them. The 256 values of a byte divide TOTAL = 2^24: the interval of value x begins at
P(x) - P(x) / 2^16 + x, P being the cumulative probability in units of 2^-24, so that none is empty.

Bits, logarithms to the base 2, have the unit 1 / BIT; bytes 2^-12.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from scanline.kernels.categorical.reference import VALUES, Categorical
from scanline.kernels.codec.coder import MIN_RANGE, PRECISION, TOTAL
from scanline.kernels.codec.tables import (
    BIT,
    ONE,
    SIGMOID_BITS,
    SURE,
    exp2_table,
    log2_table,
    sigmoid_table,
)
from scanline.kernels.pixel_logistics.reference import PixelLogistics

BITS_OF_E = 94548  # log2(e) BIT
CENTRE = 522240  # 127.5 bytes; also what a mean's unit is
BYTE = 1 << 12
MAX_VALUE = 1 << 26  # of what a parameter becomes
FARTHEST = 1 << 23  # of a mean
MAX_FACTOR = 1 << 20
# The inverse of a scale is bits by byte, in units of 2^-20: log2(e) / 127.5 / scale.
RATE = 12441254689  # log2(e) / 127.5 in units of 2^-40
FLOOR = 661836  # -ln of the least scale, in bits: PixelLogistics, "exp"
MAX_RATE = 13011448  # the inverse of that scale
MIN_SCALE = 105  # 0.0001 in units of 2^-20: PixelLogistics, "elu"
_FRACTION = BIT - 1  # mask of the digits of bits behind the point

# Returns where the intervals of a byte's values [...] begin, int64 [...], for values from 0 to 256.
Starts = Callable[[Tensor], Tensor]
Table = Callable[[], tuple[int, ...]]
# returns the values int64 [...] of the byte that has these intervals
Choose = Callable[[Starts], Tensor]


def for_each_channel(
    distribution: Categorical | PixelLogistics, parameters: Tensor, choose: Choose
) -> None:
    """Call `choose` for each byte of a step in order, under `parameters` [..., width]: to encode a
    byte, or find it."""
    if not isinstance(distribution, Categorical):
        _for_each_pixel_channel(distribution, parameters, choose)
        return
    weights = _weights(_below_largest(parameters))
    # of the weights of all smaller values
    sums = torch.nn.functional.pad(weights.cumsum(-1), (1, 0))
    total = sums[..., -1]

    def starts(values: Tensor) -> Tensor:
        smaller = sums.gather(-1, values.unsqueeze(-1)).squeeze(-1)
        cumulative = (smaller * TOTAL) // total
        return _start(cumulative, values)

    choose(starts)


def intervals(
    distribution: Categorical | PixelLogistics, parameters: Tensor, values: Tensor
) -> Tensor:
    """Return the starts and widths int64 [..., C, 2] of a step's bytes `values` [..., C], each
    given the earlier."""
    of_channels: list[Tensor] = []

    def choose(starts: Starts) -> Tensor:
        channel = len(of_channels)
        value = values[..., channel].long()
        start = starts(value)
        width = starts(value + 1) - start
        of_channels.append(torch.stack((start, width), dim=-1))
        return value

    for_each_channel(distribution, parameters, choose)
    return torch.stack(of_channels, dim=-2)


@dataclass(frozen=True)
class Readers:
    """Decoders of B codes, as coder.Decoder, whose numbers change IN PLACE."""

    code: Tensor  # [B, W] uint8, 0 behind an end
    at: Tensor  # [B] int64
    value: Tensor  # [B] int64
    range: Tensor  # [B] int64

    def targets(self) -> Tensor:
        """Return a number [B] of the next symbol's interval."""
        unit = self.range >> PRECISION
        return (self.value // unit).clamp(max=TOTAL - 1)

    def take(self, starts: Tensor, widths: Tensor) -> None:
        """Go past symbols with the intervals `starts` and `widths` [B]."""
        unit = self.range >> PRECISION
        self.range.copy_(unit * widths)
        self.value.copy_(torch.minimum(self.value - unit * starts, self.range - 1))
        is_short = self.range < MIN_RANGE
        while bool(is_short.any()):
            byte = self._next_bytes()
            self.value.copy_(torch.where(is_short, (self.value << 8) | byte, self.value))
            self.range.copy_(torch.where(is_short, self.range << 8, self.range))
            self.at.add_(is_short)
            is_short = self.range < MIN_RANGE

    def _next_bytes(self) -> Tensor:
        """Return the next byte [B] int64 of each code, 0 behind its end."""
        length = self.code.shape[1]
        inside = self.at.clamp(max=length - 1)
        byte = self.code.gather(1, inside.unsqueeze(1)).squeeze(1).long()
        return byte.masked_fill(self.at >= length, 0)


def decode(
    distribution: Categorical | PixelLogistics, parameters: Tensor, readers: Readers
) -> Tensor:
    """Return the bytes [B, C] uint8 of a step that codes have under `parameters` [B, width]; move
    the readers."""
    of_channels: list[Tensor] = []

    def choose(starts: Starts) -> Tensor:
        values = find(starts, readers.targets())
        start = starts(values)
        width = starts(values + 1) - start
        readers.take(start, width)
        of_channels.append(values)
        return values

    for_each_channel(distribution, parameters, choose)
    return torch.stack(of_channels, dim=-1).to(torch.uint8)


def histogram_starts(histogram: Sequence[float]) -> list[int]:
    """Return where the intervals of the 256 values of a first byte begin, and TOTAL, from their
    probabilities."""
    weights = [int(probability * (1 << 20)) + 1 for probability in histogram]
    total = sum(weights)
    starts = []
    for value in range(VALUES + 1):
        smaller = sum(weights[:value])
        starts.append((smaller * TOTAL) // total)
    return starts


def find(starts: Starts, targets: Tensor) -> Tensor:
    """Return the values int64 [...] whose intervals hold the numbers `targets` [...] below TOTAL."""
    values = torch.zeros_like(targets)
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        larger = values + step
        values = torch.where(starts(larger) <= targets, larger, values)
    return values


def _start(cumulative: Tensor, values: Tensor) -> Tensor:
    return cumulative - (cumulative >> 16) + values


@dataclass(frozen=True)
class _Logistics:
    """The components of one channel: all int64 [..., K]."""

    below: Tensor  # how many bits each logarithm of a weight is below the largest
    means: Tensor
    rates: Tensor  # the inverses of the scales

    def edges(self, values: Tensor) -> Tensor:
        """Return how many bits [..., K] from each mean the bins of `values` [...] begin."""
        edges = values.unsqueeze(-1) * BYTE - BYTE // 2
        return ((edges - self.means) * self.rates) >> 16

    def starts(self, values: Tensor) -> Tensor:
        """See Starts."""
        weights = _weights(self.below)
        total = weights.sum(-1) * (SURE // TOTAL)
        below_edges = weights * sigmoid(self.edges(values))
        cumulative = below_edges.sum(-1) // total
        cumulative = cumulative.masked_fill(values == 0, 0)
        cumulative = cumulative.masked_fill(values == VALUES, TOTAL)
        return _start(cumulative, values)

    def below_after(self, values: Tensor) -> Tensor:
        """Return `below` of the next channel: each component's weight times what it gave the bytes
        `values` [...]."""
        # A bin has the probability sigmoid(upper edge) sigmoid(-lower edge) (1 - e^-width); black
        # has no lower edge, white no upper one, and both are as wide as the rest of the line.
        is_black = (values == 0).unsqueeze(-1)
        is_white = (values == VALUES - 1).unsqueeze(-1)
        inner = log2_sigmoid(self.edges(values + 1)).masked_fill(is_white, 0)
        outer = log2_sigmoid(-self.edges(values)).masked_fill(is_black, 0)
        rest = (ONE - exp2(self.rates >> 4)).clamp(min=1)
        width = log2(rest) - 30 * BIT
        width = width.masked_fill(is_black | is_white, 0)
        below = self.below - inner - outer - width
        return below - below.amin(-1, keepdim=True)


def _for_each_pixel_channel(
    distribution: PixelLogistics, parameters: Tensor, choose: Choose
) -> None:
    k = distribution.components
    c = distribution.channels
    coefficients = distribution.coefficients  # of each component, one for each pair of channels
    sizes = (k, k * c, k * c, k * coefficients)
    logits, raw_means, raw_scales, raw_factors = parameters.split(sizes, dim=-1)

    # All parameters as whole numbers: [..., K], [..., K, C], [..., K, C] and [..., K coefficients].
    below = _below_largest(logits)
    means = whole(raw_means, CENTRE).clamp(-FARTHEST, FARTHEST) + CENTRE
    means = means.unflatten(-1, (k, c))
    rates = _rates(distribution.scale, raw_scales).unflatten(-1, (k, c))
    factors = whole(raw_factors, BYTE).clamp(-MAX_FACTOR, MAX_FACTOR)

    errors: list[Tensor] = []
    for channel in range(c):
        # The errors of earlier channels move the means of this one.
        mean = means[..., channel]
        first = channel * (channel - 1) // 2
        for number, error in enumerate(errors, first):
            factor = factors[..., number::coefficients]
            mean = mean + ((factor * error) >> 12)
        mean = mean.clamp(-FARTHEST, FARTHEST)
        logistics = _Logistics(below, mean, rates[..., channel])
        values = choose(logistics.starts)
        below = logistics.below_after(values)
        errors.append(values.unsqueeze(-1) * BYTE - means[..., channel])


def round_shift(number: Tensor, places: int) -> Tensor:
    """Return number / 2^places, rounded to the nearest whole number, halves up."""
    half = 1 << (places - 1)
    return (number + half) >> places


def _weights(below: Tensor) -> Tensor:
    """Return 2^-below in units of 2^-20, rounded."""
    return round_shift(exp2(below), 10)


def _below_largest(logits: Tensor) -> Tensor:
    """Return how many bits each logit [..., n] is below the largest."""
    bits = whole(logits, BITS_OF_E)
    return bits.amax(-1, keepdim=True) - bits


def _rates(scale: str, raw: Tensor) -> Tensor:
    """Return the inverses of the logistics' scales, given by the parameters `raw`."""
    bits = whole(raw, BITS_OF_E)
    if scale == "exp":
        power = exp2((bits + FLOOR).clamp(min=0)) >> 6
        return (power * MAX_RATE) >> 24
    power = exp2((-bits).clamp(min=0)) >> 10
    linear = whole(raw, 1 << 20).clamp(min=0)
    return RATE // (power + linear + MIN_SCALE)


def whole(parameters: Tensor, factor: int) -> Tensor:
    """Return float32 parameters times a factor as whole numbers, rounded towards 0, from
    -MAX_VALUE, which is also what is not a number, to MAX_VALUE."""
    product = parameters.float() * float(factor)
    limited = product.clamp(max=MAX_VALUE)
    return torch.where(product > -MAX_VALUE, limited, -MAX_VALUE).long()


def exp2(bits: Tensor) -> Tensor:
    """Return 2^(-bits / BIT) ONE for bits of at least 0."""
    fraction = (bits & _FRACTION) << 8
    index = fraction >> 16
    power = _between(exp2_table, index, fraction & 0xFFFF, 16)
    places = (bits >> 16).clamp(max=31)
    return power >> places


def log2(number: Tensor) -> Tensor:
    """Return log2(number) BIT for numbers from 1 to 2 ONE - 1."""
    places = torch.frexp(number.double()).exponent.long() - 1
    fraction = (number << (30 - places)) - ONE
    index = fraction >> 22
    rest = fraction & 0x3FFFFF
    return (places << 16) + _between(log2_table, index, rest >> 6, 16)


def log2_sigmoid(bits: Tensor) -> Tensor:
    """Return log2(1 / (1 + 2^(-bits / BIT))) BIT."""
    power = exp2(bits.abs())
    index = (power >> 22).clamp(max=255)
    rest = power - (index << 22)
    return bits.clamp(max=0) - _between(log2_table, index, rest >> 6, 16)


def sigmoid(bits: Tensor) -> Tensor:
    """Return SURE / (1 + 2^(-bits / BIT))."""
    away = bits.abs().clamp(max=SIGMOID_BITS * BIT - 1)
    tail = _between(sigmoid_table, away >> 10, away & 1023, 10)
    return torch.where(bits < 0, tail, SURE - tail)


@cache
def _entries(table: Table, device: torch.device) -> Tensor:
    return torch.tensor(table(), device=device)


def _between(table: Table, index: Tensor, fraction: Tensor, places: int) -> Tensor:
    """Return the value of a table at index + fraction / 2^places."""
    entries = _entries(table, index.device)
    first = entries[index]
    difference = entries[index + 1] - first
    return first + ((difference * fraction) >> places)
