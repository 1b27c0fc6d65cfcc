"""Pictures that come in, of every kind and broken in every way."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from scanline.model.pictures import known_by_picture, open_picture, pixels
from tests.support.pictures import encode, noise
from tests.support.tiny import COLOUR, GREY

IMAGE = noise(7, 5)
FILES = {
    "png": encode(IMAGE),
    "webp": encode(IMAGE, "WEBP", lossless=True),
    "jpeg": encode(IMAGE, "JPEG", quality=100),
    "bmp": encode(IMAGE, "BMP"),
}


def saved(picture: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", **options)
    return out.getvalue()


def test_lossless_files_are_read_byte_for_byte_and_a_jpeg_by_its_decoder() -> None:
    for kind in ("png", "webp", "bmp"):
        np.testing.assert_array_equal(read(FILES[kind]), IMAGE.reshape(-1), err_msg=kind)
    assert np.abs(read(FILES["jpeg"]).astype(int) - IMAGE.reshape(-1)).max() < 4


def test_colour_becomes_grey_by_luma_and_grey_three_equal_channels() -> None:
    colours, greys = noise(7, 5, 3), noise(3, 4)
    luma = (colours * (0.299, 0.587, 0.114)).sum(-1).reshape(-1)
    assert np.abs(read(encode(colours)) - luma).max() <= 1
    np.testing.assert_array_equal(read(encode(greys), COLOUR), np.repeat(greys.reshape(-1), 3))


def test_colours_below_alpha_zero_are_kept_as_they_are() -> None:
    colours = noise(3, 4, 4)
    colours[..., 3] = 0
    np.testing.assert_array_equal(read(encode(colours), COLOUR), colours[..., :3].reshape(-1))


def test_few_colours_are_read_too_and_a_transparent_one_is_alpha() -> None:
    bright = np.where(IMAGE > 127, 255, 0).astype(np.uint8)
    for mode in ("1", "P"):
        np.testing.assert_array_equal(read(saved(Image.fromarray(bright).convert(mode))), bright.reshape(-1))
    picture = Image.fromarray(bright // 255, "P")
    picture.putpalette([9, 9, 9, 200, 200, 200])
    opened = open_picture(saved(picture, transparency=0), GREY, "mask")
    np.testing.assert_array_equal(known_by_picture(opened, GREY, "mask"), IMAGE.reshape(-1) > 127)


def read(file: bytes, config: ModelConfig = GREY) -> np.ndarray | InvalidInput:
    """The bytes of a picture, or why there are none."""
    try:
        return pixels(open_picture(file, config, "image"), config)
    except InvalidInput as refusal:
        return refusal


@given(kind=st.sampled_from(sorted(FILES)), data=st.data())
def test_a_truncated_file_is_refused_or_whole(kind: str, data: st.DataObject) -> None:
    """Some formats end in bytes that no decoder reads."""
    file = FILES[kind]
    found = read(file[: data.draw(st.integers(0, len(file) - 1))])
    if isinstance(found, InvalidInput):
        assert (found.param, found.code) == ("image", "invalid_image")
    else:
        np.testing.assert_array_equal(found, read(file))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@given(
    kind=st.sampled_from(sorted(FILES)), changes=st.dictionaries(st.integers(0, 999), st.integers(0, 255), max_size=6)
)
def test_a_damaged_file_is_read_or_refused(kind: str, changes: dict[int, int]) -> None:
    file = bytearray(FILES[kind])
    for place, value in changes.items():
        file[place % len(file)] = value
    found = read(bytes(file))
    assert isinstance(found, InvalidInput) or found.shape == (35,)


@given(
    data=st.binary(max_size=200), magic=st.sampled_from([b"", b"BM", b"\x89PNG\r\n\x1a\n", b"RIFF", b"\xff\xd8\xff"])
)
def test_what_is_no_picture_is_refused(data: bytes, magic: bytes) -> None:
    assert isinstance(read(magic + data), InvalidInput)
