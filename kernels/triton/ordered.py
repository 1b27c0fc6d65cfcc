"""Functions of Triton kernels that have the bits of the CPU kernel (kernels/cpu/arithmetic and
kernels/cpu/distributions): the same operations of IEEE 754, each rounded to nearest, in one order.

A kernel of such functions is compiled without contraction (`options` of pdl.py) and divides by
tl.div_rn. It has no tl.exp and no tl.log, and sums floats by tl.sum only where one of them is not 0.
So no bit depends on the card, on the tiling or on the version of Triton, whose PTX
tests/support/kernels/ptx.py looks through. The numbers that follow are those of
elementwise.h, which says where they come from.
"""

import triton
import triton.language as tl

LANES = tl.constexpr(16)  # of lane_sum in vector.h, and weights of a block in categorical.h
ROUND = tl.constexpr(12582912.0)  # 1.5 * 2^23: next to it a float has no bits for a fraction
_EPSILON = tl.constexpr(1e-5)  # of a norm
_HALF_BIN = tl.constexpr(1 / 255)
_LN2_HIGH = tl.constexpr(0.693145751953125)
_LN2_LOW = tl.constexpr(1.42860682e-6)
_EXP = tl.constexpr(
    (
        1 / 5040,
        1 / 720,
        1 / 120,
        1 / 24,
        1 / 6,
        0.5,
        1.0,
        1.0,
    )
)
_ONE_MINUS_EXP = tl.constexpr(
    (
        -1 / 5040,
        1 / 720,
        -1 / 120,
        1 / 24,
        -1 / 6,
        0.5,
    )
)
_LOG = tl.constexpr(
    (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
_GELU_OVER = tl.constexpr(
    (
        2.338694748971193e-08,
        6.3600032262911554e-06,
        0.000164319048053585,
        0.004650834947824478,
        0.03337196633219719,
        0.398942232131958,
    )
)
_GELU_UNDER = tl.constexpr(
    (
        1.2165960470156278e-06,
        7.239935075631365e-05,
        0.0018589664250612259,
        0.02837853692471981,
        0.25031721591949463,
        1.0,
    )
)


@triton.jit
def _polynomial(x, coefficients: tl.constexpr, count: tl.constexpr):
    total = tl.full(x.shape, coefficients[0], tl.float32)
    for i in tl.static_range(1, count):
        total = tl.fma(total, x, coefficients[i])
    return total


@triton.jit
def larger(a, b):
    """Return the larger one, b where a is NaN."""
    return tl.where(a > b, a, b)


@triton.jit
def exponential(x):
    x = larger(x, -87.0)
    x = tl.where(x > 88.0, 88.0, x)
    shifted = tl.fma(x, 1.44269504, ROUND)
    n = shifted - ROUND
    rest = tl.fma(n, -_LN2_HIGH, x)
    rest = tl.fma(n, -_LN2_LOW, rest)
    power = _polynomial(rest, _EXP, 8)
    power = power.to(tl.int32, bitcast=True)
    exponent = shifted.to(tl.int32, bitcast=True)
    power += exponent << 23
    return power.to(tl.float32, bitcast=True)


@triton.jit
def logarithm(x):
    normal = larger(x, 1.1754943508222875e-38)
    shifted = normal.to(tl.int32, bitcast=True) - 0x3F3504F3
    exponent = (shifted >> 23).to(tl.float32)
    mantissa = (shifted & 0x007FFFFF) + 0x3F3504F3
    f = mantissa.to(tl.float32, bitcast=True) - 1.0
    square = f * f
    low = f * square * _polynomial(f, _LOG, 9)
    low = tl.fma(exponent, _LN2_LOW, low)
    high = f + tl.fma(square, -0.5, low)
    return tl.fma(exponent, _LN2_HIGH, high)


@triton.jit
def _log_one_plus(x):
    total = x + 1.0
    return logarithm(total) + tl.div_rn(x - (total - 1.0), total)


@triton.jit
def one_minus_exponential(a):
    series = _polynomial(a, _ONE_MINUS_EXP, 6) * a
    series = tl.fma(series, -a, a)
    difference = 1.0 - exponential(-a)
    return tl.where(a < 0.34, series, difference)


@triton.jit
def log_one_minus_exponential(a):
    difference = one_minus_exponential(a)
    error = (1.0 - difference) - exponential(-a)
    correction = tl.div_rn(error, difference)
    correction = tl.where(a < 0.34, 0.0, correction)
    return logarithm(difference) + correction


@triton.jit
def log_sigmoid(x):
    negative = tl.where(x < 0.0, x, 0.0)
    return negative - _log_one_plus(exponential(negative + negative - x))


@triton.jit
def elu_plus_one(x):
    return tl.where(x > 0.0, x + 1.0, exponential(x))


@triton.jit
def gelu(x):
    clamped = tl.where(x > 5.4, 5.4, x)
    clamped = tl.where(clamped < -5.4, -5.4, clamped)
    square = clamped * clamped
    over = clamped * _polynomial(square, _GELU_OVER, 6)
    under = _polynomial(square, _GELU_UNDER, 6)
    return x * (tl.div_rn(over, under) + 0.5)


@triton.jit
def fold(lanes):
    """Return the sums [b] of lanes [b, n]: those n / 2 apart first, then n / 4."""
    rows: tl.constexpr = lanes.shape[0]
    for _ in tl.static_range(4):
        halves = tl.reshape(lanes, (rows, 2, lanes.shape[1] // 2))
        pairs = tl.permute(halves, (0, 2, 1))
        low, high = tl.split(pairs)
        lanes = low + high
    return tl.reshape(lanes, (rows,))


@triton.jit
def load_rows(x, b, k, inside, depth: tl.constexpr):
    """Return numbers k of rows b of x [B, depth], zero beyond them."""
    there = inside[:, None] & (k < depth)[None, :]
    row = b[:, None].to(tl.int64)
    return tl.load(x + row * depth + k[None, :], mask=there, other=0.0)


@triton.jit
def mean_and_factor(x, b, inside, depth: tl.constexpr):
    """Return the mean [b] and 1 / deviation [b] of rows of x."""
    lane = tl.arange(0, LANES)
    lanes = tl.zeros((b.shape[0], LANES), tl.float32)
    for i in range(0, depth, LANES):
        lanes += load_rows(x, b, i + lane, inside, depth)
    mean = tl.div_rn(fold(lanes), depth * 1.0)
    squares = tl.zeros((b.shape[0], LANES), tl.float32)
    for i in range(0, depth, LANES):
        away = load_rows(x, b, i + lane, inside, depth) - mean[:, None]
        away = tl.where((i + lane < depth)[None, :], away, 0.0)
        squares = tl.fma(away, away, squares)
    variance = tl.div_rn(fold(squares), depth * 1.0)
    deviation = tl.sqrt_rn(variance + _EPSILON)
    return mean, tl.div_rn(1.0, deviation)


@triton.jit
def normed_rows(x, b, k, inside, mean, factor, weight, bias, depth: tl.constexpr):
    """Return numbers k of rows b of x through their norm, if there is one."""
    value = load_rows(x, b, k, inside, depth)
    if weight is not None:
        scale = tl.load(weight + k, mask=k < depth, other=0.0)[None, :]
        shift = tl.load(bias + k, mask=k < depth, other=0.0)[None, :]
        value = (value - mean[:, None]) * factor[:, None]
        value = tl.fma(value, scale, shift)
    return value


@triton.jit
def weigh(logits, temperature, there):
    """Return of logits [b, n] the largest [b], the weights in blocks [b, n / 16, 16], their sum
    before each block [b, n / 16] and that of all [b]: a chain in each block, and one over these."""
    rows: tl.constexpr = logits.shape[0]
    blocks: tl.constexpr = logits.shape[1] // LANES
    top = tl.max(tl.where(there, logits, -float("inf")), axis=1)
    away = logits - top[:, None]
    if temperature is not None:
        away = tl.div_rn(away, temperature[:, None])
    weights = tl.where(there, exponential(away), 0.0)
    weights = tl.reshape(weights, (rows, blocks, LANES))
    lane = tl.arange(0, LANES)[None, None, :]
    sums = tl.zeros((rows, blocks), tl.float32)
    for i in range(LANES):
        sums += tl.sum(tl.where(lane == i, weights, 0.0), axis=2)
    block = tl.arange(0, blocks)[None, :]
    before = tl.zeros((rows, blocks), tl.float32)
    total = tl.zeros((rows,), tl.float32)
    for i in range(blocks):
        before = tl.where(block == i, total[:, None], before)
        total += tl.sum(tl.where(block == i, sums, 0.0), axis=1)
    return top, weights, before, total


@triton.jit
def pick(logits, temperature, uniform, there, count):
    """Return which of the first `count` values each uniform chooses, int32."""
    _, weights, before, total = weigh(logits, temperature, there)
    target = uniform * total
    block = tl.arange(0, before.shape[1])[None, :]
    passed = (target[:, None] >= before) & (block > 0) & (block * LANES < count)
    chosen_block = tl.sum(passed.to(tl.int32), axis=1)
    is_chosen = block == chosen_block[:, None]
    running = tl.sum(tl.where(is_chosen, before, 0.0), axis=1)
    in_block = tl.sum(tl.where(is_chosen[:, :, None], weights, 0.0), axis=1)
    lane = tl.arange(0, LANES)[None, :]
    picked = chosen_block * LANES
    for i in range(LANES - 1):
        running += tl.sum(tl.where(lane == i, in_block, 0.0), axis=1)
        picked += (target >= running).to(tl.int32)
    return tl.minimum(picked, count - 1)


@triton.jit
def log_sum_exp(logits, there):
    """Return log(sum(exp(logits))) [b] float64."""
    top, _, _, total = weigh(logits, None, there)
    return top.to(tl.float64) + logarithm(total).to(tl.float64)


@triton.jit
def real_of(byte):
    return tl.div_rn(byte, 127.5) - 1.0


@triton.jit
def log_bin(byte, means, scales):
    """As log_bin of sampling.py."""
    is_black = (byte == 0)[:, None]
    is_white = (byte == 255)[:, None]
    centred = real_of(byte)[:, None] - means
    inner = log_sigmoid(tl.div_rn(centred + _HALF_BIN, scales))
    outer = log_sigmoid(tl.div_rn(_HALF_BIN - centred, scales))
    width = log_one_minus_exponential(tl.div_rn(2 * _HALF_BIN, scales))
    log = tl.where(is_white, 0.0, inner)
    log += tl.where(is_black, 0.0, outer)
    return log + tl.where(is_black | is_white, 0.0, width)
