"""The recurrence with the bits of the CPU kernel (kernels/cpu/layers/recurrence.h), for a step of
many images or for many steps of each.

A thread has whole columns of s, so that the sums over its rows, one of the even and one of the odd
ones, cross no threads: each row is loaded, brought up to date and read out of. As in
fused_triton.py, s and z are written in the last step of a period alone.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.step.fused_triton import check
from scanline.kernels.triton.ordered import LANES, fold
from scanline.kernels.triton.pdl import options, wait

HEADS = 4  # of a program, which is one warp: with heads of 32, each thread loads 16 bytes of s
# of s that are loaded together; half of them, which is even, where there are many steps: with all,
# Triton 3.6 spills registers on an H100
ROWS = 8


def ordered_recurrence(
    # [N B, 2 H C + H M]: queries and keys after the feature map, values; row n B + b is step n of
    # row b of the batch
    projected: Tensor,
    s: Tensor,  # [S, H, C, M] float32, changed in place
    z: Tensor,  # [S, H, C] float32, changed in place
    deferred: Tensor,  # [S, K, H (C + M)] float32, changed in place: phi(k) and v that s and z lack
    # [S] int64: the byte that comes next of each slot; with `last` [N B], of each row
    position: Tensor,
    slots: Tensor,  # [N B] int64: which of the S states each row steps; -1: nothing is done
    step_bytes: int,
    y: Tensor,  # [N B, H M] float32, where to put the result
    # [B] int64: how many steps each row of the batch has, where `position` is that of rows
    last: Tensor | None = None,
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
) -> None:
    """Update s, z and deferred of the chosen slots IN PLACE; rows whose slot is -1 are not
    written."""
    heads, key_width, value_width = check(projected, s, z, deferred, "elu")
    batch = len(slots if last is None else last)
    _ordered_steps[(triton.cdiv(batch * heads, HEADS),)](
        projected,
        s,
        z,
        deferred,
        position,
        slots,
        y,
        last,
        batch,
        heads,
        key_width,
        value_width,
        deferred.shape[1] + 1,
        step_bytes,
        EPSILON,
        HEADS,
        triton.next_power_of_2(value_width),
        ROWS if last is None else ROWS // 2,
        num_warps=1,
        **options(chained),
    )


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _ordered_steps(
    projected,
    s,
    z,
    deferred,
    position,
    slots,
    y,
    last,
    batch,
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    period: tl.constexpr,
    step_bytes: tl.constexpr,
    epsilon: tl.constexpr,
    block_h: tl.constexpr,
    block_m: tl.constexpr,
    rows: tl.constexpr,
    chained: tl.constexpr,
):
    # A program is some heads h, of one image or of several.
    wait(chained)
    unit = tl.program_id(0).to(tl.int64) * block_h + tl.arange(0, block_h)
    image = unit // heads
    head = unit % heads
    m = tl.arange(0, block_m)
    lane = tl.arange(0, LANES)
    keys = heads * key_width
    stride = keys + heads * value_width
    first_key = head * key_width
    values = (head * value_width)[:, None] + m[None, :]
    steps = 1
    if last is not None:
        steps = tl.max(tl.load(last + image, mask=image < batch, other=0), axis=0)
    for step in range(0, steps):
        row = step * batch + image
        slot = tl.load(slots + row, mask=image < batch, other=-1)
        has_slot = slot >= 0
        at = position + (slot if last is None else row)
        held = (tl.load(at, mask=has_slot, other=0) // step_bytes % period).to(tl.int32)
        is_last = has_slot & (held == period - 1)
        is_deferred = has_slot & (held < period - 1)
        in_values = has_slot[:, None] & (m < value_width)[None, :]
        query = projected + row * (keys + stride)
        kept = deferred + slot * (period - 1) * stride
        s_head = (s + (slot * heads + head) * key_width * value_width)[:, None] + m[None, :]
        v = tl.load((query + 2 * keys)[:, None] + values, mask=in_values, other=0.0)

        # Of as many rows of s as registers have room for, all are read before one is written, so that
        # no load waits for a store. What is written is computed again.
        even = tl.zeros((block_h, block_m), tl.float32)
        odd = tl.zeros((block_h, block_m), tl.float32)
        for first in range(0, key_width, rows):
            for i in tl.static_range(2 * rows):
                c = first + i % rows
                row_key = first_key + c
                here = (has_slot if i < rows else is_last) & (row_key < first_key + key_width)
                in_row = here[:, None] & in_values
                s_row = s_head + c * value_width
                state = tl.load(s_row, mask=in_row, other=0.0)
                for number in tl.static_range(period - 1):
                    step_row = kept + number * stride
                    there = here & (number < held)
                    k = tl.load(step_row + row_key, mask=there, other=0.0)
                    added = tl.load(
                        (step_row + keys)[:, None] + values, mask=there[:, None] & in_row, other=0.0
                    )
                    state = tl.where(there[:, None], tl.fma(k[:, None], added, state), state)
                k = tl.load(query + keys + row_key, mask=here, other=0.0)
                state = tl.fma(k[:, None], v, state)
                if i >= rows:
                    tl.store(s_row, state, mask=in_row)
                else:
                    q = tl.load(query + row_key, mask=here, other=0.0)
                    if i % 2 == 0:
                        even = tl.fma(q[:, None], state, even)
                    else:
                        odd = tl.fma(q[:, None], state, odd)

        # z and the normaliser, in lanes.
        lanes = tl.zeros((block_h, LANES), tl.float32)
        for i in tl.static_range(0, key_width, LANES):
            in_keys = has_slot[:, None] & (i + lane < key_width)[None, :]
            key = first_key[:, None] + (i + lane)[None, :]
            z_places = (z + slot * keys)[:, None] + key
            total = tl.load(z_places, mask=in_keys, other=0.0)
            for number in tl.static_range(period - 1):
                there = in_keys & (number < held)[:, None]
                total += tl.load((kept + number * stride)[:, None] + key, mask=there, other=0.0)
            q = tl.load(query[:, None] + key, mask=in_keys, other=0.0)
            k = tl.load((query + keys)[:, None] + key, mask=in_keys, other=0.0)
            total += k
            lanes = tl.fma(q, total, lanes)
            tl.store(z_places, total, mask=in_keys & is_last[:, None])
            place = (kept + held * stride)[:, None] + key
            tl.store(place, k, mask=in_keys & is_deferred[:, None])
        normaliser = epsilon + fold(lanes)
        result = tl.div_rn(even + odd, normaliser[:, None])
        tl.store((y + row * heads * value_width)[:, None] + values, result, mask=in_values)

        place = (kept + held * stride + keys)[:, None] + values
        tl.store(place, v, mask=in_values & is_deferred[:, None])
        if last is not None:
            tl.debug_barrier()  # the next step reads what other threads have written
