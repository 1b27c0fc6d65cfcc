"""activation(norm(x) W^T + b) + residual in one launch, on tensor cores, with factors of 22 bits.
Reference: torch's layer_norm and linear in float64.

A float32 number is a float16 and 2^-11 times another, to 22 bits. Products of float16 numbers
are exact in a tensor core, so high x high + 2^-11 (low x high + high x low) is the product of
float32 numbers to about 21 bits; weights that are float16 already have no low part and need
one product less. A tensor core truncates its float32 sums where a processor rounds them:
expect an error of some 1e-6 of the sum of |x| |w| at K = 1,024, several times that of a
float32 product. |x| must stay below 65,504.

Weights are the M of the products and rows of x their N, so that few rows need no padding to 64 and
the weights go from memory to the tensor cores without conversion. Every program runs through all of
K in the same order, and a norm's mean and variance come from `moments.py`, whose sums have one
order. So no bit of a row depends on the batch, or on how many rows and columns a program has;
neither does how much of K it takes at a time, since a tensor core adds 16 products at a time either
way (benchmarks.gpu saw so on an H200), except for the low parts of weights (see `linear`).
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton.layer_norm import EPSILON
from scanline.kernels.triton.moments import blocks, mean_and_rstd, row_moments, store_moments
from scanline.kernels.triton.pdl import options, wait

# programs from which on wide ones are taken, half as many as an
# H100 has multiprocessors; not measured
ENOUGH = 64
LOW = 2048.0
ACTIVATIONS = ("none", "relu", "gelu")


@dataclass(frozen=True)
class Tiling:
    """Tile of a program: WIDE reads x and weights the fewest times, NARROW makes more programs and
    fetches early."""

    rows: int  # of x
    columns: int  # of the result: multiples of 64, which a Hopper's warps multiply together
    depth: int  # of K at a time
    stages: int  # fetched ahead
    warps: int
    early: bool  # whether the first weights are fetched before everything else


WIDE = Tiling(64, 128, 64, 3, 8, False)
NARROW = Tiling(16, 64, 256, 2, 8, True)


@dataclass(frozen=True)
class Halves:
    """A weight [O, K] as float16 numbers: weight = high + low / 2048; `low` is None where all of it
    is zero."""

    high: Tensor  # [O, K]
    low: Tensor | None  # [O, K]

    @classmethod
    def of(cls, weight: Tensor) -> "Halves":
        """Split a float32 weight [O, K]; ValueError where a number is beyond float16's range."""
        high = weight.half().contiguous()
        if not high.isfinite().all():
            raise ValueError(
                "a weight of 65,504 or more does not fit the kernels' products of float16 numbers"
            )
        low = ((weight.float() - high.float()) * LOW).half().contiguous()
        return cls(high, low if low.any() else None)


