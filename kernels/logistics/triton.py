"""The last launch of a byte's step on a GPU: the byte sampled from the mixture of logistics or the known one, its cost,
and the next position. References: reference.py, and kernels/philox.py.

An image's result does not depend on what else is in the batch. Nothing is returned to the host: positions stay on the
device.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.logistics.reference import LN2
from scanline.kernels.triton.pdl import options, wait
from scanline.kernels.triton.sampling import (
    check,
    draw_logistic,
    finish,
    in_bits,
    log_bin,
    log_sum_exp,
    pick,
    put,
    slot_uniforms,
    wrong,
)

IMAGES = 4  # of a program of one warp: nearly all of its time is memory latency
SCALES = ("exp", "elu")


def sample(
    parameters: torch.Tensor,  # [B, 3K] float32: logits, means, raw scales
    slots: torch.Tensor,  # [B] int64, all different: which of the S slots each row belongs to; -1: nothing is done
    images: torch.Tensor,  # [S, N] uint8, changed in place
    known: torch.Tensor,  # [S, N] bool
    bits: torch.Tensor,  # [S] float64, changed in place
    known_bits: torch.Tensor,  # [S] float64, changed in place
    temperature: torch.Tensor,  # [S] float32
    seed: torch.Tensor,  # [S] int64
    index: torch.Tensor,  # [S] int64
    position: torch.Tensor,  # [S] int64, changed in place
    scale: str,
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
) -> None:
    """Paints the byte of `images` at `position` of the chosen slots, unless it is known, adds its cost at temperature
    1 to `bits`, and to `known_bits` if it is known, and 1 to `position`, all IN PLACE. Where a parameter is not finite,
    bits are not either."""
    if scale not in SCALES:
        raise ValueError(f"unknown scale parametrisation {scale!r}; known: {', '.join(SCALES)}")
    components = parameters.shape[1] // 3
    check(parameters, 3 * components, slots, images, known)
    _sample[(triton.cdiv(len(slots), IMAGES),)](
        parameters, slots, images, known.view(torch.uint8), bits, known_bits, temperature, seed, index, position,
        len(slots), images.shape[1], components, triton.next_power_of_2(components), scale, LN2, IMAGES,
        num_warps=1, **options(chained),
    )  # fmt: skip


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sample(
    parameters,
    slots,
    images,
    known,
    bits,
    known_bits,
    temperature,
    seed,
    index,
    position,
    batch,
    length,
    components,
    block_k: tl.constexpr,
    scale: tl.constexpr,
    ln2: tl.constexpr,
    block: tl.constexpr,
    chained: tl.constexpr,
):
    # Parameters come from the previous kernel, and images and positions of this byte were read by kernels before it.
    wait(chained)
    b = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    slot = tl.load(slots + b, mask=b < batch, other=-1)
    live = slot >= 0
    place = tl.load(position + slot, mask=live, other=0)

    # Parameters of each image; K is padded to a power of two with logits of minus infinity, which weigh nothing.
    k = tl.arange(0, block_k)
    there = k[None, :] < components
    first = parameters + b[:, None] * 3 * components + k[None, :]
    inside = live[:, None] & there
    logits = tl.where(there, tl.load(first, mask=inside, other=0.0), -float("inf"))
    means = tl.load(first + components, mask=inside, other=0.0)
    raw = tl.load(first + 2 * components, mask=inside, other=0.0)
    elu = tl.where(raw > 0, raw + 1.0001, tl.exp(raw) + 0.0001)
    scales = tl.exp(tl.maximum(raw, -7.0)) if scale == "exp" else elu

    # Draw a component, then a value from its logistic. Registers cannot be indexed: the chosen component is picked by a
    # masked sum.
    image_temperature = tl.load(temperature + slot, mask=live, other=1.0)
    u, w = slot_uniforms(seed, index, slot, place, live)
    chosen = k[None, :] == pick(logits / image_temperature[:, None], u, there, components)[:, None]
    mean = tl.sum(tl.where(chosen, means, 0.0), axis=1)
    spread = tl.sum(tl.where(chosen, scales, 0.0), axis=1) * image_temperature
    byte, given = put(images, known, slot * length + place, draw_logistic(mean, spread, w), live)

    # The cost of the byte at temperature 1.
    each = logits + log_bin(byte, means, scales)
    unusable = inside & (wrong(logits) | wrong(means) | wrong(raw))
    cost = in_bits(log_sum_exp(logits) - log_sum_exp(each), unusable, ln2)
    total = tl.load(bits + slot, mask=live, other=0.0) + cost
    known_total = tl.load(known_bits + slot, mask=live, other=0.0) + tl.where(given, cost, 0.0)
    finish(bits, known_bits, position, slot, place, total, known_total, 1, live)
