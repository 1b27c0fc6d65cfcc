"""scanline score: bits per dimension of pictures."""

import json
from pathlib import Path

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
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
