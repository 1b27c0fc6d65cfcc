"""A folder of pictures: any format, recursively; each refused file
is named and the others are read.
"""

import os
import re

import numpy as np
import pytest
from PIL import Image

from scanline.model.datasets import DataError
from scanline.model.datasets.files import LARGEST_FILE
from scanline.model.datasets.folder import load
from tests.support.pictures import encode, noise
from tests.support.server import hostile_pictures as hostile

GREY = noise(7, 5)
COLOUR = noise(7, 5, 3)


def folder(directory, files):
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


def reasons(found):
    return {refused.file: refused.reason for refused in found.refused}


def test_pictures_of_any_format_in_any_subfolder_in_the_order_of_their_names(
    tmp_path,
):
    kinds = ("PNG", "BMP", "TIFF", "PPM", "TGA", "PCX", "ICO", "DDS", "SGI")
    images = [noise(16, 16, 3, seed=i) for i in range(len(kinds))]
    # without a suffix: the bytes say what they are
    names = [f"{'abc'[i % 3]}/{i}" for i in range(len(kinds))]
    folder(
        tmp_path,
        {name: encode(image, kind) for name, image, kind in zip(names, images, kinds, strict=True)},
    )
    found = load(tmp_path)
    assert (found.height, found.width, found.channels, found.refused) == (16, 16, 3, ())
    expected = [
        image for _, image in sorted(zip(names, images, strict=True), key=lambda pair: pair[0])
    ]
    assert (found.images == np.stack(expected).reshape(len(kinds), -1)).all()


