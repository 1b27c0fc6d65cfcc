"""First launch of a pass over known bytes on a GPU: what the others need to know of each row. Step
i of image b of B is row i B + b. Reference: torch's indexing.

The byte at which a pass begins is a number on the device, so that a recorded
pass may be replayed from any byte on.
"""

import triton
import triton.language as tl
from torch import Tensor

ROWS = 128  # of a program


def write_rows(
    begin: Tensor,  # [1] int64: the first byte of step 0
    position: Tensor,  # [B] int64: the first byte of each image that is run
    stops: Tensor,  # [B or more] int64: the byte after its last; all are whole steps from `begin`
    images: Tensor,  # [B or more, N] uint8
    # [R] int64, a result, as those below: the image of each row; -1: its step is not run
    slots: Tensor,
    rows: Tensor,  # [R] int64: the row's own number; -1: its step is not run
    at: Tensor,  # [R] int64: the first byte of its step, which may be beyond the image
    first: Tensor,  # [B] int64: the first step of each image that is run
    last: Tensor,  # [B] int64: the step after its last; where it is not above `first`, none is run
    values: Tensor,  # [R, C] uint8: the bytes of a step; 0 where it is not run
) -> None:
    """Write slots, rows, at, first, last and values of R / B steps of C bytes."""
    batch = len(position)
    count, size = values.shape
    assert len(slots) == len(rows) == len(at) == count
    assert count % batch == 0
    assert min(len(stops), len(images)) >= batch
    assert images.is_contiguous()
    assert values.is_contiguous()
    _write_rows[(triton.cdiv(count, ROWS),)](
        begin,
        position,
        stops,
        images,
        slots,
        rows,
        at,
        first,
        last,
        values,
        batch,
        count // batch,
        images.shape[1],
        size,
        triton.next_power_of_2(size),
        ROWS,
        enable_fp_fusion=False,
    )


@triton.jit(do_not_specialize=["batch", "steps", "length"])  # one program code for all batches
def _write_rows(
    begin,
    position,
    stops,
    images,
    slots,
    rows,
    at,
    first,
    last,
    values,
    batch,
    steps,
    length,
    size: tl.constexpr,
    block_c: tl.constexpr,
    block: tl.constexpr,
):
    # A recorded pass has the same rows in every replay: those whose step is not
    # run are -1 for the launches after it.
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = row < batch * steps
    image = row % batch
    start = tl.load(begin)
    place = start + (row // batch) * size
    image_start = tl.load(position + image)
    image_stop = tl.load(stops + image)
    live = inside & (place >= image_start) & (place < image_stop)
    tl.store(slots + row, tl.where(live, image, -1), mask=inside)
    tl.store(rows + row, tl.where(live, row, -1), mask=inside)
    tl.store(at + row, place, mask=inside)
    # Rows below `batch` are those of step 0: each image's limits are stored once.
    tl.store(
        first + image,
        tl.minimum(tl.maximum((image_start - start) // size, 0), steps),
        mask=row < batch,
    )
    tl.store(
        last + image,
        tl.minimum(tl.maximum((image_stop - start) // size, 0), steps),
        mask=row < batch,
    )
    c = tl.arange(0, block_c)[None, :]
    byte = tl.load(
        images + (image * length + place)[:, None] + c, mask=live[:, None] & (c < size), other=0
    )
    tl.store(values + row[:, None] * size + c, byte, mask=inside[:, None] & (c < size))
