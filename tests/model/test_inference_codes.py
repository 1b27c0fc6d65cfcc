"""Lossless codes in Python: what was given comes back, at the bits of its score, or one sentence says why not."""

from zlib import crc32

import numpy as np
import pytest

import scanline
from scanline.model import zoo
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.code_file import MAGIC, read
from scanline.model.inference import Model
from tests.support import small_models
from tests.support.sentences import assert_says

CLASSES = small_models.CLASSES
MODELS = {
    "histogram": {**small_models.VARIANTS["histogram"], "channels": 3},
    "strokes": {**small_models.VARIANTS["strokes"], **CLASSES},
    "pixels": {**small_models.VARIANTS["pixels"], **CLASSES},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("models")
    for name, changes in MODELS.items():
        save_model(small_models.model(small_models.config(**changes)), folder / name)
    return {name: scanline.load(folder / name, device="cpu") for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_images_come_back_at_the_bits_of_their_score(models: dict[str, Model], name: str) -> None:
    model = models[name]
    images = model.sample(12, seed=3).array
    bits = model.score(images) * model.config.bytes
    done = []
    for number in (1, 7):
        data = model.compress(images, images_a_code=number, progress=lambda *each: done.append(each))
        assert done[-1] == (images.size, images.size)
        codes = read(data).codes
        sizes = [8 * len(code) for code in codes.codes]
        groups = [bits[first : first + codes.length].sum() for first in range(0, 12, codes.length)]
        assert all(-8.5 < size - cost < 12 for size, cost in zip(sizes, groups, strict=True))
        np.testing.assert_array_equal(model.decompress(data, progress=lambda *each: done.append(each)), images)
        assert done[-1] == (images.size, images.size)
        np.testing.assert_array_equal(model.decompress(data, images=[11, 4, 4]), images[[11, 4, 4]])


@pytest.mark.parametrize("name", zoo.names())
def test_a_shipped_model_compresses_what_it_paints(name: str) -> None:
    model = scanline.load(name, device="cpu")
    images = model.sample(2, seed=7, class_name="none")
    data = model.compress(images.array)
    bits = images.bits_per_dim.sum() * model.config.bytes
    assert 8 * len(read(data).codes.codes[0]) == pytest.approx(bits, abs=12)
    np.testing.assert_array_equal(model.decompress(data), images.array)


def test_an_image_is_encoded_under_its_class_where_that_is_shorter(models: dict[str, Model]) -> None:
    model = models["pixels"]
    horses, others = model.sample(12, seed=3, class_name="horse").array, model.sample(6, seed=4).array
    images = np.concatenate((horses, others))
    plain, horse, shell = (model.score(images, class_name=name) * 60 for name in (None, "horse", "shell"))
    data = model.compress(images, class_name=["horse"] * 12 + ["shell"] * 5 + [None])
    file = read(data)
    assert file.codes.labelled
    expected = np.minimum(plain, [*horse[:12], *shell[12:17], plain[17]]).sum() + 18 * 2
    assert 8 * len(file.codes.codes[0]) == pytest.approx(expected, abs=12)
    np.testing.assert_array_equal(model.decompress(data), images)
    # Two bits for the label of each are more than what the class saves.
    strokes = models["strokes"]
    assert not read(strokes.compress(strokes.sample(4, seed=4).array, class_name="7")).codes.labelled


def test_what_cannot_be_decoded_is_a_sentence(models: dict[str, Model]) -> None:
    model = models["pixels"]
    images = model.sample(3, seed=1).array
    data = model.compress(images, images_a_code=1)
    int8 = scanline.Model(model.network, "", "int8", 1, model.backend)
    assert_says("data was encoded at precision exact; this model is loaded at int8.", int8.decompress, data)
    assert_says("data is cut short: 1 bytes are missing.", model.decompress, data[:-1])
    for call, sentence in (
        (lambda: models["strokes"].decompress(data), "data was encoded by another model or kind of device: its coding"),
        (lambda: model.decompress(data, images=[3]), "images must be from 0 to 2, not 3"),
        (lambda: model.compress(images, class_name=["7", "7"]), "class_name names 2 classes for 3 images"),
        (lambda: model.compress(images, images_a_code=0), "images_a_code must be a whole number from 1 to 4,096, not"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


def test_an_image_that_is_not_what_was_encoded_never_leaves(models: dict[str, Model]) -> None:
    model = models["pixels"]
    data = bytearray(model.compress(model.sample(3, seed=1).array, images_a_code=1))
    data[-9] ^= 1
    start = len(MAGIC) + 1 + (1 if data[len(MAGIC) + 1] < 128 else 2)
    data[start : start + 4] = crc32(data[start + 4 :]).to_bytes(4, "little")
    for wanted in (None, [2]):
        with pytest.raises(ValueError, match=r"data does not decode to .*: the checksum of images 0 to 2 differs\."):
            model.decompress(bytes(data), images=wanted)
