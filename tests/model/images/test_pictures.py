"""Pictures that come in, of every kind and broken in every way."""

import base64
import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from PIL import Image, ImageCms

from scanline.model.base.inputs import InvalidInput
from scanline.model.datasets.folder import load
from scanline.model.images import picture_files, pictures
from scanline.model.images.pictures import (
    from_base64,
    known_by_alpha,
    known_by_picture,
    open_picture,
    pixels,
    readable,
)
from tests.support.pictures import encode, noise
from tests.support.server.hostile_pictures import (
    END,
    PICTURES,
    SIGNATURE,
    chunk,
    header,
    of_scans,
    run_lengths,
)
from tests.support.server.hostile_pictures import pixels as pixel_chunk
from tests.support.small_models import COLOUR, GREY

IMAGE = noise(7, 5)
PIXELS = pixel_chunk()
CHUNKS = [
    b"iCCP",
    b"tEXt",
    b"zTXt",
    b"iTXt",
    b"pHYs",
    b"eXIf",
    b"gAMA",
    b"cHRM",
    b"tRNS",
    b"PLTE",
    b"sRGB",
    b"acTL",
]
FILES = {
    "png": encode(IMAGE),
    "webp": encode(IMAGE, "WEBP", lossless=True),
    "jpeg": encode(IMAGE, "JPEG", quality=100),
    "bmp": encode(IMAGE, "BMP"),
}


def saved(picture, **options):
    out = io.BytesIO()
    picture.save(out, "PNG", **options)
    return out.getvalue()


def test_lossless_files_are_read_byte_for_byte_and_a_jpeg_by_its_decoder():
    for kind in ("png", "webp", "bmp"):
        assert_array_equal(read(FILES[kind]), IMAGE.reshape(-1), err_msg=kind)
    assert np.abs(read(FILES["jpeg"]).astype(int) - IMAGE.reshape(-1)).max() < 4


def test_colour_becomes_grey_by_luma_and_grey_three_equal_channels():
    colours = noise(7, 5, 3)
    greys = noise(3, 4)
    assert (
        np.abs(read(encode(colours)) - (colours * (0.299, 0.587, 0.114)).sum(-1).reshape(-1)).max()
        <= 1
    )
    assert_array_equal(read(encode(greys), COLOUR), np.repeat(greys.reshape(-1), 3))


STORED = noise(4, 3, 3)  # turned by a quarter, 3 rows of 4 pixels
TURNED = np.rot90(STORED, -1)
EXIF = Image.Exif()
EXIF[0x0112] = 6
OF_ANY_KIND = {  # label: a file, the pixels [3, 4, 3] that it shows
    "turned PNG": (encode(STORED, exif=EXIF), TURNED),
    "turned WebP": (encode(STORED, "WEBP", lossless=True, exif=EXIF), TURNED),
    "transparent": (
        encode(np.dstack((TURNED, np.zeros((3, 4), np.uint8)))),
        np.full((3, 4, 3), 255),
    ),
    "16 bits": (
        encode(TURNED[..., 0].astype(np.uint16) << 8 | 77),
        np.repeat(TURNED[..., :1], 3, axis=2),
    ),
    "palette": (saved(Image.fromarray(TURNED).quantize(12)), TURNED),
    "profile": (
        encode(
            TURNED, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        ),
        TURNED,
    ),
    "broken EXIF": (encode(TURNED, exif=b"Exif\0\0II*\0\xff\xff\xff\xff"), TURNED),
}


@pytest.mark.parametrize("label", OF_ANY_KIND)
def test_uploads_are_read_as_training_reads_them(tmp_path, label):
    data, shown = OF_ANY_KIND[label]
    (tmp_path / "picture").write_bytes(data)
    assert_array_equal(np.broadcast_to(load(tmp_path).images.reshape(3, 4, -1), (3, 4, 3)), shown)
    assert_array_equal(read(data, COLOUR), shown.reshape(-1))


def test_a_tiff_says_how_many_of_its_bits_count(tmp_path):
    for bits, dtype in ((12, np.uint16), (16, np.uint16), (12, np.int32)):
        values = STORED[..., 0].astype(dtype) << (bits - 8) | 7
        Image.fromarray(values).save(tmp_path / "picture.tiff", tiffinfo={281: 2**bits - 1})
        assert_array_equal(
            load(tmp_path).images.reshape(4, 3), STORED[..., 0], err_msg=f"{bits} bits"
        )


