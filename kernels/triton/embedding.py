"""First launch of a byte's step on a GPU: finds the images that are not done, and writes the input
vector of each and its moments. Reference: torch's indexing of the tables.

The vector is the row of the previous byte's value (before the image the last row, the
start token), with the row of the position added or appended, plus the row of the
image's label where the model has classes.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton.moments import BLOCK, blocks, store_moments


def embed(
    slots: Tensor,  # [B] int64: the row of images and position of each; -1: none
    images: Tensor,  # [S, N] uint8
    position: Tensor,  # [S] int64: the byte to predict
    values: Tensor,  # [V, W] float32
    # [N - first, W] float32: of the positions from `first` on; or [P, N - first, W]: their parts,
    # which are added one by one
    places: Tensor,
    # [B, W] where value and place are added, [B, 2 W] where they are concatenated: the result
    x: Tensor,
    # [B] int64, the other result: slots, but -1 where the image is done (its position is N)
    active: Tensor,
    # [B] int64: the byte to predict in each row, if it is not its slot's position
    at: Tensor | None = None,
    moments: Tensor | None = None,  # [B, blocks of x, 2] float32, another result: see moments.py
    classes: Tensor | None = None,  # [1 + number of classes, D] float32, D the columns of x
    labels: Tensor | None = None,  # [S] int64: the row of `classes` of each image, given with them
) -> None:
    """Write x, active and moments; x is zero where active is -1."""
    width = values.shape[1]
    length = images.shape[1]
    *parts, count, _ = places.shape
    if x.shape[1] not in (width, 2 * width) or places.shape[-1] != width or len(slots) != len(x):
        raise ValueError(
            f"tables {list(values.shape)}, places {list(places.shape)} and x {list(x.shape)} do not fit"
        )
    check_classes(classes, labels, images, x)
    assert moments is None or moments.shape == (len(x), blocks(x.shape[1]), 2)
    _embed[(len(slots),)](
        slots,
        images,
        position,
        values,
        places,
        x,
        active,
        at,
        moments,
        classes,
        labels,
        length,
        length - count,
        count,
        len(values) - 1,
        parts[0] if parts else 1,
        width,
        x.shape[1],
        max(BLOCK.value, triton.next_power_of_2(x.shape[1])),
        num_warps=2,
        enable_fp_fusion=False,
    )


def check_classes(classes: Tensor | None, labels: Tensor | None, images: Tensor, x: Tensor) -> None:
    """Raise ValueError where classes [1 + number, D] or labels [S] do not fit images [S, N] and x
    [B, D]."""
    assert (classes is None) == (labels is None)
    if classes is not None and labels is not None:
        if classes.shape[1:] != x.shape[1:] or labels.shape != images.shape[:1]:
            raise ValueError(
                f"classes {list(classes.shape)} and labels {list(labels.shape)} do not fit x {list(x.shape)}"
            )
        assert classes.is_contiguous()


@triton.jit
def _embed(
    slots,
    images,
    position,
    values,
    places,
    x,
    active,
    at,
    moments,
    classes,
    labels,
    length,
    first,
    count,
    start,
    parts: tl.constexpr,
    width: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
):
    # The next byte of the program's image; a finished one is
    # inactive in all later launches of the step.
    image = tl.program_id(0).to(tl.int64) + tl.arange(
        0, 1
    )  # not a scalar, which masks of blocks cannot mix with
    slot = tl.load(slots + image)
    next_byte = position + slot if at is None else at + image
    place = tl.load(next_byte, mask=slot >= 0, other=length)
    live = place < length
    tl.store(active + image, tl.where(live, slot, -1))
    byte = tl.load(images + slot * length + place - 1, mask=live & (place > 0), other=0).to(
        tl.int64
    )
    byte = tl.where(place > 0, byte, start)

    # The vector of the place begins at the first column where both are
    # added, else after that of the value.
    d = tl.arange(0, block)[None, :]
    after: tl.constexpr = columns - width
    inside = live[:, None] & (d < columns)
    vector = tl.load(values + byte[:, None] * width + d, mask=inside & (d < width), other=0.0)
    for part in tl.static_range(parts):
        row = (part * count + place - first)[:, None]
        vector += tl.load(places + row * width + d - after, mask=inside & (d >= after), other=0.0)
    if classes is not None:
        label = tl.load(labels + slot, mask=live, other=0)
        vector += tl.load(classes + label[:, None] * columns + d, mask=inside, other=0.0)
    tl.store(x + image[:, None] * columns + d, vector, mask=d < columns)
    if moments is not None:
        store_moments(moments, vector, image, image >= 0, 0, columns)
