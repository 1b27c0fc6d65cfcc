"""The first launch of a byte's step on a GPU: which images are not done yet, and the input vector of each.
Reference: torch's indexing of the tables, a sum of rows.

Looks back `offsets` bytes from each position, takes the row of each byte's value in its table (the last row, the start
token, for a byte before the image), adds them up, and adds or appends the row of the position.
"""

import torch
import triton
import triton.language as tl


def embed(
    slots: torch.Tensor,  # [B] int64: the row of images and position of each; -1: none
    images: torch.Tensor,  # [S, N] uint8
    position: torch.Tensor,  # [S] int64: the byte to predict
    offsets: torch.Tensor,  # [T] int64
    values: torch.Tensor,  # [T V, W] float32, V rows a table
    places: torch.Tensor,  # [N - first, W] float32: of the positions from `first` on
    x: torch.Tensor,  # [B, W] where value and place are added, [B, 2 W] where they are concatenated: the result
    active: torch.Tensor,  # [B] int64, the other result: slots, but -1 where the image is done (its position is N)
) -> None:
    """Writes x and active; x is zero where active is -1."""
    width, length = values.shape[1], images.shape[1]
    if x.shape[1] not in (width, 2 * width) or places.shape[1] != width or len(slots) != len(x):
        raise ValueError(f"tables {list(values.shape)}, places {list(places.shape)} and x {list(x.shape)} do not fit")
    _embed[(len(slots),)](
        slots, images, position, offsets, values, places, x, active, length, length - len(places),
        len(values) // len(offsets), width, len(offsets), x.shape[1] > width, triton.next_power_of_2(width),
        num_warps=2,
    )  # fmt: skip


@triton.jit
def _embed(
    slots,
    images,
    position,
    offsets,
    values,
    places,
    x,
    active,
    length,
    first,
    table_rows,
    width: tl.constexpr,
    tables: tl.constexpr,
    concat: tl.constexpr,
    block: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + image)
    place = tl.load(position + slot, mask=slot >= 0, other=length)
    live = place < length
    tl.store(active + image, tl.where(live, slot, -1))
    d = tl.arange(0, block)
    inside = d < tl.where(live, width, 0)
    total = tl.zeros((block,), tl.float32)
    for table in tl.static_range(tables):
        back = place - tl.load(offsets + table)
        byte = tl.load(images + slot * length + back, mask=live & (back >= 0), other=0).to(tl.int64)
        byte = tl.where(back >= 0, byte, table_rows - 1)
        total += tl.load(values + (table * table_rows + byte) * width + d, mask=inside, other=0.0)
    where = tl.load(places + (place - first) * width + d, mask=inside, other=0.0)
    if concat:
        tl.store(x + image * 2 * width + d, total, mask=d < width)
        tl.store(x + image * 2 * width + width + d, where, mask=d < width)
    else:
        tl.store(x + image * width + d, total + where, mask=d < width)
