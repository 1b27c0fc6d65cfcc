"""Last launch of a step on a GPU that predicts 256 logits: samples the byte or takes the known one,
adds its cost and moves the position. References: reference.py, and kernels/philox.py.

An image's result does not depend on what else is in the batch. Nothing is returned to the
host: positions stay on the device.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels import LN2
from scanline.kernels.categorical.reference import VALUES
from scanline.kernels.triton.pdl import options, wait
from scanline.kernels.triton.sampling import (
    Guiding,
    SlotArrays,
    check,
    finish,
    in_bits,
    log_sum_exp,
    owners,
    pick,
    put,
    slot_uniforms,
    slots_of_program,
    totals,
    wrong,
)

IMAGES = 4  # of a program, one for each of its warps


def sample(
    parameters: Tensor,  # [B, 256] float32: logits
    # [B] int64, all different: which of the S slots each row belongs to; -1: nothing is done
    slots: Tensor,
    arrays: SlotArrays,
    guiding: Guiding,
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
    # [S] int64: not 0 where kernels/codec/triton.py has decoded the byte
    code_range: Tensor | None = None,
    at: Tensor | None = None,  # [B] int64: the byte of each row; see below
    ordered: bool = False,  # with the bits of the CPU kernel: see kernels/triton/ordered.py
) -> None:
    """Paint the byte of `images` at `position` of the chosen slots, unless it is known, add its
    cost at temperature 1 to `bits`, and to `known_bits` if it is known, and 1 to `position`, all IN
    PLACE. If a parameter is NaN or infinite, bits are too.

    The two slots of a guided image have rows 2i and 2i + 1, one of them with label 0: both draw its
    byte from the logits of reference.guided.

    With `at`, several rows may be one slot's: they paint the bytes `at`, add their costs to bits
    [B] and known_bits [B] of the rows, and move no position.
    """
    check(parameters, VALUES, slots, arrays.images, arrays.known)
    _sample[(triton.cdiv(len(slots), IMAGES),)](
        parameters,
        slots,
        *arrays.pointers,
        *guiding,
        code_range,
        at,
        len(slots),
        arrays.images.shape[1],
        VALUES,
        LN2,
        IMAGES,
        ordered,
        num_warps=2 * IMAGES if ordered else IMAGES,
        **options(chained),
    )


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
    label,
    partner,
    guidance,
    code_range,
    row_places,
    batch,
    length,
    values: tl.constexpr,
    ln2: tl.constexpr,
    block: tl.constexpr,
    ordered: tl.constexpr,
    chained: tl.constexpr,
):
    # Parameters come from the previous kernel, and images and positions of this
    # byte were read by kernels before it.
    wait(chained)
    b, slot, live, place, image_temperature = slots_of_program(
        slots, position, temperature, batch, block, row_places
    )
    owner = owners(slot, b, row_places)
    value = tl.arange(0, values)[None, :]
    logits = tl.load(parameters + b[:, None] * values + value, mask=live[:, None], other=0.0)

    # Logits of a guided image: rows 2i and 2i + 1 are its slots, so b ^ 1 is the partner's row.
    guided = tl.load(partner + slot, mask=live, other=0) != 0
    other = tl.load(
        parameters + (b ^ 1)[:, None] * values + value, mask=(live & guided)[:, None], other=0.0
    )
    is_with = (tl.load(label + slot, mask=live, other=0) != 0)[:, None]
    with_class = tl.where(is_with, logits, other)
    without = tl.where(is_with, other, logits)
    weight = tl.load(guidance + slot, mask=live, other=1.0)[:, None]
    if ordered:
        mixed = tl.fma(weight, with_class - without, without)
    else:
        mixed = without + weight * (with_class - without)
    mixed = tl.where(guided[:, None], mixed, logits)

    # The first uniform of the byte picks it; the second is not used.
    u, _ = slot_uniforms(seed, index, slot, place, live)
    there = value < values
    picked = pick(mixed, image_temperature, u, there, values, ordered)
    at = slot * length + place
    drawn = picked.to(tl.float32)
    if code_range is not None:
        decoded = live & (tl.load(code_range + slot, mask=live, other=0) != 0)
        drawn = tl.where(decoded, tl.load(images + at, mask=decoded, other=0).to(tl.float32), drawn)
    byte, is_known = put(images, known, at, drawn, live)

    # The cost of the byte at temperature 1. Registers cannot be indexed:
    # its logit is picked by a masked sum.
    logit = tl.sum(tl.where(value == byte.to(tl.int32)[:, None], logits, 0.0), axis=1)
    nats = log_sum_exp(logits, there, ordered) - logit
    cost = in_bits(nats, wrong(logits) | wrong(mixed), ln2, ordered)
    total, known_total = totals(bits, known_bits, owner, live)
    known_total += tl.where(is_known, cost, 0.0)
    total += cost
    finish(bits, known_bits, position, slot, owner, place, total, known_total, 1, live, row_places)
