"""Copies of whole slots within an array, in one launch: each target becomes what its source holds.
Reference: torch's index_copy_ of index_select along the axis of the slots.

A slot that is its own source costs two loads. A source must be its own source: its slot is then
read and never written, so that no copy depends on the order of the programs.
"""

import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 4096  # of a program at most: 8 loads of 16 bytes of float32 for each of 128 threads


def copy_slots(
    array: Tensor,  # [S, ...], or [L, S, ...] of L layers: changed in place
    sources: Tensor,  # [n] int64: slots, each its own source
    targets: Tensor,  # [n] int64: slots, all different
    layered: bool = False,  # whether the slots are the array's second axis
) -> None:
    """Copy what slot sources[i] holds into slot targets[i], IN PLACE, bit for bit; on a GPU without
    waiting."""
    if sources.shape != targets.shape or sources.dim() != 1:
        raise ValueError(
            f"sources {list(sources.shape)} and targets {list(targets.shape)} do not fit"
        )
    assert array.is_contiguous()
    assert sources.is_contiguous()
    assert targets.is_contiguous()
    if not array.numel():  # as of a model that keeps no recent pixels
        return
    layers, count = array.shape[:2] if layered else (1, len(array))
    width = array.numel() // (layers * count)
    block = min(NUMBERS, triton.next_power_of_2(width))
    warps = max(1, min(4, block // 256))
    grid = (len(targets), layers, triton.cdiv(width, block))
    _copy_slots[grid](
        array, sources, targets, count, width, block, num_warps=warps, enable_fp_fusion=False
    )


@triton.jit(do_not_specialize=["count"])  # one program code for all pools
def _copy_slots(array, sources, targets, count, width: tl.constexpr, block: tl.constexpr):
    source = tl.load(sources + tl.program_id(0))
    target = tl.load(targets + tl.program_id(0))
    if source == target:
        return
    layer = array + tl.program_id(1).to(tl.int64) * count * width
    i = tl.program_id(2) * block + tl.arange(0, block)
    places = layer + target * width + i
    numbers = tl.load(layer + source * width + i, mask=i < width)
    tl.store(places, numbers, mask=i < width)