def test_of_several_pictures_in_a_jpeg_the_first_is_read_and_its_exif_is_not_unpacked():
    """EXIF of 60 KB whose 5,000 tags all have the same 60 KB for
    their value takes Pillow 300 MB.
    """
    tags = b"".join(struct.pack("<HHII", tag, 7, 60_000, 8) for tag in range(1000, 6000))
    swollen = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 5000) + tags
    several = encode(
        IMAGE, "MPO", save_all=True, append_images=[Image.fromarray(IMAGE)], quality=100
    )
    tracemalloc.start()
    for data in (encode(IMAGE, "JPEG", quality=100, exif=swollen), several):
        assert np.abs(read(data).astype(int) - IMAGE.reshape(-1)).max() < 4
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_a_jpeg_of_as_many_scans_as_there_may_be_is_read_whatever_is_in_a_segment_or_behind_its_end():
    whole = of_scans(picture_files.MAX_SCANS)
    segment = b"\xff\xe1\x20\x02" + b"\xff\xda" * 2**12
    expected = read(whole)
    for data in (whole[:2] + segment + whole[2:], whole + of_scans(5000)):
        assert_array_equal(read(data), expected)


SLOW = {
    "too many scans": "it has more than 32 scans",
    "too many segments": "it has more than 1,000 segments",
    "too many segments of no length": "it has more than 1,000 segments",
    "too many segments behind a stray byte": "it has more than 1,000 segments",
    "too many fill bytes": "it has too many parts",
    "too many stray bytes": "it has too many parts",
    "too many chunks": "it has too many parts",
    "a large BMP of run lengths": "it has 1,048,576 pixels, more than the maximum of 262,144 of its format",
}


@pytest.mark.parametrize("resize", [False, True])
@pytest.mark.parametrize("label", SLOW)
def test_a_picture_that_takes_long_is_refused(label, resize):
    with pytest.raises(InvalidInput) as refused:
        open_picture(PICTURES[label], GREY, "image", resize)
    assert str(refused.value) == f"image: {SLOW[label]}."
    assert (refused.value.param, refused.value.code) == ("image", "invalid_image")


def test_run_lengths_of_few_pixels_are_read_and_those_that_leave_no_pixel_are_too_many_parts():
    with pytest.raises(InvalidInput, match="image: it has too many parts"):
        open_picture(run_lengths(5)[:1078] + b"\0\2\0\0" * 5000, GREY, "image", resize=True)
    side = int(picture_files.MAX_PYTHON_PIXELS**0.5)
    assert open_picture(run_lengths(side), GREY, "image", resize=True).size == (side, side)


def with_transparent(depth, channels):
    """A PNG of 7 x 5 pixels of two values, of which the one where IMAGE is dark is transparent."""
    kept = 2**depth - 1
    hidden = 2**depth // 3
    values = np.where(IMAGE > 127, kept, hidden)[..., None].repeat(channels, 2).reshape(7, -1)
    bits = (values[..., None] >> np.arange(depth)[::-1] & 1).astype(np.uint8)
    rows = b"".join(b"\0" + np.packbits(row).tobytes() for row in bits)
    key = struct.pack(f">{channels}H", *[hidden] * channels)
    colour = header(depth=depth, colour=2 if channels == 3 else 0)
    return SIGNATURE + colour + chunk(b"tRNS", key) + chunk(b"IDAT", zlib.compress(rows)) + END


@pytest.mark.parametrize(
    ("depth", "channels"),
    [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (8, 3), (16, 3)],
    ids=lambda number: str(number),
)
def test_a_transparent_value_of_any_depth_is_alpha_and_on_white(tmp_path, depth, channels):
    (tmp_path / "picture.png").write_bytes(with_transparent(depth, channels))
    opened = open_picture(with_transparent(depth, channels), GREY, "mask")
    assert_array_equal(known_by_picture(opened, GREY, "mask"), IMAGE.reshape(-1) > 127)
    assert_array_equal(known_by_alpha(opened, GREY), IMAGE.reshape(-1) > 127)
    assert (pixels(opened, GREY) == 255).all()
    assert (load(tmp_path).images == 255).all()


