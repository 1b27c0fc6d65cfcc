"""The Python API with classes, guidance, particles and codes: each call hands on what it is given,
or refuses it.
"""

from zlib import crc32

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import scanline
from scanline.model import zoo
from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.code_file import MAGIC, read
from scanline.model.inference import Model
from scanline.model.tasks.offline import paint
from tests.support import shapes, small_models
from tests.support.sentences import assert_says

HOLE = np.ones((7, 5), np.bool_)
HOLE[2:4, 1:4] = False
IMAGE = np.zeros((7, 5), np.uint8)


def model_of(**changes):
    network = small_models.model(small_models.config(**changes))
    return Model(network, "", "exact", 1, "cpu")


@pytest.fixture(scope="module")
def model():
    return Model(small_models.model(shapes.GUIDED), "", "exact", 1, "cpu")


@pytest.fixture(scope="module")
def picture(model):
    return model.sample(1, seed=3).array[0]


def last(model, *given, **how):
    return [*model.stream(*given, **how)][-1].array


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ({}, {}),
        ({"class_name": "square"}, {"label": 2}),
        ({"class_name": " BOX", "guidance": 1}, {"label": 2}),
        ({"class_name": "star", "guidance": 2.5}, {"label": 3, "guidance": 2.5}),
    ],
    ids=str,
)
def test_samples_and_streams_are_of_the_class_and_the_guidance_that_are_named(model, given, how):
    expected = paint(model.network, 4, seed=7, **how).images.reshape(4, 7, 5)
    images = model.sample(4, seed=7, **given)
    assert_array_equal(images.array, expected)
    assert_array_equal(last(model, 4, seed=7, **given), expected)
    assert images.evidence_bits is None


def test_images_of_any_class_are_each_that_of_its_own(model):
    images = model.sample(12, class_name="any", seed=7)
    assert {*images.classes} == {*model.class_names} == {"circle", "square", "star"}
    for index, name in enumerate(images.classes):
        alone = model.sample(12, class_name=name, seed=7)
        assert alone.classes == (name,) * 12
        assert_array_equal(images.array[index], alone.array[index])
    assert_array_equal(last(model, 12, class_name="any", seed=7), images.array)
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
    model, picture, given, how, monkeypatch
):
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    found = model.complete(picture, mask=HOLE, n=3, seed=7, **given)
    expected = paint(
        model.network,
        3,
        seed=7,
        known=picture,
        mask=HOLE,
        **how,
    )
    assert_array_equal(found.array, expected.images.reshape(3, 7, 5))
    assert_array_equal(found.evidence_bits, expected.evidence_bits)
    assert_array_equal(found.effective_particles, expected.effective_particles)
    assert (found.array[:, HOLE] == picture[HOLE]).all()
    steps = [*model.stream(3, image=picture, mask=HOLE, seed=7, **given)]
    assert len(steps) > 1
    assert_array_equal(steps[-1].array, found.array)
    for step in steps:
        is_painted = np.arange(35) < step.painted[:, None]
        assert_array_equal(
            step.array.reshape(3, 35), np.where(is_painted, found.array.reshape(3, 35), 0)
        )


def test_where_nothing_known_follows_known_pixels_cost_their_own_bits(model, picture):
    known = model.score(picture, per_pixel=True)[0, :3].sum()
    estimate = model.score_known(picture, keep_rows=3, repeats=2)
    assert estimate.bits == pytest.approx(known, rel=1e-6)
    assert estimate.standard_error == 0
    assert estimate.known_bytes == 15


def test_known_pixels_are_cleaned_where_the_call_says_so(tmp_path):
    model = scanline.load(shapes.evaluate(shapes.save(tmp_path / "shapes")), device="cpu")
    noisy = np.full((7, 5), 3, np.uint8)
    noisy[2:4] = 252
    cleaned = np.where(noisy > 9, 254, 0).astype(np.uint8)
    for clean, kept in (("auto", cleaned), ("off", noisy)):
        streamed = last(
            model,
            1,
            image=noisy,
            keep_rows=4,
            seed=1,
            clean=clean,
        )
        assert_array_equal(streamed[0, :4], kept[:4])
        known = model.score_known(noisy, keep_rows=4, repeats=2, seed=1, clean=clean)
        assert known == model.score_known(kept, keep_rows=4, repeats=2, seed=1)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (0, "circle"),
        (1, "square"),
        (2, "star"),
    ],
)
def test_scores_and_classifications_have_the_bits_that_painting_counted(model, column, name):
    images = model.sample(3, class_name=name, seed=1)
    bits = model.score(images.array, class_name=name)
    assert_allclose(bits, images.bits_per_dim, rtol=1e-6)
    by_class = model.classify(images.array).bits
    assert_allclose(by_class[:, column], bits * 35, rtol=1e-6)
    assert (np.abs(bits - model.score(images.array)) > 1e-3).any()