def test_each_refused_file_is_named_with_a_reason_and_the_others_are_read(tmp_path):
    whole = encode(COLOUR)
    files = {
        "text.txt": b"not a picture",
        "empty.png": b"",
        "half.png": whole[: len(whole) // 2],
        "header.jpg": encode(COLOUR, "JPEG")[:300],
        "bomb.png": hostile.bomb(),
        "large.png": hostile.SIGNATURE
        + hostile.header(10_000, 10_000)
        + hostile.pixels()
        + hostile.END,
        "program.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 7\n%%EndComments\nshowpage\n",
        "layers.psd": b"8BPS\0\1" + bytes(6) + b"\0\3\0\0\0\x07\0\0\0\5\0\x08\0\3",
        "sky.fits": b"SIMPLE  =                    T".ljust(80)
        + b"BITPIX  =                    8".ljust(80),
        "boxed.iim": hostile.boxed(whole),
        "scans.jpg": hostile.of_scans(5000),
        "strips.tiff": hostile.of_strips(70_000),
        "runs.bmp": hostile.run_lengths(1024),
        "runs.ico": hostile.icon(64),
        "comment.gif": encode(GREY, "GIF", comment=bytes(2_000_000)),
        "float.tiff": hostile.converted("F", "TIFF"),
        "strange\nname.png": b"?",
    }
    folder(tmp_path, {"good.png": whole, **files, ".hidden.png": b"", ".cache/thumbnail.png": b""})
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nothing")
    with (tmp_path / "vast.tiff").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    found = load(tmp_path)
    assert (found.images == COLOUR.reshape(1, -1)).all()
    said = reasons(found)
    assert "89,478,485" in said.pop("bomb.png")
    assert said.pop("half.png").startswith("it is a broken picture: ")
    assert said.pop("header.jpg")
    assert said == {
        **dict.fromkeys(
            ("text.txt", "program.eps", "boxed.iim", "strange?name.png"), "it is not a picture"
        ),
        # Pillow would read them
        **dict.fromkeys(("layers.psd", "sky.fits"), "it is not a picture"),
        "scans.jpg": "it has more than 32 scans",
        "strips.tiff": "it has more than 65,536 strips or tiles",
        "runs.bmp": "it has 1,048,576 pixels, more than the maximum of 262,144 of its format",
        "runs.ico": "it is an icon with run lengths",
        "comment.gif": "it has too many parts",
        "vast.tiff": "it has more than the maximum of 716,090,024 bytes",
        "empty.png": "it is empty",
        "pipe.png": "it is not a regular file",
        "dangling.png": "it is a link to nothing",
        "large.png": "it has 10000 x 10000 pixels, more than the maximum of 89,478,485",
        "float.tiff": "it has pixels of mode F, which do not fit 8 bits",
    }
    assert not any("\n" in str(refused) for refused in found.refused)


def test_pictures_are_cropped_to_the_centre_and_resized(tmp_path):
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 200  # the centre square
    folder(
        tmp_path,
        {
            "wide.png": encode(wide),
            "tall.png": encode(np.ascontiguousarray(wide.transpose(1, 0, 2))),
        },
    )
    found = load(tmp_path, size=(10, 10))
    assert (found.height, found.width, found.channels) == (10, 10, 1)
    # Lanczos overshoots
    assert np.abs(found.images.astype(int) - 200).reshape(2, 10, 10)[:, 1:-1, 1:-1].max() <= 4
    found = load(tmp_path, size=(12, 4))
    assert (found.height, found.width) == (4, 12)
    assert found.images.reshape(2, 4, 12)[1, :, [0, 5, 11]].mean(axis=1) == pytest.approx(
        [0, 200, 0], abs=15
    )


def test_grey(tmp_path):
    luma = np.asarray(Image.fromarray(COLOUR).convert("L"))
    folder(tmp_path, {"colour.png": encode(COLOUR), "grey.png": encode(GREY)})
    # of that size: not changed
    assert (load(tmp_path, size=(5, 7)).images[0] == COLOUR.reshape(-1)).all()
    found = load(tmp_path, grey=True)
    assert found.channels == 1
    assert (found.images == np.stack((luma, GREY)).reshape(2, -1)).all()
    assert load(tmp_path).channels == 3


def test_pictures_without_colour_are_grey_in_whatever_mode_they_are_stored(tmp_path):
    smooth = np.tile(np.linspace(0, 255, 16).astype(np.uint8), (16, 1))
    rgb = np.repeat(smooth[..., None], 3, axis=2)
    lossy = {"a.jpg": encode(rgb, "JPEG", quality=90), "b.webp": encode(rgb, "WEBP", quality=90)}
    deep = Image.fromarray(smooth.astype(np.uint16) * 257)
    folder(tmp_path, {"rgb.png": encode(rgb), "palette.gif": encode(smooth, "GIF"), **lossy})
    deep.save(tmp_path / "sixteen.png")
    found = load(tmp_path)
    assert found.channels == 1
    names = ["a.jpg", "b.webp", "palette.gif", "rgb.png", "sixteen.png"]
    for name, image in zip(names, found.images.reshape(-1, 16, 16), strict=True):
        assert np.abs(image.astype(int) - smooth).max() <= (
            8 if name in ("a.jpg", "b.webp") else 0
        ), name


def test_an_animation_is_its_first_frame(tmp_path):
    first, second = (Image.fromarray(np.full((4, 4), value, np.uint8)) for value in (30, 200))
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second])
    assert (load(tmp_path).images == 30).all()


def test_mixed_sizes_are_one_sentence_that_names_two(tmp_path):
    folder(
        tmp_path,
        {
            "a/first.png": encode(noise(7, 5)),
            "b.png": encode(noise(7, 5)),
            "z.png": encode(noise(9, 8)),
        },
    )
    with pytest.raises(DataError) as error:
        load(tmp_path)
    assert str(error.value) == (
        f"the pictures in {tmp_path} differ in size: b.png is 5x7 and z.png is 8x9; give --size, for example --size 5"
    )
    (tmp_path / "b.png").unlink()
    with pytest.raises(
        DataError, match=re.escape("differ in size: z.png is 8x9 and a/first.png is 5x7")
    ):
        load(tmp_path)


def test_no_picture_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} holds no files")):
        load(tmp_path)
    folder(tmp_path, {"a.txt": b"text", "b.txt": b"text"})
    with pytest.raises(DataError) as error:
        load(tmp_path)
    assert (
        str(error.value)
        == f"{tmp_path} holds no picture that can be read: a.txt: it is not a picture"
    )


def test_a_picture_that_no_model_can_paint_is_refused_before_others_are_read(
    tmp_path,
):
    folder(tmp_path, {"a.png": encode(np.zeros((700, 800, 3), np.uint8)), "b.png": b"never read"})
    with pytest.raises(DataError, match="has 800x700 pixels, too many for a model; give --size"):
        load(tmp_path)
    assert load(tmp_path, size=(4, 4)).images.shape == (1, 16)