def test_a_value_of_16_bits_beside_the_transparent_one_is_kept():
    values = np.where(IMAGE > 127, 0x1234, 0x1235).astype(np.uint16)
    opened = open_picture(saved(Image.fromarray(values), transparency=0x1235), GREY, "image")
    assert_array_equal(pixels(opened, GREY), np.where(IMAGE > 127, 0x12, 255).reshape(-1))


@pytest.mark.parametrize("value", [0x7FFF, 0x0900, 0xFEFF, 0x0100])
def test_a_mask_of_16_bits_is_read_by_its_upper_8(value):
    dark = 0x0080
    light = 0xFF01
    mask = np.where(IMAGE > 127, light, dark).astype(np.uint16)
    opened = open_picture(encode(mask), GREY, "mask")
    assert_array_equal(known_by_picture(opened, GREY, "mask"), IMAGE.reshape(-1) > 127)
    mask[3, 2] = value
    with pytest.raises(InvalidInput, match="mask has grey values between 0"):
        known_by_picture(open_picture(encode(mask), GREY, "mask"), GREY, "mask")


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "CMYK", "YCbCr", "I", "I;16"]
)
def test_a_mask_and_a_picture_of_any_mode_are_read_alike(mode):
    bright = np.where(IMAGE > 127, 255, 0).astype(np.uint8)
    if mode.startswith("I"):
        picture = Image.fromarray(bright.astype(np.int32 if mode == "I" else np.uint16) * 257)
    else:
        source = Image.fromarray(bright)
        for step in {"La": ("LA", "La"), "PA": ("P", "PA"), "RGBa": ("RGBA", "RGBa")}.get(
            mode, ("RGB", mode)
        ):
            source = source.convert(step)
        picture = source
    assert picture.mode == mode
    assert_array_equal(pixels(picture, GREY), bright.reshape(-1))
    colours, alpha = pictures.planes(picture)
    assert_array_equal(colours.convert("L"), bright)
    known = known_by_picture(picture, GREY, "mask")  # by black, also where all is opaque
    assert_array_equal(known, bright.reshape(-1) == 255)
    if alpha is not None:
        with pytest.raises(InvalidInput, match="image leaves nothing to paint"):
            known_by_alpha(picture, GREY)


def test_pixels_and_masks_of_floats_are_refused_in_one_sentence():
    floats = Image.fromarray(IMAGE.astype(np.float32))
    for reader in (lambda: pixels(floats, GREY), lambda: known_by_picture(floats, GREY, "image")):
        with pytest.raises(
            InvalidInput, match="image: it has pixels of mode F, which do not fit 8 bits"
        ):
            reader()


ENCODED = [bytes(range(size)) + b"\xfb\xff\xfe" for size in range(1, 5)]  # whose text has + and /


@pytest.mark.parametrize("data", ENCODED, ids=len)
@pytest.mark.parametrize(
    "encoded", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes]
)
@pytest.mark.parametrize(
    "head",
    ["", "data:image/png;base64,", "data:;charset=utf-8;Base64,", "DATA:a/b;base64;name=c.png,"],
)
def test_base64_is_read_in_every_spelling(data, encoded, head):
    text = head + encoded(data).decode()
    for spelled in (text, text.rstrip("=\n"), text + "=="):
        assert from_base64(spelled, "image") == data


@pytest.mark.parametrize(
    "text",
    ["a", "abcde", "a=bc", "abc!", "ab cd*", "\ud800", "data:image/png,abcd", "data:base64,abcd"],
)
def test_what_is_no_base64_is_refused(text):
    with pytest.raises(
        InvalidInput, match=r"image is (not valid base64|a data URL without ;base64)"
    ):
        from_base64(text, "image")


def read(file, config=GREY):
    """The bytes of a picture, or why there are none."""
    try:
        return pixels(open_picture(file, config, "image"), config)
    except InvalidInput as refusal:
        return refusal


@given(kind=st.sampled_from(sorted(FILES)), data=st.data())
def test_a_truncated_file_is_refused_or_whole(kind, data):
    """Some formats end in bytes that no decoder reads."""
    file = FILES[kind]
    found = read(file[: data.draw(st.integers(0, len(file) - 1))])
    if isinstance(found, InvalidInput):
        assert (found.param, found.code) == ("image", "invalid_image")
    else:
        assert_array_equal(found, read(file))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@given(
    st.sampled_from(sorted(FILES)),
    st.dictionaries(st.integers(0, 999), st.integers(0, 255), max_size=6),
)
def test_a_damaged_file_is_read_or_refused(kind, changes):
    file = bytearray(FILES[kind])
    for place, value in changes.items():
        file[place % len(file)] = value
    found = read(bytes(file))
    assert isinstance(found, InvalidInput) or found.shape == (35,)