@pytest.fixture(scope="module")
def digits():
    classes = (("7",), ("2",))
    return model_of(height=7, width=5, layers=1, predicts="categorical", classes=classes)


@pytest.mark.parametrize(
    "labels",
    [
        [7, 2],
        (7.0, np.float32(2)),
        np.array([7, 2], np.uint8),
        np.array(["7", "2"]),
        torch.tensor([7, 2]),
        [torch.tensor(7.0), np.str_("2")],
    ],
    ids=repr,
)
def test_labels_as_data_sets_have_them_are_classes(digits, labels):
    expected = digits.sample(class_name=["7", "2"], seed=3).array
    assert_array_equal(digits.sample(class_name=labels, seed=3).array, expected)
    data = digits.compress(expected, class_name=labels)
    assert data == digits.compress(expected, class_name=["7", "2"])
    assert_array_equal(
        digits.score(expected, class_name=labels[0]),
        digits.score(expected, class_name="7"),
    )


def test_numbers_of_numpy_and_torch_are_numbers(digits):
    plain = digits.complete(
        IMAGE,
        n=2,
        keep_rows=1,
        particles=2,
        temperature=0.5,
        seed=3,
    )
    found = digits.complete(
        IMAGE,
        n=np.int64(2),
        keep_rows=np.uint8(1),
        particles=torch.tensor(2),
        temperature=np.float32(0.5),
        seed=3.0,
    )
    assert_array_equal(found.array, plain.array)


WHOLE = {
    "n": lambda model, value: model.sample(value),
    "seed": lambda model, value: model.sample(seed=value),
    "particles": lambda model, value: model.complete(IMAGE, keep_rows=1, particles=value),
    "keep_rows": lambda model, value: model.complete(IMAGE, keep_rows=value),
    "repeats": lambda model, value: model.score_known(IMAGE, keep_rows=1, repeats=value),
    "images_a_code": lambda model, value: model.compress(IMAGE, images_a_code=value),
    "images": lambda model, value: model.decompress(model.compress(IMAGE), images=[value]),
    "threads": lambda model, value: scanline.load(device="cpu", threads=value),
    "frames": lambda model, value: model.sample().save("film.gif", frames=value),
    "scale": lambda model, value: model.sample().save("sheet.png", scale=value),
}
OTHERS = {
    "temperature": lambda model, value: model.sample(temperature=value),
    "guidance": lambda model, value: model.sample(class_name="7", guidance=value),
    "seconds": lambda model, value: model.sample().save("film.gif", seconds=value),
}
NO_NUMBERS = [
    "1",
    True,
    np.bool_(True),
    [1],
    np.array([1, 2]),
    np.nan,
    np.inf,
    1j,
    b"1",
    {},
]
NO_CLASSES = [
    True,
    7.5,
    b"7",
    {7},
    {},
    1j,
    np.array([[7]]),
    [["7"]],
    [b"7"],
    object(),
]


def refused(name, call, *given):
    with pytest.raises(InvalidInput, match=f"^{name} must be ") as caught:
        call(*given)
    assert caught.value.param == name


@pytest.mark.parametrize("name", [*WHOLE, *OTHERS])
def test_what_is_no_number_is_refused_in_one_sentence(digits, name):
    for value in NO_NUMBERS:
        refused(name, (WHOLE | OTHERS)[name], digits, value)


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_no_whole_number_is_refused_in_one_sentence(digits, name):
    refused(name, WHOLE[name], digits, 1.5)


@pytest.mark.parametrize("value", NO_CLASSES)
def test_what_is_no_class_is_refused_in_one_sentence(digits, value):
    refused("class", lambda: digits.sample(class_name=value))


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: np.frombuffer(data, "u1")])
def test_bytes_of_any_kind_are_decompressed(digits, kind):
    images = digits.sample(3, seed=1).array
    found = digits.decompress(kind(digits.compress(images)), images=np.array([2, 0]))
    assert_array_equal(found, images[[2, 0]])


