"""Files of codes that were made on AVX2 are decoded on every
instruction set, by each later version.

They have 20 letters, and what a model painted of colours; the weights of both models are the
same everywhere. Where a coding changes on purpose, `python -m
tests.model.sampling.test_codes` writes them anew.
"""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from scanline.kernels import cpu as cpu_kernels
from scanline.model.formats.code_file import read
from scanline.model.inference import Model
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.kernels.native import ISAS

FOLDER = Path(__file__).with_name("codes")
PLAIN = {"causal_conv": False, "class_biases": False}
MODELS = {
    "letters": {**small_models.VARIANTS["strokes"], "height": 12, "width": 8, "waves": 2},
    "colours": {**small_models.VARIANTS["waves of pixels"], **small_models.CLASSES, **PLAIN},
}
PIXELS = {  # of each file: SHA-256
    "letters": "248348fee291449cadb9a6ea80bdeff08d5a095d01f75211fcf9abdafe1f2c3a",
    "colours": "a4c3dcf456149be563d116d2e46ef12180da165c8cefe9e5b9682851c4ab2502",
}


def model_of(name):
    """A model whose weights are those of whole numbers, without a rounding that could differ."""
    model = Transformer(small_models.config(**MODELS[name])).eval().requires_grad_(False)
    numbers = np.random.RandomState(7)
    for name, parameter in model.state_dict().items():
        drawn = (
            torch.from_numpy(numbers.randint(-512, 512, parameter.shape).astype(np.float32)) / 1024
        )
        parameter.copy_(
            drawn * 4 if "class" in name else drawn / 2 if parameter.dim() == 2 else 1 + drawn / 8
        )
    return model


def loaded(name):
    return Model(model_of(name), name, "exact", None, "cpu")


@pytest.mark.skipif(not ISAS, reason="the cpu kernel was not compiled")
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_decoded_on_every_instruction_set(name, isa, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "instruction_sets", lambda: [isa])
    file = read((FOLDER / f"{name}.scan").read_bytes())
    model = loaded(name)
    images, _ = model.decode(file, None, "file")
    assert (len(images), sha256(images).hexdigest()) == (20, PIXELS[name])
    classes = ["7"] * 20 if file.codes.labelled else None
    again = read(model.compress(images, class_name=classes, images_a_code=file.codes.length))
    assert replace(again, coding=file.coding) == file


def letters():
    """The letters A to T, [20, N]."""
    found = []
    for letter in "ABCDEFGHIJKLMNOPQRST":
        picture = Image.new("L", (8, 12))
        ImageDraw.Draw(picture).text(
            (1, 0), letter, fill=255, font=ImageFont.load_default_imagefont()
        )
        found.append(np.asarray(picture).reshape(-1))
    return np.stack(found)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        model = loaded(name)
        images = (
            letters() if name == "letters" else paint(model.network, 20, seed=7, label=1).images
        )
        data = model.compress(
            images, class_name=None if name == "letters" else "7", images_a_code=7
        )
        (FOLDER / f"{name}.scan").write_bytes(data)
        print(
            f'    "{name}": "{sha256(images).hexdigest()}",', len(data), read(data).codes.labelled
        )