def linear(
    x: Tensor,  # [B, K] float32
    weight: Halves,  # [O, K]
    bias: Tensor,  # [O], or one for each label: [1 + K, O]
    out: Tensor,  # [B, O] float32: where to put the result; may be `residual`
    norm: tuple[Tensor, Tensor] | None = None,  # weight and bias [K] of a LayerNorm of x
    activation: str = "none",
    # [B, O], added at the end; written before the previous kernel began
    residual: Tensor | None = None,
    tiling: Tiling | None = None,  # chosen by the number of rows if not given
    chained: bool = False,  # by programmatic dependent launch: see pdl.py
    # [B, blocks(K), 2] of x, for the norm; computed by a launch if not given
    moments: Tensor | None = None,
    out_moments: Tensor | None = None,  # [B, blocks(O), 2]: where to put those of the result
    # slots [B], -1: none, and the label of each slot [S]
    labels: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Write `out`, and `out_moments` if given, and return `out`."""
    batch, depth = x.shape
    width = bias.shape[-1]
    assert (bias.dim() == 2) == (labels is not None)
    if weight.high.shape != (width, depth) or out.shape != (batch, width):
        raise ValueError(
            f"x {list(x.shape)}, weight {list(weight.high.shape)} and out {list(out.shape)} do not fit"
        )
    assert activation in ACTIVATIONS
    assert x.is_contiguous()
    assert out.is_contiguous()
    assert moments is None or (
        moments.shape == (batch, blocks(depth), 2) and moments.is_contiguous()
    )
    assert out_moments is None or (
        out_moments.shape == (batch, blocks(width), 2) and out_moments.is_contiguous()
    )
    if norm is not None and moments is None:
        moments = row_moments(x, chained=chained)
    if tiling is None:
        programs = triton.cdiv(batch, WIDE.rows) * triton.cdiv(width, WIDE.columns)
        tiling = WIDE if programs >= ENOUGH else NARROW
    # Low parts of x and of the weight go into one sum, block of K by block of K: with a low weight,
    # the order of that sum depends on the size of the block, so both tilings must use the same.
    step = tiling.depth if weight.low is None else WIDE.depth
    norm_weight, norm_bias = norm or (None, None)
    slots, label = labels or (None, None)
    _linear[(triton.cdiv(width, tiling.columns), triton.cdiv(batch, tiling.rows))](
        x,
        weight.high,
        weight.low,
        bias,
        out,
        norm_weight,
        norm_bias,
        moments if norm else None,
        residual,
        out_moments,
        slots,
        label,
        batch,
        width,
        depth,
        triton.next_power_of_2(blocks(depth)),
        EPSILON,
        activation,
        tiling.rows,
        tiling.columns,
        min(step, max(16, triton.next_power_of_2(depth))),
        tiling.early,
        LOW,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
        **options(chained),
    )
    return out


@triton.jit
def _activated(x, activation: tl.constexpr):
    if activation == "relu":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)  # as torch does
    elif activation == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    return x


@triton.jit
def _weights(weight, o, k, width, depth: tl.constexpr):
    """Return [o, k] of a weight [O, K]."""
    inside = (o[:, None] < width) & (k[None, :] < depth)
    return tl.load(weight + o[:, None] * depth + k[None, :], mask=inside, other=0.0)


@triton.jit
def _values(first, inside, k, depth: tl.constexpr):
    """Return [k, b] of x, without its norm."""
    return tl.load(first + k[:, None], mask=inside & (k[:, None] < depth), other=0.0)


@triton.jit
def _add(
    sums,
    low_sum,
    value,
    k,
    norm_weight,
    norm_bias,
    mean,
    rstd,
    high,
    low,
    depth: tl.constexpr,
    scale,
):
    """Return the sums and their low parts with one more block of K."""
    if norm_weight is not None:
        factor = tl.load(norm_weight + k, mask=k < depth, other=0.0)
        value = (value - mean[None, :]) * rstd[None, :] * factor[:, None]
        value += tl.load(norm_bias + k, mask=k < depth, other=0.0)[:, None]
    above = value.to(tl.float16)
    below = ((value - above.to(tl.float32)) * scale).to(tl.float16)
    sums = tl.dot(high, above, sums)
    # low x low would be 2^-22 of the product, below float32's last bit
    low_sum = tl.dot(high, below, low_sum)
    if low is not None:
        low_sum = tl.dot(low, above, low_sum)
    return sums, low_sum


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _linear(
    x,
    high,
    low,
    bias,
    out,
    norm_weight,
    norm_bias,
    moments,
    residual,
    out_moments,
    slots,
    label,
    batch,
    width: tl.constexpr,
    depth: tl.constexpr,
    padded_blocks: tl.constexpr,
    epsilon: tl.constexpr,
    activation: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    step: tl.constexpr,
    early: tl.constexpr,
    scale: tl.constexpr,
    chained: tl.constexpr,
):
    # A program holds the sums of a tile of outputs by rows in registers, in two parts, and
    # passes over all of K once: no sum is divided among programs, so its order does not depend
    # on how many rows there are. Rows beyond the batch are masked, not left out, so that every
    # program runs the same instructions.
    b = tl.program_id(1) * rows + tl.arange(0, rows)
    o = tl.program_id(0) * columns + tl.arange(0, columns)
    inside = (b < batch)[None, :]
    first = x + b[None, :].to(tl.int64) * depth
    places = b[None, :].to(tl.int64) * width + o[:, None]
    in_out = inside & (o[:, None] < width)
    k = tl.arange(0, step)

    # Fetch what the previous kernel does not write (weights, bias, the residual) while that kernel
    # still runs. The residual was written by an earlier kernel that this one has not waited for
    # itself: it is read from the L2, where those writes are.
    if early:
        first_high = _weights(high, o, k, width, depth)
        first_low = _weights(low, o, k, width, depth) if low is not None else None
        end = tl.load(bias + o, mask=o < width, other=0.0)[:, None] if label is None else None
        added = None
        if residual is not None:
            added = tl.load(residual + places, mask=in_out, other=0.0, cache_modifier=".cg")

    # x is written by the previous kernel: nothing of it may be read before this line.
    wait(chained)
    if early:
        value = _values(first, inside, k, depth)
    mean = None
    rstd = None
    if norm_weight is not None:
        mean, rstd = mean_and_rstd(moments, b, b < batch, depth, padded_blocks, epsilon)

    # All of K in ascending order: the block fetched early first, where there is one.
    sums = tl.zeros((columns, rows), tl.float32)
    low_sum = tl.zeros((columns, rows), tl.float32)
    if early:
        sums, low_sum = _add(
            sums,
            low_sum,
            value,
            k,
            norm_weight,
            norm_bias,
            mean,
            rstd,
            first_high,
            first_low,
            depth,
            scale,
        )
    for start in range(step if early else 0, depth, step):
        k = start + tl.arange(0, step)
        value = _values(first, inside, k, depth)
        next_high = _weights(high, o, k, width, depth)
        next_low = _weights(low, o, k, width, depth) if low is not None else None
        sums, low_sum = _add(
            sums,
            low_sum,
            value,
            k,
            norm_weight,
            norm_bias,
            mean,
            rstd,
            next_high,
            next_low,
            depth,
            scale,
        )

    # The low sums were scaled by 2^11 to stay within float16's range. They are added by an fma,
    # which rounds as a sum does: where all of K is one block, Triton makes a plain sum's other term
    # the product's start, and adds in another order. The residual comes after the activation.
    if label is not None:
        slot = tl.load(slots + b, mask=b < batch, other=-1, cache_modifier=".cg")  # as the residual
        row = tl.load(label + slot, mask=slot >= 0, other=0)[None, :]
        end = tl.load(bias + row * width + o[:, None], mask=in_out, other=0.0)
    elif not early:
        end = tl.load(bias + o, mask=o < width, other=0.0)[:, None]
    result = _activated(tl.fma(low_sum, 1.0 / scale, sums) + end, activation)
    if residual is not None:
        result += added if early else tl.load(residual + places, mask=in_out, other=0.0)
    tl.store(out + places, result, mask=in_out)
    if out_moments is not None:
        store_moments(
            out_moments, tl.trans(result), b, b < batch, tl.program_id(0) * columns, width
        )
