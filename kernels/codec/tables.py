"""Tables of the codec's functions, from whole numbers alone: the same on every machine.

A function between two entries of its table is linear. Bits are
fixed-point numbers with the unit 1 / BIT.
"""

from functools import cache

BIT = 1 << 16
ONE = 1 << 30  # what exp2 is at 0
SURE = 1 << 26  # what a sigmoid is far above 0
SIGMOID_BITS = 28  # farther from 0, a sigmoid is 0 or SURE

_UNIT = 1 << 62
_ROOTS = (  # 2^(-1/2), 2^(-1/4) ... 2^(-1/256) in units of 2^-62, rounded down
    0x2D413CCCFE779921,
    0x35D13F32B5A75ABD,
    0x3AB031B9F7490E4B,
    0x3D495F454921B30B,
    0x3EA0ECB6DC8A80CE,
    0x3F4F83033D21B05D,
    0x3FA784571EE3E212,
    0x3FD3B2D65447B229,
)


@cache
def exp2_table() -> tuple[int, ...]:
    """Return 2^(-j / 256) for j from 0 to 256, times ONE."""
    return tuple(_power(j) // (_UNIT // ONE) for j in range(257))


@cache
def log2_table() -> tuple[int, ...]:
    """Return log2(1 + j / 256) for j from 0 to 256, times BIT."""
    return (*map(_logarithm, range(256)), BIT)


@cache
def sigmoid_table() -> tuple[int, ...]:
    """Return 1 / (1 + 2^(j / 64)) for j from 0 to 64 SIGMOID_BITS, times SURE."""
    powers = (_power(4 * j) for j in range(64 * SIGMOID_BITS + 1))
    return tuple(power // ((_UNIT + power) // SURE) for power in powers)


def _power(j: int) -> int:
    """Return 2^(-j / 256) in units of 2^-62."""
    power = _UNIT
    for i, root in enumerate(_ROOTS):
        digit = (j >> (7 - i)) & 1
        if digit:
            power = (power * root) >> 62
    return power >> (j >> 8)


def _logarithm(j: int) -> int:
    """Return log2(1 + j / 256), times BIT, for j below 256: a digit by each squaring."""
    number = (256 + j) << 54
    digits = 0
    for _ in range(16):
        number = (number * number) >> 62
        digit = number >> 63
        digits = (digits << 1) | digit
        number >>= digit
    return digits
