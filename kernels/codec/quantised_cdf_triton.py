"""The quantised CDFs of reference.py on a GPU: what its functions are given and return is [b,
K] int64, unless they say otherwise.

After the one multiplication in `whole` all is arithmetic of whole numbers, so that no layout
and no order of a sum changes a bit.
"""

from functools import cache

import torch
import triton
import triton.language as tl

from scanline.kernels.codec import coder, reference, tables
from scanline.kernels.pixel_logistics.triton import coefficients, own_means

TOTAL = tl.constexpr(coder.TOTAL)
SURE = tl.constexpr(tables.SURE)
BITS_OF_E = tl.constexpr(reference.BITS_OF_E)
# bits below the largest, of a component that is not there: its weight is 0
NOTHING = tl.constexpr(1 << 40)
_BIT = tl.constexpr(tables.BIT)
_FRACTION = tl.constexpr(tables.BIT - 1)
_ONE = tl.constexpr(tables.ONE)
_LOG2 = tl.constexpr(257)  # where the tables begin after that of exp2
_SIGMOID = tl.constexpr(2 * 257)
_FARTHEST_BITS = tl.constexpr(tables.SIGMOID_BITS * tables.BIT - 1)
_CENTRE = tl.constexpr(reference.CENTRE)
_BYTE = tl.constexpr(reference.BYTE)
_MAX_VALUE = tl.constexpr(reference.MAX_VALUE)
_FARTHEST = tl.constexpr(reference.FARTHEST)
_MAX_FACTOR = tl.constexpr(reference.MAX_FACTOR)
_RATE = tl.constexpr(reference.RATE)
_FLOOR = tl.constexpr(reference.FLOOR)
_MAX_RATE = tl.constexpr(reference.MAX_RATE)
_MIN_SCALE = tl.constexpr(reference.MIN_SCALE)


@cache
def tables_on(device: torch.device) -> torch.Tensor:
    """Return the tables of exp2, log2 and sigmoid, one after the other, int32."""
    entries = tables.exp2_table() + tables.log2_table() + tables.sigmoid_table()
    return torch.tensor(entries, dtype=torch.int32, device=device)


@triton.jit
def start_after(cumulative, byte):
    return cumulative - (cumulative >> 16) + byte


@triton.jit
def start_of(byte, weights, total, means, rates, table, values: tl.constexpr):
    """Return where the intervals of bytes [b] begin, `total` [b] being the sum of the weights:
    _Logistics.starts."""
    edges = _edges(byte, means, rates)
    below_edges = weights * _sigmoid(edges, table)
    cumulative = tl.sum(below_edges, axis=1) // total
    cumulative = tl.where(byte == values, TOTAL, cumulative)
    cumulative = tl.where(byte == 0, 0, cumulative)
    return start_after(cumulative, byte)


@triton.jit
def _edges(byte, means, rates):
    edges = byte[:, None] * _BYTE - _BYTE // 2
    return ((edges - means) * rates) >> 16


@triton.jit
def below_after(byte, below, means, rates, there, table, values: tl.constexpr):
    """As _Logistics.below_after of reference.py."""
    is_black = (byte == 0)[:, None]
    is_white = (byte == values - 1)[:, None]
    upper = _log2_sigmoid(_edges(byte + 1, means, rates), table)
    lower = _log2_sigmoid(-_edges(byte, means, rates), table)
    inner = tl.where(is_white, 0, upper)
    outer = tl.where(is_black, 0, lower)
    rest = tl.maximum(_ONE - _exp2(rates >> 4, table), 1)
    width = _log2(rest, table) - 30 * _BIT
    below = below - inner - outer
    below -= tl.where(is_black | is_white, 0, width)
    below = tl.where(there, below, NOTHING)
    return below - tl.min(below, axis=1)[:, None]


@triton.jit
def means_of(
    first, base, k, c, seen, channel: tl.constexpr, components, channels: tl.constexpr, inside, live
):
    """Return the means of a channel, moved by the errors of the earlier ones, whose bytes are
    `seen` [b, C]."""
    mean = _own_means(first, base, k, channel, components, channels, inside, live)
    for earlier in tl.static_range(channel):
        # Registers cannot be indexed: a channel of `seen` is read by a masked sum.
        byte = tl.sum(tl.where(c == earlier, seen, 0), axis=1)[:, None]
        error = byte * _BYTE
        error -= _own_means(first, base, k, earlier, components, channels, inside, live)
        real = coefficients(first, k, channel, earlier, components, channels, inside)
        factors = _clamp(whole(real, _BYTE), _MAX_FACTOR)
        mean += (factors * error) >> 12
    return _clamp(mean, _FARTHEST)


@triton.jit
def _own_means(
    first, base, k, channel: tl.constexpr, components, channels: tl.constexpr, inside, live
):
    real = own_means(first, base, k, channel, components, channels, inside, live)
    return _clamp(whole(real, _CENTRE), _FARTHEST) + _CENTRE


@triton.jit
def _clamp(number, most: tl.constexpr):
    return tl.minimum(tl.maximum(number, -most), most)


@triton.jit
def weights_of(below, table):
    return (_exp2(below, table) + 512) >> 10


@triton.jit
def rates_of(raw, scale: tl.constexpr, table):
    bits = whole(raw, BITS_OF_E)
    if scale == "exp":
        power = _exp2(tl.maximum(bits + _FLOOR, 0), table) >> 6
        rates = (power * _MAX_RATE) >> 24
    else:
        linear = tl.maximum(whole(raw, 1 << 20), 0)
        power = _exp2(tl.maximum(-bits, 0), table) >> 10
        rates = _RATE // (power + linear + _MIN_SCALE)
    return rates


@triton.jit
def whole(parameters, factor: tl.constexpr):
    # One rounding, that of the product; what is not a number is not above -MAX_VALUE.
    product = parameters * tl.full((), factor, tl.float32)
    most = tl.full((), _MAX_VALUE, tl.float32)
    limited = tl.where(product > -most, tl.minimum(product, most), -most)
    return limited.to(tl.int64)


@triton.jit
def _exp2(bits, table):
    fraction = (bits & _FRACTION) << 8
    power = _between(table, fraction >> 16, fraction & 0xFFFF, 16)
    return power >> tl.minimum(bits >> 16, 31)


@triton.jit
def _log2(number, table):
    # The exponent of the number as float64, which holds it exactly.
    bits = number.to(tl.float64).to(tl.int64, bitcast=True)
    places = (bits >> 52) - 1023
    fraction = (number << (30 - places)) - _ONE
    rest = fraction & 0x3FFFFF
    return (places << 16) + _between(table + _LOG2, fraction >> 22, rest >> 6, 16)


@triton.jit
def _log2_sigmoid(bits, table):
    power = _exp2(tl.abs(bits), table)
    index = tl.minimum(power >> 22, 255)
    rest = power - (index << 22)
    return tl.minimum(bits, 0) - _between(table + _LOG2, index, rest >> 6, 16)


@triton.jit
def _sigmoid(bits, table):
    away = tl.minimum(tl.abs(bits), _FARTHEST_BITS)
    index = away >> 10
    tail = _between(table + _SIGMOID, index, away & 1023, 10)
    return tl.where(bits < 0, tail, SURE - tail)


@triton.jit
def _between(table, index, fraction, places: tl.constexpr):
    first = tl.load(table + index).to(tl.int64)
    second = tl.load(table + index + 1).to(tl.int64)
    difference = second - first
    return first + ((difference * fraction) >> places)
