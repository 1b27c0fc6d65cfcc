"""Painting ahead in Triton: `plan` is three launches, `accept` one. Reference: reference.py, whose
numbers these are bit for bit.

Nothing is returned to the host, so a recorded pass may be replayed. A pass has no more steps of an
image than a row of it has pixels: then only the left neighbour of a pixel may be a guess of the
same pass, which stays in registers, and no kernel reads what it has stored itself.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.ahead.reference import Images, Plan

IMAGES = 8  # of a program of one warp
# of the one program that divides rows among all images
MOST_WARPS = 16


def plan(plan: Plan, images: Images, width: int, full: bool) -> None:
    """See reference.plan."""
    batch, widest, size = plan.guesses.shape
    rows = len(plan.at)
    if widest > width or rows < batch:
        raise ValueError(
            f"{rows} rows and {widest} steps of {batch} images of {width} columns do not fit"
        )
    _check(plan, images)
    length = images.images.shape[1]
    grid = (triton.cdiv(batch, IMAGES),)
    block_c = triton.next_power_of_2(size)
    sizes = widest, size, block_c, IMAGES
    _guess[grid](
        plan.slots,
        plan.stops,
        plan.begin,
        plan.count,
        plan.guesses,
        images.images,
        images.known.view(torch.uint8),
        images.position,
        images.code_range,
        images.drawn,
        images.drawn_to,
        batch,
        length,
        width,
        full,
        *sizes,
        num_warps=1,
        enable_fp_fusion=False,
    )
    block = triton.next_power_of_2(batch)
    _divide[(1,)](
        plan.slots,
        plan.count,
        plan.first,
        plan.stride,
        plan.row_slots,
        plan.at,
        images.partner,
        batch,
        rows,
        widest,
        widest.bit_length(),
        block,
        num_warps=max(1, min(MOST_WARPS, block // 128)),
        enable_fp_fusion=False,
    )
    _place_rows[grid](
        plan.slots,
        plan.begin,
        plan.count,
        plan.first,
        plan.stride,
        plan.guesses,
        plan.row_slots,
        plan.at,
        images.images,
        batch,
        length,
        *sizes,
        num_warps=1,
        enable_fp_fusion=False,
    )


def accept(plan: Plan, images: Images, costs: Tensor, row_bits: Tensor, totals: Tensor) -> None:
    """See reference.accept."""
    batch, widest, size = plan.guesses.shape
    if costs.shape != (len(plan.at), size) or row_bits.shape != plan.at.shape:
        raise ValueError(
            f"costs {list(costs.shape)} and bits {list(row_bits.shape)} do not fit {len(plan.at)} rows"
        )
    _check(plan, images)
    assert costs.is_contiguous()
    assert totals.shape == (4,)
    _accept[(triton.cdiv(batch, IMAGES),)](
        plan.slots,
        plan.begin,
        plan.count,
        plan.first,
        plan.stride,
        plan.painted,
        plan.guesses,
        images.images,
        images.known.view(torch.uint8),
        images.position,
        images.bits,
        images.known_bits,
        images.partner,
        images.drawn,
        images.drawn_to,
        costs,
        row_bits,
        totals,
        batch,
        images.images.shape[1],
        widest,
        size,
        IMAGES,
        num_warps=1,
        enable_fp_fusion=False,
    )


def _check(plan: Plan, images: Images) -> None:
    assert images.images.shape == images.known.shape == images.drawn.shape
    arrays = [*vars(plan).values(), *vars(images).values()]
    assert all(array.is_contiguous() for array in arrays)


@triton.jit
def _chosen(slots, batch, block: tl.constexpr):
    """Return numbers b [n] of a program's images, the slot of each, and whether it is one."""
    b = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    slot = tl.load(slots + b, mask=b < batch, other=-1)
    return b, slot, slot >= 0


@triton.jit
def _differ(value, other, inside):
    """Return where pixels [n, C] differ."""
    return tl.max((inside & (value != other)).to(tl.int32), axis=1) > 0


