"""The Python API with classes, guidance, particles and codes: each call hands on
what it is given, or refuses it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch

import scanline
from scanline.model import zoo
from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.code_file import MAGIC, read
from scanline.model.inference import Model
from scanline.model.tasks.offline import paint
from tests.support import shapes, small_models
from tests.support.sentences import assert_says

HOLE = np.ones((7, 5), np.bool_)
HOLE[2:4, 1:4] = False


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return scanline.load(
        shapes.save(tmp_path_factory.mktemp("models") / "shapes", shapes.GUIDED), device="cpu"
    )


@pytest.fixture(scope="module")
def picture(model: Model) -> np.ndarray:
    return model.sample(1, seed=3).array[0]


def law(model: Model, count: int, **how: Any) -> np.ndarray:
    """Images [count, 7, 5] that offline painting paints."""
    return paint(model.network, count, seed=7, **how).images.reshape(count, 7, 5)


def test_samples_and_streams_are_of_the_class_and_the_guidance_that_are_named(model: Model) -> None:
    assert model.class_names == ("circle", "square", "star")
    np.testing.assert_array_equal(model.sample(4, seed=7).array, law(model, 4))
    for name, how in (
        ("square", {"label": 2}),
        (" BOX", {"label": 2}),
        ("star", {"label": 3, "guidance": 2.5}),
    ):
        expected = law(model, 4, **how)
        given = {"class_name": name, "guidance": how.get("guidance"), "seed": 7}
        images = model.sample(4, **given)
        np.testing.assert_array_equal(images.array, expected)
        np.testing.assert_array_equal([*model.stream(4, **given)][-1].array, expected)
        assert images.evidence_bits is None
    np.testing.assert_array_equal(
        model.sample(4, class_name="box", guidance=1, seed=7).array, law(model, 4, label=2)
    )


def test_images_of_any_class_are_each_that_of_its_own(model: Model) -> None:
    images = model.sample(12, class_name="any", seed=7)
    assert {*images.classes} == {*model.class_names}
    for index, name in enumerate(images.classes):
        alone = model.sample(12, class_name=name, seed=7)
        assert alone.classes == (name,) * 12
        np.testing.assert_array_equal(images.array[index], alone.array[index])
    np.testing.assert_array_equal(
        [*model.stream(12, class_name="any", seed=7)][-1].array, images.array
    )
    assert model.sample(2, seed=7).classes == ()


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ({}, {"particles": 16}),  # where a known byte follows a hidden one
        ({"particles": 1}, {}),
        ({"class_name": "star", "particles": 8}, {"label": 3, "particles": 8}),
        ({"class_name": "star", "guidance": 2.5}, {"label": 3, "guidance": 2.5}),
    ],
    ids=str,
)
def test_completions_and_streams_are_of_the_class_the_guidance_and_the_particles_that_are_named(
    model: Model, picture: np.ndarray, given: dict[str, Any], how: dict[str, Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    found = model.complete(picture, mask=HOLE, n=3, seed=7, **given)
    expected = paint(model.network, 3, seed=7, known=picture, mask=HOLE, **how)
    np.testing.assert_array_equal(found.array, expected.images.reshape(3, 7, 5))
    np.testing.assert_array_equal(found.evidence_bits, expected.evidence_bits)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.effective_particles, expected.effective_particles)  # type: ignore[arg-type]
    assert (found.array[:, HOLE] == picture[HOLE]).all()
    steps = [*model.stream(3, image=picture, mask=HOLE, seed=7, **given)]
    assert len(steps) > 1
    np.testing.assert_array_equal(steps[-1].array, found.array)
    for step in steps:
        for image, whole, painted in zip(step.array, found.array, step.painted, strict=True):
            np.testing.assert_array_equal(image.reshape(-1)[:painted], whole.reshape(-1)[:painted])
            assert not image.reshape(-1)[painted:].any()


def test_where_nothing_known_follows_known_pixels_cost_their_own_bits(
    model: Model, picture: np.ndarray
) -> None:
    known = model.score(picture, per_pixel=True)[0, :3].sum()
    estimate = model.score_known(picture, keep_rows=3, repeats=2)
    assert (estimate.bits, estimate.standard_error, estimate.known_bytes) == (
        pytest.approx(known, rel=1e-6),
        0.0,
        15,
    )


def test_known_pixels_are_cleaned_where_the_call_says_so(tmp_path: Path) -> None:
    model = scanline.load(shapes.evaluate(shapes.save(tmp_path / "shapes")), device="cpu")
    noisy = np.full((7, 5), 3, np.uint8)
    noisy[2:4] = 252
    cleaned = np.where(noisy > 9, 254, 0).astype(np.uint8)
    for picture, clean, kept in ((noisy, "auto", cleaned), (noisy, "off", noisy)):
        step = [*model.stream(1, image=picture, keep_rows=4, seed=1, clean=clean)][-1]  # type: ignore[arg-type]
        np.testing.assert_array_equal(step.array[0, :4], kept[:4])
        known = model.score_known(picture, keep_rows=4, repeats=2, seed=1, clean=clean)  # type: ignore[arg-type]
        assert known == model.score_known(kept, keep_rows=4, repeats=2, seed=1)


def test_scores_and_classifications_have_the_bits_that_painting_counted(
    model: Model, picture: np.ndarray
) -> None:
    for column, name in enumerate(model.class_names):
        images = model.sample(3, class_name=name, seed=1)
        bits = model.score(images.array, class_name=name)
        np.testing.assert_allclose(bits, images.bits_per_dim, rtol=1e-6)
        assert (np.abs(bits - model.score(images.array)) > 1e-3).any()
        np.testing.assert_allclose(
            model.classify(images.array).bits[:, column], bits * 35, rtol=1e-6
        )
    assert model.classify(picture).class_names == model.class_names


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Model:
    config = small_models.config(
        height=7, width=5, layers=1, predicts="categorical", classes=(("7",), ("2",))
    )
    return scanline.load(
        shapes.save(tmp_path_factory.mktemp("models") / "digits", config), device="cpu"
    )


SEVEN_AND_TWO: list[Any] = [
    [7, 2],
    (7.0, np.float32(2)),
    np.array([7, 2], np.uint8),
    np.array(["7", "2"]),
    torch.tensor([7, 2]),
    [torch.tensor(7.0), np.str_("2")],
]


@pytest.mark.parametrize("row", SEVEN_AND_TWO, ids=repr)
def test_labels_as_data_sets_have_them_are_classes_and_their_numbers_are_numbers(
    digits: Model, row: Any
) -> None:
    expected = digits.sample(class_name=["7", "2"], seed=3).array
    np.testing.assert_array_equal(digits.sample(class_name=row, seed=np.int64(3)).array, expected)
    np.testing.assert_array_equal(
        digits.sample(np.int64(1), class_name=row[0], seed=3.0).array, expected[:1]
    )
    assert digits.compress(expected, class_name=row) == digits.compress(
        expected, class_name=["7", "2"]
    )
    np.testing.assert_array_equal(
        digits.score(expected, class_name=row[0]), digits.score(expected, class_name="7")
    )
    plain = {"keep_rows": 1, "particles": 2, "temperature": 0.5}
    numbers = {
        "keep_rows": np.uint8(1),
        "particles": torch.tensor(2),
        "temperature": np.float32(0.5),
    }
    one, other = (
        digits.complete(expected[0], seed=3, class_name=name, **how).array
        for name, how in (("7", plain), (row[0], numbers))
    )
    np.testing.assert_array_equal(one, other)


NO_NUMBERS = ["1", True, np.bool_(True), [1], np.array([1, 2]), float("nan"), 1j, b"1", {}]
WHOLE: dict[str, Callable[[Model, Any], object]] = {
    "n": lambda model, value: model.sample(value),
    "seed": lambda model, value: model.sample(seed=value),
    "particles": lambda model, value: model.complete(
        model.sample().array[0], keep_rows=1, particles=value
    ),
    "keep_rows": lambda model, value: model.complete(model.sample().array[0], keep_rows=value),
    "repeats": lambda model, value: model.score_known(
        model.sample().array[0], keep_rows=1, repeats=value
    ),
    "images_a_code": lambda model, value: model.compress(model.sample().array, images_a_code=value),
    "images": lambda model, value: model.decompress(
        model.compress(model.sample().array), images=[value]
    ),
    "threads": lambda model, value: scanline.load(device="cpu", threads=value),
    "frames": lambda model, value: model.sample().save("film.gif", frames=value),
    "scale": lambda model, value: model.sample().save("sheet.png", scale=value),
}
OTHERS: dict[str, Callable[[Model, Any], object]] = {
    "temperature": lambda model, value: model.sample(temperature=value),
    "guidance": lambda model, value: model.sample(class_name="7", guidance=value),
    "seconds": lambda model, value: model.sample().save("film.gif", seconds=value),
}
NO_CLASSES = [True, 7.5, b"7", {7}, {}, 1j, np.array([[7]]), [["7"]], [b"7"], object()]


@pytest.mark.parametrize("name", [*WHOLE, *OTHERS, "class"])
def test_what_is_no_number_or_no_class_is_refused_in_one_sentence(digits: Model, name: str) -> None:
    call = {**WHOLE, **OTHERS, "class": lambda model, value: model.sample(class_name=value)}[name]
    for value in (
        NO_CLASSES
        if name == "class"
        else [*NO_NUMBERS, float("inf"), *([1.5] if name in WHOLE else [])]
    ):
        with pytest.raises(InvalidInput, match=f"^{name} must be ") as refused:
            call(digits, value)
        assert refused.value.param == name


def test_only_bytes_can_be_decompressed(digits: Model) -> None:
    data = digits.compress(digits.sample(3, seed=1).array)
    for given in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert len(digits.decompress(given, images=np.array([2, 0]))) == 2
    for wrong in ("file.scan", 5, [1]):
        assert_says(f"data must be bytes, not {type(wrong).__name__}.", digits.decompress, wrong)


MODELS = {
    "histogram": {**small_models.VARIANTS["histogram"], "channels": 3},
    "strokes": {**small_models.VARIANTS["strokes"], **small_models.CLASSES},
    "pixels": {**small_models.VARIANTS["pixels"], **small_models.CLASSES},
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
        data = model.compress(
            images, images_a_code=number, progress=lambda *each: done.append(each)
        )
        assert done[-1] == (images.size, images.size)
        codes = read(data).codes
        sizes = [8 * len(code) for code in codes.codes]
        groups = [bits[first : first + codes.length].sum() for first in range(0, 12, codes.length)]
        assert all(-8.5 < size - cost < 12 for size, cost in zip(sizes, groups, strict=True))
        np.testing.assert_array_equal(
            model.decompress(data, progress=lambda *each: done.append(each)), images
        )
        assert done[-1] == (images.size, images.size)
        np.testing.assert_array_equal(model.decompress(data, images=[11, 4, 4]), images[[11, 4, 4]])


@pytest.mark.parametrize("name", zoo.names())
def test_a_shipped_model_compresses_what_it_paints(name: str) -> None:
    model = scanline.load(name, device="cpu")
    images = model.sample(2, seed=7, class_name="none")
    data = model.compress(images.array)
    assert 8 * len(read(data).codes.codes[0]) == pytest.approx(
        images.bits_per_dim.sum() * model.config.bytes, abs=12
    )
    np.testing.assert_array_equal(model.decompress(data), images.array)


def test_an_image_is_encoded_under_its_class_where_that_is_shorter(
    models: dict[str, Model],
) -> None:
    model = models["pixels"]
    horses = model.sample(12, seed=3, class_name="horse").array
    others = model.sample(6, seed=4).array
    images = np.concatenate((horses, others))
    plain, horse, shell = (
        model.score(images, class_name=name) * 60 for name in (None, "horse", "shell")
    )
    data = model.compress(images, class_name=["horse"] * 12 + ["shell"] * 5 + [None])
    file = read(data)
    assert file.codes.labelled
    expected = np.minimum(plain, [*horse[:12], *shell[12:17], plain[17]]).sum() + 18 * 2
    assert 8 * len(file.codes.codes[0]) == pytest.approx(expected, abs=12)
    np.testing.assert_array_equal(model.decompress(data), images)
    # Two bits for the label of each are more than what the class saves.
    strokes = models["strokes"]
    assert not read(
        strokes.compress(strokes.sample(4, seed=4).array, class_name="7")
    ).codes.labelled


def test_what_cannot_be_decoded_is_a_sentence(models: dict[str, Model]) -> None:
    model = models["pixels"]
    images = model.sample(3, seed=1).array
    data = model.compress(images, images_a_code=1)
    int8 = scanline.Model(model.network, "", "int8", 1, model.backend)
    for call, sentence in (
        (
            lambda: int8.decompress(data),
            r"^data was encoded at precision exact; this model is loaded at int8\.$",
        ),
        (lambda: model.decompress(data[:-1]), r"^data is cut short: 1 bytes are missing\.$"),
        (
            lambda: models["strokes"].decompress(data),
            "data was encoded by another model or kind of device: its coding",
        ),
        (
            lambda: model.decompress(data, images=[3]),
            "images must be a whole number from 0 to 2, not 3",
        ),
        (
            lambda: model.compress(images, class_name=["7", "7"]),
            "class_name names 2 classes for 3 images",
        ),
        (
            lambda: model.compress(images, images_a_code=0),
            "images_a_code must be a whole number from 1 to 4,096, not",
        ),
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
        with pytest.raises(
            ValueError, match=r"data does not decode to .*: the checksum of images 0 to 2 differs\."
        ):
            model.decompress(bytes(data), images=wanted)
