"""scanline compress and decompress: pictures to a file of codes and back, byte for byte."""

import json
import os
import subprocess
import zlib
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from scanline.model.formats.code_file import MAX_A_CODE, Codes, read
from tests.support import shapes
from tests.support.commands import done, refused, scanline
from tests.support.pictures import encode, noise
from tests.support.server.hostile_pictures import END, SIGNATURE, chunk, header
from tests.support.server.running_server import SCANLINE


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """7 x 5 grey pixels, of the classes circle, square and star."""
    return shapes.save(tmp_path_factory.mktemp("models") / "shapes")


def test_a_folder_of_classes_comes_back(model, tmp_path):
    images = noise(4, 7, 5)
    for index, (kind, image) in enumerate(
        zip(("star", "star", "circle", "square"), images, strict=True)
    ):
        (tmp_path / "in" / kind).mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / kind / f"{index}.png").write_bytes(encode(image))
    (tmp_path / "in" / "star" / "notes.txt").write_text("?")
    file = tmp_path / "images.scan"
    ran = scanline("compress", tmp_path / "in", "--classes", "--model", model, "-o", file)
    assert (ran.status, ran.err) == (
        0,
        f"1 left out: {tmp_path / 'in/star/notes.txt'}: it is not a picture\n",
    )
    size = len(file.read_bytes())
    assert ran.out.startswith(
        f"4 images in {file}, {size:,} bytes, {8 * size / images.size:.3f} bits/dim; PNG "
    )
    done("decompress", file, "--model", model, "-o", tmp_path / "out")
    found = [np.asarray(Image.open(tmp_path / "out" / f"{index}.png")) for index in range(4)]
    assert_array_equal(found, images[[2, 3, 0, 1]])  # by name
    for part in ("0", "1"):  # of several parts in one folder, none replaces another
        done("decompress", file, "--model", model, "-o", tmp_path / "run.2", "--images", part)
    assert sorted(os.listdir(tmp_path / "run.2")) == ["0.png", "1.png", "classes.csv"]


@pytest.mark.parametrize("kind", ["npy", "idx", "png"])
def test_some_images_of_an_array_an_idx_file_or_pictures(model, tmp_path, kind):
    images = noise(6, 7, 5)
    given = [tmp_path / f"images.{kind}"]
    if kind == "npy":
        np.save(given[0], images)
    elif kind == "idx":
        given[0].write_bytes(
            bytes([0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 5]) + images.tobytes()
        )
    else:
        given = [tmp_path / f"{index}.png" for index in range(6)]
        for path, image in zip(given, images, strict=True):
            path.write_bytes(encode(np.stack([image] * 3, axis=-1)))
    file = tmp_path / "images.scan"
    out = tmp_path / "out.npy"
    row = json.loads(
        done("compress", *given, "--model", model, "--images-a-code", 1, "-o", file, "--json")
    )
    assert read(file.read_bytes()).codes.length == 1
    assert (row["n"], row["bytes"]) == (6, len(file.read_bytes()))
    assert row["webp_bits_per_dim"] > 0
    done("decompress", file, "--model", model, "-o", out, "--images", 3, "0-1")
    assert_array_equal(np.load(out), images[[3, 0, 1]])


# Pillow reads such a file as RGB, of which it keeps the upper 8 bits
DEEP = (
    SIGNATURE
    + header(depth=16, colour=2)
    + chunk(b"IDAT", zlib.compress(bytes(7 * (1 + 5 * 6))))
    + END
)


def test_what_would_be_lost_or_is_not_there_is_refused(model, tmp_path):
    file = tmp_path / "images.scan"
    picture = tmp_path / "a.png"
    for data, said in (
        (encode(noise(7, 5, 3)), "a.png has colours, and the model's images are grey."),
        (encode(noise(7, 5, 2)), "a.png has transparent pixels, which would be lost."),
        (encode(noise(3, 3)), "a.png is 3x3; the model needs exactly 5x7."),
        (DEEP, "a.png has 16 bits a channel"),
    ):
        picture.write_bytes(data)
        assert said in refused("compress", picture, "--model", model, "-o", file)
    assert not file.exists()
    picture.write_bytes(encode(noise(7, 5)))
    done("compress", picture, "--model", model, "-o", file)
    assert "is of no shipped model; give --model" in refused(
        "decompress", file, "-o", tmp_path / "out"
    )
    for images, said in (
        ("1", "--images: 1 is not among the images 0 to 0."),
        ("a-b", "must be numbers and ranges"),
    ):
        assert said in refused(
            "decompress", file, "--model", model, "-o", tmp_path / "out", "--images", images
        )
    assert "other: give one file" in refused("decompress", file, "other", "--model", model)
    assert "is not a file of Scanline's codes" in refused("decompress", picture, "--model", model)
    codes = Codes((bytes(14),) * 25, MAX_A_CODE)
    many = replace(read(file.read_bytes()), count=100_001, codes=codes, checksums=(0,) * 25)
    file.write_bytes(many.to_bytes())
    said = "holds 100,001 images, more than 100,000; choose some by --images"
    assert said in refused("decompress", file, "--model", model)


def test_pictures_and_codes_through_pipes(model):
    picture = noise(7, 5)
    pipe = {"check": True, "capture_output": True}
    codes = subprocess.run(
        [SCANLINE, "compress", "-", "--model", model, "-o", "-"], input=encode(picture), **pipe
    )
    assert codes.stderr.startswith(b"1 images in -")
    back = subprocess.run(
        [SCANLINE, "decompress", "-", "--model", model, "-o", "-"], input=codes.stdout, **pipe
    )
    assert_array_equal(np.asarray(Image.open(BytesIO(back.stdout))), picture)


def test_a_folder_with_a_pipe_and_a_broken_picture(model, tmp_path):
    folder = tmp_path / "v1.2"
    folder.mkdir()
    for index, image in enumerate(noise(3, 7, 5)):
        (folder / f"{index}.png").write_bytes(encode(image)[: 60 if index == 1 else None])
    os.mkfifo(folder / "control")
    ran = scanline("compress", folder, "--model", model, "-o", tmp_path / "images.scan")
    assert (ran.status, ran.out[:8]) == (1, "2 images")
    broken = "it is a broken picture: image file is truncated"
    assert (
        ran.err
        == f"2 left out: {folder}/1.png: {broken}; {folder}/control: it is not a regular file\n"
    )
