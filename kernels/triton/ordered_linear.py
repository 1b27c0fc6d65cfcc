"""activation(norm(x) W^T + b) + residual in one launch, with the bits of the CPU kernel
(kernels/cpu/arithmetic/matmul.h and int8.h): W in 8 bits, to which each row of x is rounded too, or
in float32.

Products of 8 bits are summed as whole numbers, in any order, by tensor cores. A sum of float32
products is one chain of fused multiply-adds over all of K, which tl.dot does not promise.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton.linear import ENOUGH, NARROW, WIDE
from scanline.kernels.triton.ordered import (
    ROUND,
    elu_plus_one,
    gelu,
    larger,
    mean_and_factor,
    normed_rows,
)
from scanline.kernels.triton.pdl import options, wait

FLOATS = 16  # of K, whose numbers are loaded together
LEAST = tl.constexpr(2.0**-100)  # of a row's largest number: 127 by less may be infinite


@dataclass(frozen=True)
class OrderedWeight:
    """A weight: int8 [O, K] with a scale [O] for each row, or float32 [K, O] and none."""

    numbers: Tensor
    scale: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, in_8_bits: bool) -> "OrderedWeight":
        """Round a weight as `pack` of packing.h does, on the processor."""
        numbers = weight.detach().float().cpu()
        if not in_8_bits:
            return cls(numbers.T.contiguous().to(weight.device), None)
        largest = numbers.abs().nan_to_num(0.0, torch.inf).amax(dim=1)
        rounded = (numbers / largest[:, None] * 127).round().nan_to_num(0.0).to(torch.int8)
        return cls(rounded.contiguous().to(weight.device), (largest / 127).to(weight.device))


def ordered_linear(
    x: Tensor,  # [B, K] float32
    weight: OrderedWeight,  # [O, K]
    bias: Tensor,  # [O], or one for each label: [1 + K, O]
    out: Tensor,  # [B, O] float32: where to put the result; may be `residual`
    norm: tuple[Tensor, Tensor] | None = None,  # weight and bias [K] of a LayerNorm of x
    activation: str = "none",
    residual: Tensor | None = None,  # [B, O], added at the end
    # slots [B], -1: none, and the label of each slot [S]
    labels: tuple[Tensor, Tensor] | None = None,
    mapped: int = 0,  # columns that go through the feature map: queries and keys
    chained: bool = False,  # by programmatic dependent launch: see pdl.py
) -> None:
    """Write `out`."""
    batch, depth = x.shape
    width = bias.shape[-1]
    assert weight.numbers.numel() == width * depth
    assert out.shape == (batch, width)
    assert x.is_contiguous()
    programs = triton.cdiv(batch, WIDE.rows) * triton.cdiv(width, WIDE.columns)
    tiling = WIDE if programs >= ENOUGH else NARROW
    if weight.scale is None:
        tiling = NARROW  # the sums of wide float32 products do not fit the registers
        step = FLOATS
    else:
        step = min(tiling.depth, max(32, triton.next_power_of_2(depth)))
    norm_weight, norm_bias = norm or (None, None)
    slots, label = labels or (None, None)
    _ordered_linear[(triton.cdiv(width, tiling.columns), triton.cdiv(batch, tiling.rows))](
        x,
        weight.numbers,
        weight.scale,
        bias,
        out,
        norm_weight,
        norm_bias,
        residual,
        slots,
        label,
        batch,
        0 if residual is None else residual.stride(0),
        width,
        depth,
        mapped,
        activation,
        tiling.rows,
        tiling.columns,
        step,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
        **options(chained),
    )


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _ordered_linear(
    x,
    weight,
    scale,
    bias,
    out,
    norm_weight,
    norm_bias,
    residual,
    slots,
    label,
    batch,
    residual_stride,
    width: tl.constexpr,
    depth: tl.constexpr,
    mapped: tl.constexpr,
    activation: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    step: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b = tl.program_id(1) * rows + tl.arange(0, rows)
    o = tl.program_id(0) * columns + tl.arange(0, columns)
    inside = b < batch
    in_width = (o < width)[None, :]
    mean = None
    factor = None
    if norm_weight is not None:
        mean, factor = mean_and_factor(x, b, inside, depth)
    if scale is None:
        result = tl.zeros((rows, columns), tl.float32)
        for start in range(0, depth, step):
            for i in tl.static_range(step):
                k = start + i + tl.arange(0, 1)
                value = normed_rows(x, b, k, inside, mean, factor, norm_weight, norm_bias, depth)
                places = weight + k[:, None] * width + o[None, :]
                numbers = tl.load(places, mask=in_width & (k < depth)[:, None], other=0.0)
                result = tl.fma(value, numbers, result)
    else:
        # A row's largest number becomes 127. A maximum has no order.
        largest = tl.zeros((rows, step), tl.float32)
        for start in range(0, depth, step):
            k = start + tl.arange(0, step)
            value = normed_rows(x, b, k, inside, mean, factor, norm_weight, norm_bias, depth)
            largest = larger(tl.where(value < 0.0, -value, value), largest)
        top = tl.max(largest, axis=1)
        unit = tl.where(top > LEAST, tl.div_rn(127.0, top), 0.0)
        whole = tl.zeros((rows, columns), tl.int32)
        for start in range(0, depth, step):
            k = start + tl.arange(0, step)
            value = normed_rows(x, b, k, inside, mean, factor, norm_weight, norm_bias, depth)
            rounded = tl.fma(value, unit[:, None], ROUND) - ROUND
            rounded = tl.where(rounded == rounded, rounded, 0.0).to(tl.int8)
            places = weight + o[None, :] * depth + k[:, None]
            numbers = tl.load(places, mask=in_width & (k < depth)[:, None], other=0)
            whole = tl.dot(rounded, numbers, whole, out_dtype=tl.int32)
        scales = tl.load(scale + o, mask=o < width, other=0.0)[None, :]
        result = whole.to(tl.float32) * (scales * tl.div_rn(top, 127.0)[:, None])

    in_out = inside[:, None] & in_width
    if label is None:
        result += tl.load(bias + o, mask=o < width, other=0.0)[None, :]
    else:
        slot = tl.load(slots + b, mask=inside, other=-1)
        row = tl.load(label + slot, mask=slot >= 0, other=0)[:, None]
        result += tl.load(bias + row * width + o[None, :], mask=in_out, other=0.0)
    if activation == "gelu":
        result = gelu(result)
    elif activation == "relu":
        result = tl.where(result > 0.0, result, 0.0)
    if mapped > 0:
        result = tl.where((o < mapped)[None, :], elu_plus_one(result), result)
    row = b[:, None].to(tl.int64)
    if residual is not None:
        added = residual + row * residual_stride + o[None, :]
        result += tl.load(added, mask=in_out, other=0.0)
    tl.store(out + row * width + o[None, :], result, mask=in_out)
