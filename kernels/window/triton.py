"""First launch of a pixel's step on a GPU: finds the images that are not done, and
writes the window's inputs of the next pixel of each, and the vector of the pixel's
place, plus that of the image's label where the model has classes. Reference:
reference.py, whose numbers these are bit for bit.

A program is one image. Bytes come straight from the slots; the offsets of the
window's pixels follow from their number.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton.embedding import check_classes
from scanline.kernels.window.reference import Window


def read_window(
    window: Window,
    slots: Tensor,  # [B] int64: the row of images and position of each; -1: none
    images: Tensor,  # [S, N] uint8
    position: Tensor,  # [S] int64: the first byte of the pixel to predict
    table: Tensor,  # [256, 2 waves] float32: `wave_table`
    places: Tensor,  # [pixels, D] float32: vectors of the pixels
    # [B, at least window.inputs] float32, a result; columns beyond the inputs are not written
    inputs: Tensor,
    x: Tensor,  # [B, D], a result: the row of `places`, plus that of `classes`
    # [B] int64, a result: slots, but -1 where the image is done (its position is N)
    active: Tensor,
    # [B] int64: the byte to predict in each row, if it is not its slot's position
    at: Tensor | None = None,
    classes: Tensor | None = None,  # [1 + number of classes, D] float32
    labels: Tensor | None = None,  # [S] int64: the row of `classes` of each image, given with them
) -> None:
    """Write inputs, x and active; the first two are zero where active is -1."""
    length = window.height * window.width * window.channels
    columns = inputs.shape[1]
    if (
        images.shape[1] != length
        or len(places) * window.channels != length
        or x.shape[1:] != places.shape[1:]
    ):
        raise ValueError(
            f"images {list(images.shape)}, places {list(places.shape)} and x {list(x.shape)} do not fit"
        )
    if columns < window.inputs or not len(inputs) == len(x) == len(active) == len(slots):
        raise ValueError(
            f"inputs {list(inputs.shape)} do not fit {len(slots)} pixels of {window.inputs} inputs"
        )
    if table.shape != (256, 2 * window.waves):
        raise ValueError(f"a table {list(table.shape)} is not one of {window.waves} waves")
    check_classes(classes, labels, images, x)
    values = len(window.pixels) * window.channels
    waves = window.inputs - window.linear_inputs
    width = x.shape[1]
    _read_window[(len(slots),)](
        slots,
        images,
        position,
        table,
        places,
        inputs,
        x,
        active,
        at,
        classes,
        labels,
        length,
        columns,
        window.width,
        window.channels,
        window.rows,
        window.columns,
        window.waves,
        window.wave_rows,
        window.wave_columns,
        window.outside,
        window.centred,
        values,
        waves,
        width,
        triton.next_power_of_2(max(1, values)),
        triton.next_power_of_2(window.channels),
        triton.next_power_of_2(max(1, waves)),
        triton.next_power_of_2(width),
        num_warps=4,
        enable_fp_fusion=False,
    )


@triton.jit
def _value(byte):
    """Return bytes as real numbers; the division is rounded as the reference's is, which `/` is not
    on a GPU."""
    return tl.div_rn(byte.to(tl.float32), 127.5) - 1


@triton.jit
def _bytes(image, pixel, number, channel, rows, columns, width, channels, outside, live):
    """Return bytes of the pixels that have a `number`, in raster order, in the window of
    `rows` rows above `pixel` and `columns` to either side and to the left; beyond the image,
    and where not `live`, they are `outside`."""
    wide = 2 * columns + 1
    row = pixel // width - (rows - number // wide)
    column = pixel % width + number % wide - columns
    inside = live & (row >= 0) & (column >= 0) & (column < width)
    return tl.load(image + (row * width + column) * channels + channel, mask=inside, other=outside)


@triton.jit
def _reference(image, pixel, channel, width, channels, outside, live):
    """Return the reference of channels: the mean of the left and the upper neighbour, or the one
    that exists."""
    inner_column = pixel % width != 0
    inner_row = pixel >= width
    at = image + (pixel - 1) * channels + channel
    left = _value(tl.load(at, mask=live & inner_column, other=outside))
    above = _value(tl.load(at - (width - 1) * channels, mask=live & inner_row, other=outside))
    mean = (above + left) * 0.5
    return tl.where(inner_column, tl.where(inner_row, mean, left), above)


@triton.jit
def _read_window(
    slots,
    images,
    position,
    table,
    places,
    inputs,
    x,
    active,
    at,
    classes,
    labels,
    length,
    stride,
    width: tl.constexpr,
    channels: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    waves: tl.constexpr,
    wave_rows: tl.constexpr,
    wave_columns: tl.constexpr,
    outside: tl.constexpr,
    centred: tl.constexpr,
    values: tl.constexpr,
    wave_inputs: tl.constexpr,
    model_width: tl.constexpr,
    block_v: tl.constexpr,
    block_c: tl.constexpr,
    block_w: tl.constexpr,
    block_d: tl.constexpr,
):
    # A program is one image: what it reads lies in one row of bytes, and is written in order, for
    # a product to load as vectors. The next pixel of the program's image; a finished one is
    # inactive in all later launches of the step.
    row = tl.program_id(0).to(tl.int64) + tl.arange(
        0, 1
    )  # not a scalar, which masks of blocks cannot mix with
    slot = tl.load(slots + row)
    next_byte = position + slot if at is None else at + row
    place = tl.load(next_byte, mask=slot >= 0, other=length)
    live = place < length
    tl.store(active + row, tl.where(live, slot, -1))
    pixel = place // channels
    image = images + slot * length
    out = inputs + row * stride

    # The values of the window, and the reference that they are relative to.
    i = tl.arange(0, block_v)
    value = _value(
        _bytes(
            image,
            pixel,
            i // channels,
            i % channels,
            rows,
            columns,
            width,
            channels,
            outside,
            live & (i < values),
        )
    )
    if centred:
        value -= _reference(image, pixel, i % channels, width, channels, outside, live)
        c = tl.arange(0, block_c)
        reference = _reference(image, pixel, c, width, channels, outside, live & (c < channels))
        tl.store(out + values + c, tl.where(live, reference, 0.0), mask=c < channels)
    tl.store(out + i, tl.where(live, value, 0.0), mask=i < values)

    # The waves of each byte of the nearest pixels: a row of the table.
    if wave_inputs > 0:
        j = tl.arange(0, block_w)
        there = live & (j < wave_inputs)
        byte = j // (2 * waves)
        byte = _bytes(
            image,
            pixel,
            byte // channels,
            byte % channels,
            wave_rows,
            wave_columns,
            width,
            channels,
            outside,
            there,
        )
        wave = tl.load(
            table + byte.to(tl.int32) * (2 * waves) + j % (2 * waves), mask=there, other=0.0
        )
        first = values + channels if centred else values
        tl.store(out + first + j, wave, mask=j < wave_inputs)

    # The vectors of the pixel's place and of the label, to which the input's
    # product is added by the next launch.
    d = tl.arange(0, block_d)
    vector = tl.load(places + pixel * model_width + d, mask=live & (d < model_width), other=0.0)
    if classes is not None:
        label = tl.load(labels + slot, mask=live, other=0)
        vector += tl.load(
            classes + label * model_width + d, mask=live & (d < model_width), other=0.0
        )
    tl.store(x + row * model_width + d, vector, mask=d < model_width)
