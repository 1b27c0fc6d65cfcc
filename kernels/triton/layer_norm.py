"""LayerNorm of whole rows, in place: mean, then the mean of squares around it, in float32."""

import torch
import triton
import triton.language as tl

from scanline.kernels.triton.pdl import options, wait

EPSILON = 1e-5  # added to the variance, as torch.nn.LayerNorm does
ROWS = 4  # of a program


def layer_norm(
    x: torch.Tensor,  # [B, D] float32, changed in place
    gain: torch.Tensor,  # [D]
    shift: torch.Tensor,  # [D]
    chained: bool = False,  # to the launches around it: see kernels/handover
) -> None:
    """x = (x - mean) / sqrt(variance + 1e-5) gain + shift, row by row, IN PLACE."""
    batch, width = x.shape
    if gain.shape != (width,) or shift.shape != (width,):
        raise ValueError(f"x {list(x.shape)}, gain {list(gain.shape)} and shift {list(shift.shape)} do not fit")
    assert x.is_contiguous()
    _layer_norm[(triton.cdiv(batch, ROWS),)](
        x, gain, shift, batch, width, EPSILON, ROWS, triton.next_power_of_2(width), num_warps=ROWS, **options(chained)
    )


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _layer_norm(
    x,
    gain,
    shift,
    batch,
    width: tl.constexpr,
    epsilon: tl.constexpr,
    rows: tl.constexpr,
    block: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    d = tl.arange(0, block)
    inside = (b[:, None] < batch) & (d[None, :] < width)
    places = x + b[:, None] * width + d[None, :]
    value = tl.load(places, mask=inside, other=0.0)
    centred = tl.where(inside, value - (tl.sum(value, axis=1) / width)[:, None], 0.0)
    sharpness = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / width + epsilon)
    factor = tl.load(gain + d, mask=d < width, other=0.0)
    result = centred * sharpness[:, None] * factor[None, :] + tl.load(shift + d, mask=d < width, other=0.0)[None, :]
    tl.store(places, result, mask=inside)
