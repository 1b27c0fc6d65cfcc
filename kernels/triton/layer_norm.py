"""LayerNorm of whole rows, in place, where it is not fused into the matrix product that follows
(post-norm models). Reference: torch.nn.functional.layer_norm. The mean first, then the mean of
squares around it, in float32."""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton.ordered import mean_and_factor
from scanline.kernels.triton.pdl import options, wait

EPSILON = 1e-5  # added to the variance, as torch.nn.LayerNorm does
ROWS = 4  # of a program


def layer_norm(
    x: Tensor,  # [B, D] float32, changed in place
    weight: Tensor,  # [D]
    bias: Tensor,  # [D]
    chained: bool = False,  # by programmatic dependent launch: see pdl.py
    ordered: bool = False,  # with the bits of the CPU kernel: see ordered.py
) -> None:
    """Compute x = (x - mean) / sqrt(variance + 1e-5) weight + bias, row by row, IN PLACE."""
    batch, width = x.shape
    if weight.shape != (width,) or bias.shape != (width,):
        raise ValueError(
            f"x {list(x.shape)}, weight {list(weight.shape)} and bias {list(bias.shape)} do not fit"
        )
    assert x.is_contiguous()
    block = triton.next_power_of_2(width)
    grid = (triton.cdiv(batch, ROWS),)
    _layer_norm[grid](
        x,
        weight,
        bias,
        batch,
        width,
        EPSILON,
        ROWS,
        block,
        ordered,
        num_warps=ROWS,
        **options(chained),
    )


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _layer_norm(
    x,
    weight,
    bias,
    batch,
    width: tl.constexpr,
    epsilon: tl.constexpr,
    rows: tl.constexpr,
    block: tl.constexpr,
    ordered: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    d = tl.arange(0, block)
    inside = (b[:, None] < batch) & (d[None, :] < width)
    # Whole rows are in registers: x is loaded once for mean, squares and result, so it may be
    # overwritten. Lanes beyond the width are zeroed again once the mean is taken off, or its
    # square would be added for each of them.
    places = x + b[:, None] * width + d[None, :]
    value = tl.load(places, mask=inside, other=0.0)
    factor = tl.load(weight + d, mask=d < width, other=0.0)[None, :]
    shift = tl.load(bias + d, mask=d < width, other=0.0)[None, :]
    if ordered:
        mean, rstd = mean_and_factor(x, b, b < batch, width)
        result = tl.fma((value - mean[:, None]) * rstd[:, None], factor, shift)
    else:
        mean = tl.sum(value, axis=1) / width
        centred = tl.where(inside, value - mean[:, None], 0.0)
        variance = tl.sum(centred * centred, axis=1) / width
        rstd = 1.0 / tl.sqrt(variance + epsilon)
        result = centred * rstd[:, None] * factor + shift
    tl.store(places, result, mask=inside)
