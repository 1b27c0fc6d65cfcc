"""scanline score: bits per dimension of pictures."""

import json
from pathlib import Path

import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from tests.support.commands import done
from tests.support.pictures import encode, noise

IMAGES = noise(2, 7, 5)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{index}.png" for index in range(2)]
    for file, image in zip(files, IMAGES, strict=True):
        file.write_bytes(encode(image))
    return files


@pytest.fixture
def alone(grey: Transformer) -> list[float]:
    found: list[float] = Generator(grey, 1).score(IMAGES.reshape(2, 35)).mean(axis=1).tolist()
    return found


def test_json_reports_the_bits_of_each_picture(grey_directory: Path, pictures: list[Path], alone: list[float]) -> None:
    result = json.loads(done("score", "--model", grey_directory, *pictures, "--json"))
    assert result == {
        "data": [{"picture": str(file), "bits_per_dim": value} for file, value in zip(pictures, alone, strict=True)]
    }


def test_a_line_is_printed_for_each_picture(grey_directory: Path, pictures: list[Path], alone: list[float]) -> None:
    lines = done("score", "--model", grey_directory, *pictures).splitlines()
    assert lines == [f"{value:.4f}  {file}" for file, value in zip(pictures, alone, strict=True)]
