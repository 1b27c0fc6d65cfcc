"""LayerNorm of whole rows, in place, where it is not fused into the matrix product that follows (post-norm models).
Reference: torch.nn.functional.layer_norm. The mean first, then the mean of squares around it, in float32.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.triton.pdl import options, wait

EPSILON = 1e-5  # added to the variance, as torch.nn.LayerNorm does
ROWS = 4  # of a program


def layer_norm(
    x: torch.Tensor,  # [B, D] float32, changed in place
    weight: torch.Tensor,  # [D]
    bias: torch.Tensor,  # [D]
    chained: bool = False,  # by programmatic dependent launch: see pdl.py
) -> None:
    """Compute x = (x - mean) / sqrt(variance + 1e-5) weight + bias, row by row, IN PLACE."""
    batch, width = x.shape
    if weight.shape != (width,) or bias.shape != (width,):
        raise ValueError(f"x {list(x.shape)}, weight {list(weight.shape)} and bias {list(bias.shape)} do not fit")
    assert x.is_contiguous()
    _layer_norm[(triton.cdiv(batch, ROWS),)](
        x, weight, bias, batch, width, EPSILON, ROWS, triton.next_power_of_2(width), num_warps=ROWS, **options(chained)
    )


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _layer_norm(
    x, weight, bias, batch,
    width: tl.constexpr, epsilon: tl.constexpr, rows: tl.constexpr, block: tl.constexpr, chained: tl.constexpr,
):  # fmt: skip
    wait(chained)
    b = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    d = tl.arange(0, block)
    inside = (b[:, None] < batch) & (d[None, :] < width)
    # Whole rows are in registers: x is loaded once for mean, squares and result, so it may be overwritten. Lanes beyond
    # the width are zeroed again once the mean is taken off, or its square would be added for each of them.
    places = x + b[:, None] * width + d[None, :]
    value = tl.load(places, mask=inside, other=0.0)
    centred = tl.where(inside, value - (tl.sum(value, axis=1) / width)[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / width + epsilon)
    factor = tl.load(weight + d, mask=d < width, other=0.0)
    result = centred * rstd[:, None] * factor[None, :] + tl.load(bias + d, mask=d < width, other=0.0)[None, :]
    tl.store(places, result, mask=inside)