@pytest.mark.parametrize("wrong", ["file.scan", 5, [1]])
def test_what_is_not_bytes_cannot_be_decompressed(digits, wrong):
    assert_says(f"data must be bytes, not {type(wrong).__name__}.", digits.decompress, wrong)


@pytest.fixture(scope="module")
def models():
    variants = small_models.VARIANTS
    return {
        "histogram": model_of(**variants["histogram"], channels=3),
        "strokes": model_of(**variants["strokes"], **small_models.CLASSES),
        "pixels": model_of(**variants["pixels"], **small_models.CLASSES),
    }


@pytest.mark.parametrize("images_a_code", [1, 7])
@pytest.mark.parametrize("name", ["histogram", "strokes", "pixels"])
def test_images_come_back_at_the_bits_of_their_score(models, name, images_a_code):
    model = models[name]
    images = model.sample(12, seed=3).array
    bits = model.score(images) * model.config.bytes
    done = []
    data = model.compress(
        images, images_a_code=images_a_code, progress=lambda *now: done.append(now)
    )
    assert done[-1] == (images.size, images.size)
    codes = read(data).codes
    for number, code in enumerate(codes.codes):
        first = number * codes.length
        cost = bits[first : first + codes.length].sum()
        assert -8.5 < 8 * len(code) - cost < 12
    assert_array_equal(model.decompress(data, progress=lambda *now: done.append(now)), images)
    assert done[-1] == (images.size, images.size)
    assert_array_equal(model.decompress(data, images=[11, 4, 4]), images[[11, 4, 4]])


@pytest.mark.parametrize("name", zoo.names())
def test_a_shipped_model_compresses_what_it_paints(name):
    model = scanline.load(name, device="cpu")
    images = model.sample(2, seed=7, class_name="none")
    data = model.compress(images.array)
    bits = images.bits_per_dim.sum() * model.config.bytes
    assert 8 * len(read(data).codes.codes[0]) == pytest.approx(bits, abs=12)
    assert_array_equal(model.decompress(data), images.array)


def test_an_image_is_encoded_under_its_class_where_that_is_shorter(
    models,
):
    model = models["pixels"]
    horses = model.sample(12, seed=3, class_name="horse").array
    others = model.sample(6, seed=4).array
    images = np.concatenate((horses, others))
    data = model.compress(images, class_name=["horse"] * 12 + ["shell"] * 6)
    codes = read(data).codes
    assert codes.labelled
    of_class = [model.score(horses, class_name="horse"), model.score(others, class_name="shell")]
    shorter = np.minimum(model.score(images), np.concatenate(of_class))
    expected = shorter.sum() * 60 + 18 * 2
    assert 8 * len(codes.codes[0]) == pytest.approx(expected, abs=12)
    assert_array_equal(model.decompress(data), images)


def test_no_class_is_encoded_where_labels_cost_more_than_it_saves(models):
    model = models["strokes"]
    data = model.compress(model.sample(4, seed=4).array, class_name="7")
    assert not read(data).codes.labelled


def test_what_cannot_be_decoded_is_a_sentence(models):
    model = models["pixels"]
    images = model.sample(3, seed=1).array
    data = model.compress(images, images_a_code=1)
    int8 = Model(model.network, "", "int8", 1, model.backend)
    with pytest.raises(ValueError, match=r"^data was encoded at precision exact; this model is"):
        int8.decompress(data)
    with pytest.raises(ValueError, match=r"^data is cut short: 1 bytes are missing\.$"):
        model.decompress(data[:-1])
    with pytest.raises(ValueError, match="data was encoded by another model or kind of device"):
        models["strokes"].decompress(data)
    with pytest.raises(ValueError, match="images must be a whole number from 0 to 2, not 3"):
        model.decompress(data, images=[3])
    with pytest.raises(ValueError, match="class_name names 2 classes for 3 images"):
        model.compress(images, class_name=["7", "7"])


@pytest.mark.parametrize("wanted", [None, [2]])
def test_an_image_that_is_not_what_was_encoded_never_leaves(models, wanted):
    model = models["pixels"]
    data = bytearray(model.compress(model.sample(3, seed=1).array, images_a_code=1))
    data[-9] ^= 1
    start = len(MAGIC) + 1 + (1 if data[len(MAGIC) + 1] < 128 else 2)
    data[start : start + 4] = crc32(data[start + 4 :]).to_bytes(4, "little")
    sentence = r"data does not decode to .*: the checksum of images 0 to 2 differs\."
    with pytest.raises(ValueError, match=sentence):
        model.decompress(bytes(data), images=wanted)
