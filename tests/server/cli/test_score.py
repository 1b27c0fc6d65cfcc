"""scanline score: bits per dimension of pictures."""

import json
from pathlib import Path

import pytest
import torch

from scanline.model.evaluation.likelihood import bits
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from tests.support import small_models
from tests.support.commands import done
from tests.support.pictures import encode, noise


def test_the_bits_of_each_picture_are_printed(grey_directory: Path, tmp_path: Path, grey: Transformer) -> None:
    images, files = noise(2, 7, 5), [tmp_path / "0.png", tmp_path / "1.png"]
    for file, image in zip(files, images, strict=True):
        file.write_bytes(encode(image))
    alone = Generator(grey, 1).score(images.reshape(2, 35)).mean(axis=1).tolist()
    result = json.loads(done("score", "--model", grey_directory, *files, "--json"))
    bits = dict(zip(map(str, files), alone, strict=True))
    assert result == {"data": [{"picture": file, "bits_per_dim": value} for file, value in bits.items()]}
    lines = done("score", "--model", grey_directory, *files).splitlines()
    assert lines == [f"{value:.4f}  {file}" for file, value in bits.items()]


def test_pictures_of_colour_are_scored_by_a_model_that_paints_pixels(tmp_path: Path) -> None:
    """The sum of all bytes' bits, over the number of bytes."""
    model = small_models.model(small_models.config(**small_models.VARIANTS["pixels"]))
    save_model(model, tmp_path / "pixels")
    image = small_models.images(model.config, 1)
    (tmp_path / "0.png").write_bytes(encode(image.reshape(4, 5, 3)))
    expected = bits(load_model(tmp_path / "pixels"), torch.from_numpy(image)).sum().item() / 60
    (found,) = json.loads(done("score", "--model", tmp_path / "pixels", tmp_path / "0.png", "--json"))["data"]
    assert found["bits_per_dim"] == pytest.approx(expected, rel=1e-5)