@given(st.lists(st.sampled_from(CHUNKS), max_size=4), st.binary(max_size=20), st.booleans())
def test_a_png_with_any_chunk_is_read_or_refused(kinds, data, is_before):
    chunks = b"".join(chunk(kind, data) for kind in kinds)
    before, behind = (chunks, b"") if is_before else (b"", chunks)
    found = read(SIGNATURE + header() + before + PIXELS + behind + END)
    assert isinstance(found, InvalidInput) or found.shape == (35,)


@pytest.mark.parametrize(
    "error", [MemoryError, IndexError, struct.error, RecursionError, Image.DecompressionBombError]
)
def test_whatever_a_decoder_raises_is_a_refusal(error):
    with pytest.raises(InvalidInput, match="image is not a readable") as refusal, readable("image"):
        raise error("seven")
    assert (refusal.value.param, refusal.value.code) == ("image", "invalid_image")


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"BM", b"\x89PNG\r\n\x1a\n", b"RIFF", b"\xff\xd8\xff"]),
)
def test_what_is_no_picture_is_refused(data, magic):
    assert isinstance(read(magic + data), InvalidInput)


LARGE = noise(31, 20)  # its centre of the model's proportions has 20 x 28 pixels
SWOLLEN = FILES["png"] + chunk(b"teXt", bytes(2**18 + 8 * 35))


def test_a_picture_of_another_size_is_resized_as_for_training(tmp_path):
    (tmp_path / "large.png").write_bytes(encode(LARGE))
    trained = load(tmp_path, size=(5, 7), grey=True).images
    large = open_picture(encode(LARGE), GREY, "image", resize=True)
    assert_array_equal(pixels(large, GREY), trained[0])
    assert (
        np.abs(trained[0].reshape(7, 5) - LARGE[1:29].reshape(7, 4, 5, 4).mean((1, 3))).mean() < 12
    )


def test_a_large_transparent_picture_is_on_white_in_every_row():
    values = noise(pictures.COMPOSITED_PIXELS // 100, 250, 4)
    with Image.fromarray(values) as picture:
        expected = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert(
            "RGB"
        )
        assert_array_equal(pictures.in_8_bits(picture, grey=False), expected)


def test_a_mask_of_another_size_has_the_nearest_pixels():
    mask = open_picture(
        encode(np.where(LARGE > 99, 255, 0).astype(np.uint8)), GREY, "mask", resize=True
    )
    assert_array_equal(known_by_picture(mask, GREY, "mask"), (LARGE[3:29:4, 2::4] > 99).reshape(-1))


def test_a_telephones_photo_is_decoded_with_fewer_pixels():
    side = 4096
    assert side**2 == pictures.MAX_REDUCED_PIXELS
    photo = open_picture(encode(np.zeros((side, side), np.uint8), "JPEG"), GREY, "image", True)
    assert photo.size == (side // 4, side // 4)
    for refused in (
        encode(np.zeros((side, side), np.uint8)),
        encode(np.zeros((side, side + 1), np.uint8), "JPEG"),
    ):
        with pytest.raises(InvalidInput, match="are resized to the model's size"):
            open_picture(refused, GREY, "image", True)


@pytest.mark.parametrize(
    ("file", "resize", "code"),
    [
        (encode(LARGE), False, "wrong_size"),
        (
            encode(np.zeros((1024, pictures.MAX_RESIZED_PIXELS // 1024 + 1), np.uint8)),
            True,
            "wrong_size",
        ),
        (encode(np.zeros((1, pictures.MAX_RESIZED_SIDE + 1), np.uint8)), True, "wrong_size"),
        (SWOLLEN, True, "too_large"),
        (SWOLLEN, False, "too_large"),
    ],
)
def test_other_sizes_and_large_files_are_refused(file, resize, code):
    with pytest.raises(InvalidInput) as refused:
        open_picture(file, GREY, "image", resize)
    assert refused.value.code == code