@triton.jit(do_not_specialize=["batch", "length"])  # one program code for all batches
def _guess(
    slots,
    stops,
    begin,
    count,
    guesses,
    images,
    known,
    position,
    code_range,
    drawn,
    drawn_to,
    batch,
    length,
    width: tl.constexpr,
    full: tl.constexpr,
    widest: tl.constexpr,
    size: tl.constexpr,
    block_c: tl.constexpr,
    block: tl.constexpr,
):
    b, slot, live = _chosen(slots, batch, block)
    start = tl.load(position + slot, mask=live, other=0)
    stop = tl.minimum(tl.load(stops + b, mask=live, other=0), length)
    live = live & (start < stop)
    coded = tl.load(code_range + slot, mask=live, other=0) != 0
    was_drawn_to = tl.load(drawn_to + slot, mask=live, other=0)
    c = tl.arange(0, block_c)[None, :]
    in_pixel = c < size
    image = images + (slot * length)[:, None] + c
    rows = live.to(tl.int64)
    more = live & (coded == 0)
    left_column = ((start // size) % width) > 0
    left = tl.load(
        image + (start - size)[:, None], mask=(live & left_column)[:, None] & in_pixel, other=0
    )
    for step in range(0, widest - 1):
        place = start + step * size
        more = more & (place + size < stop)
        x = (place // size) % width
        inside = more[:, None] & in_pixel

        # The left neighbour, and three of the row above, which was painted before this pass.
        there = x > 0
        left = tl.where(there[:, None], left, 0)
        value = left
        differs = tl.zeros_like(there)
        for column in tl.static_range(-1, 2):
            is_near = (place >= width * size) & (x + column >= 0) & (x + column < width)
            at = place + (column - width) * size
            near = tl.load(image + at[:, None], mask=inside & is_near[:, None], other=0)
            value = tl.where(there[:, None], value, near)
            differs = differs | (is_near & _differ(value, near, in_pixel))
            there = there | is_near

        # Where they differ: what was drawn there, else the left neighbour.
        was_drawn = (place < was_drawn_to)[:, None]
        other = tl.load(
            drawn + (slot * length + place)[:, None] + c, mask=inside & was_drawn, other=0
        )
        other = tl.where(was_drawn, other, left)
        value = tl.where(differs[:, None], other, value)
        is_known = tl.load(known + (slot * length + place)[:, None] + c, mask=inside, other=0) != 0
        present = tl.load(image + place[:, None], mask=inside & is_known, other=0)
        value = tl.where(is_known, present, value)
        if not full:
            is_unknown = tl.max((inside & (is_known == 0)).to(tl.int32), axis=1) > 0
            more = more & ((differs & is_unknown) == 0)
        tl.store(
            guesses + ((b * widest + step) * size)[:, None] + c,
            value,
            mask=more[:, None] & in_pixel,
        )
        rows += more.to(tl.int64)
        left = value
    tl.store(begin + b, start, mask=b < batch)
    tl.store(count + b, rows, mask=b < batch)


@triton.jit(do_not_specialize=["batch"])
def _divide(
    slots,
    count,
    first,
    stride,
    row_slots,
    at,
    partner,
    batch,
    rows: tl.constexpr,
    widest: tl.constexpr,
    halvings: tl.constexpr,
    block: tl.constexpr,
):
    b = tl.arange(0, block)
    inside = b < batch
    wanted = tl.load(count + b, mask=inside, other=0)
    slot = tl.load(slots + b, mask=inside, other=-1)
    guided = tl.load(partner + slot, mask=slot >= 0, other=0) != 0

    # The largest limit with which all rows fit: one row for each image does.
    least = tl.sum(wanted * 0) + 1
    most = least + widest - 1
    for _ in tl.static_range(halvings):
        middle = (least + most + 1) // 2
        fits = tl.sum(tl.minimum(wanted, middle)) <= rows
        least = tl.where(fits, middle, least)
        most = tl.where(fits, most, tl.maximum(middle - 1, least))
    granted = tl.minimum(wanted, least)
    before = tl.cumsum(granted) - granted
    second = guided & (b % 2 == 1)
    tl.store(count + b, granted, mask=inside)
    tl.store(first + b, tl.where(second, before - granted + 1, before), mask=inside)
    tl.store(stride + b, tl.where(guided, 2, 1).to(tl.int64), mask=inside)

    # The next launch fills the rows that there are.
    for start in range(0, rows, block):
        row = start + b
        tl.store(row_slots + row, tl.full((block,), -1, tl.int64), mask=row < rows)
        tl.store(at + row, tl.zeros((block,), tl.int64), mask=row < rows)


@triton.jit(do_not_specialize=["batch", "length"])
def _place_rows(
    slots,
    begin,
    count,
    first,
    stride,
    guesses,
    row_slots,
    at,
    images,
    batch,
    length,
    widest: tl.constexpr,
    size: tl.constexpr,
    block_c: tl.constexpr,
    block: tl.constexpr,
):
    b, slot, live = _chosen(slots, batch, block)
    start = tl.load(begin + b, mask=live, other=0)
    rows = tl.load(count + b, mask=live, other=0)
    first_row = tl.load(first + b, mask=live, other=0)
    apart = tl.load(stride + b, mask=live, other=0)
    c = tl.arange(0, block_c)[None, :]
    for step in range(0, widest):
        there = step < rows
        row = first_row + step * apart
        place = start + step * size
        tl.store(row_slots + row, slot, mask=there)
        tl.store(at + row, place, mask=there)
        is_read = (step + 1 < rows)[:, None] & (c < size)
        guess = tl.load(guesses + ((b * widest + step) * size)[:, None] + c, mask=is_read, other=0)
        tl.store(images + (slot * length + place)[:, None] + c, guess, mask=is_read)


@triton.jit(do_not_specialize=["batch", "length"])
def _accept(
    slots,
    begin,
    count,
    first,
    stride,
    painted,
    guesses,
    images,
    known,
    position,
    bits,
    known_bits,
    partner,
    drawn,
    drawn_to,
    costs,
    row_bits,
    totals,
    batch,
    length,
    widest: tl.constexpr,
    size: tl.constexpr,
    block: tl.constexpr,
):
    b, slot, live = _chosen(slots, batch, block)
    start = tl.load(begin + b, mask=live, other=0)
    rows = tl.load(count + b, mask=live, other=0)
    first_row = tl.load(first + b, mask=live, other=0)
    apart = tl.load(stride + b, mask=live, other=0)
    live = rows > 0
    total = tl.load(bits + slot, mask=live, other=0.0)
    known_total = tl.load(known_bits + slot, mask=live, other=0.0)
    right = live
    kept = tl.zeros_like(rows)
    for step in range(0, widest):
        there = step < rows
        right = right & there
        behind = there & (right == 0)
        row = first_row + step * apart
        differs = step + 1 >= rows
        for channel in tl.static_range(size):
            at = slot * length + start + step * size + channel
            byte = tl.load(images + at, mask=there, other=0)
            is_known = tl.load(known + at, mask=there, other=0) != 0
            cost = tl.load(costs + row * size + channel, mask=right, other=0.0)
            total += cost
            known_total += tl.where(is_known, cost, 0.0)
            guess = tl.load(
                guesses + (b * widest + step) * size + channel, mask=step + 1 < rows, other=0
            )
            differs = differs | (byte != guess)
            # What was drawn behind a wrong guess leaves no trace but a guess.
            tl.store(drawn + at, byte, mask=behind)
            tl.store(images + at, tl.zeros_like(byte), mask=behind & (is_known == 0))
        of_row = tl.load(row_bits + row, mask=right, other=0.0)
        total = tl.where(of_row != of_row, of_row, total)
        kept += right.to(tl.int64)
        right = right & (differs == 0)
    tl.store(bits + slot, total, mask=live)
    tl.store(known_bits + slot, known_total, mask=live)
    tl.store(position + slot, start + kept * size, mask=live)
    tl.store(drawn_to + slot, start + rows * size, mask=live)
    tl.store(painted + b, kept, mask=b < batch)
    is_first = live & (tl.load(partner + slot, mask=live, other=0) >= 0)
    tl.atomic_add(totals, tl.sum(is_first.to(tl.int64)))
    tl.atomic_add(totals + 1, tl.sum(tl.where(is_first, rows, 0)))
    tl.atomic_add(totals + 2, tl.sum(tl.where(is_first, kept, 0)))
    tl.atomic_add(totals + 3, tl.sum((is_first & (kept < rows)).to(tl.int64)))
