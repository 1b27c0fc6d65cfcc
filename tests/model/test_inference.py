"""The Python API: the bytes of offline painting, arrays in the image's
own shape, one sentence for errors.
"""

import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

import scanline
from scanline.model.images.given_images import read_completion, read_images
from scanline.model.inference import Model
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.pictures import decode


@pytest.fixture(scope="module")
def grey_model(grey_directory):
    return scanline.load(grey_directory, device="cpu")


@pytest.fixture(scope="module")
def colour_model(colour_directory):
    return scanline.load(colour_directory, device="cpu")


@pytest.fixture(scope="module")
def pixel_model():
    """4 x 5 pixels, each of three bytes and painted in one step."""
    return Model(small_models.model_of("waves of pixels"), "", "exact", 1, "cpu")


@pytest.fixture(scope="module")
def picture(grey_model):
    return grey_model.sample(1, seed=3).array[0]


def test_samples_are_those_of_painting_and_of_a_drawn_seed(grey_model, grey):
    images = grey_model.sample(5, seed=7, temperature=0.8)
    expected = paint(grey, 5, seed=7, temperature=0.8)
    assert_array_equal(images.array, expected.images.reshape(5, 7, 5))
    assert_array_equal(images.bits_per_dim, expected.bits_per_dim)
    assert (len(images), images.seed) == (5, 7)
    drawn = grey_model.sample(2)
    assert_array_equal(grey_model.sample(2, seed=drawn.seed).array, drawn.array)


def test_images_are_a_sequence_and_an_array_and_a_picture(grey_model, tmp_path):
    images = grey_model.sample(2, seed=7)
    assert_array_equal(np.asarray(images), images.array)
    assert_array_equal(np.stack(list(images)), images.array)
    assert_array_equal(images[1], images.array[1])
    images.save(tmp_path / "sheet.png")
    assert_array_equal(
        decode(images._repr_png_()), np.hstack(images.array).repeat(8, 0).repeat(8, 1)
    )
    assert repr(images) == f"<Images: 2 of 5x7, seed 7, {images.bits_per_dim.mean():.3f} bits/dim>"
    images.save(tmp_path / "images")
    files = sorted((tmp_path / "images").iterdir())
    assert_array_equal(grey_model.score(files), grey_model.score(images.array))
    assert_array_equal(grey_model.score(files[0]), grey_model.score(images[0]))
    first = grey_model.complete(images[:1], keep_rows=3, seed=1)
    assert_array_equal(first, grey_model.complete(images[0], keep_rows=3, seed=1))


def _tensor(array):
    """As torchvision has pictures: channels first, float32, divided by 255."""
    size = array.shape[-3:] if array.shape[-1] == 3 else (*array.shape[-2:], 1)
    many = array.reshape(-1, *size)
    return torch.from_numpy(np.moveaxis(many, -1, 1).copy()).float() / 255


SPELLINGS = {
    "a list of arrays": list,
    "lists": lambda array: array.tolist(),
    "flat": lambda array: array.reshape(len(array), -1),
    "channels last": lambda array: array.reshape(*array.shape[:3], -1),
    "wide numbers": lambda array: array.astype(np.int64),
    "tensors of torchvision": _tensor,
    "half a tensor": lambda array: _tensor(array).half(),
    "a tensor of bytes": lambda array: torch.from_numpy(array),
    "pictures of Pillow": lambda array: [Image.fromarray(each) for each in array],
    "a list of tensors": lambda array: list(_tensor(array)),
}


@pytest.mark.parametrize("what", SPELLINGS)
def test_images_are_the_same_however_they_are_given(grey_model, colour_model, what):
    for model in (grey_model, colour_model):
        images = np.random.default_rng(0).integers(0, 256, (3, *model.config.image_shape), np.uint8)
        given = SPELLINGS[what](images)
        assert_array_equal(read_images(given, model.config), images)
        assert_array_equal(read_images(given[0], model.config), images[:1])
        assert_array_equal(
            read_completion(given[1], 1, None, model.config)[0], images[1].reshape(-1)
        )


def test_alpha_is_a_mask_and_masks_may_be_pictures_and_tensors(grey_model, picture):
    config = grey_model.config
    kept = np.arange(35).reshape(7, 5) % 3 > 0
    alpha = np.where(kept, 255, 0).astype(np.uint8)
    for image, mask in (
        (Image.fromarray(np.dstack((picture, alpha))), None),
        (picture, Image.fromarray(alpha)),
        (picture, torch.from_numpy(kept)[None]),
        *((picture, alpha.astype(kind)) for kind in (np.uint8, np.int64)),
    ):
        known, found = read_completion(image, None, mask, config)
        assert_array_equal(found, kept.reshape(-1))
        assert_array_equal(known[found], picture[kept])


@pytest.mark.parametrize("backend", ["cpu", "eager"])
def test_progress_is_reported_in_bytes_and_changes_nothing(grey_directory, backend):
    model = scanline.load(grey_directory, device="cpu", backend=backend)
    reported = []

    def progress(done, total):
        reported.append((done, total))

    images = model.sample(3, seed=1, progress=progress)
    assert reported[-1] == (105, 105)
    assert_array_equal(model.score(images, progress=progress), model.score(images))
    assert reported[-1] == (105, 105)
    model.score_known(
        images[0],
        keep_rows=3,
        repeats=2,
        seed=1,
        progress=progress,
    )
    assert reported[-1] == (70, 70)


def test_at_the_least_temperature_only_the_likeliest_bytes_are_painted(grey_model):
    first, second = grey_model.sample(2, seed=1, temperature=1e-6).array
    assert_array_equal(first, second)
    assert repr(grey_model).startswith("<Model grey: 5x7 grey, ")


def test_the_backend_that_is_asked_for_paints_and_streams(grey_directory, grey):
    model = scanline.load(grey_directory, device="cpu", backend="eager")
    assert model.backend == "eager"
    expected = paint(grey, 2, seed=7, options={"backend": "eager"})
    assert_array_equal(model.sample(2, seed=7).bits_per_dim, expected.bits_per_dim)
    assert_array_equal([*model.stream(2, seed=7)][-1].array, expected.images.reshape(2, 7, 5))


@pytest.mark.parametrize("name", ["grey_model", "pixel_model"])
def test_scores_are_the_bits_that_painting_counted(name, request):
    model = request.getfixturevalue(name)
    images = model.sample(3, seed=9)
    assert_allclose(model.score(images.array), images.bits_per_dim, rtol=1e-5)
    assert_allclose(
        model.score(images.array[1]),
        images.bits_per_dim[1:2],
        rtol=1e-5,
    )
    bits = model.score(images.array, per_pixel=True)
    assert bits.shape == images.array.shape
    assert_allclose(
        bits.reshape(3, -1).mean(axis=1),
        images.bits_per_dim,
        rtol=1e-5,
    )


@pytest.mark.parametrize("name", ["digits.png", "digits.webp", "digits.npy", "digits"])
def test_images_are_saved_in_the_form_of_the_name(grey_model, tmp_path, name):
    images = grey_model.sample(4, seed=1)
    images.save(tmp_path / name)
    if name.endswith(".npy"):
        assert_array_equal(np.load(tmp_path / name), images.array)
    elif name == "digits":
        found = [np.asarray(Image.open(path)) for path in sorted((tmp_path / name).iterdir())]
        assert_array_equal(found, images.array)
    else:
        rows = [np.hstack(images.array[:2]), np.hstack(images.array[2:])]
        assert_array_equal(np.asarray(Image.open(tmp_path / name).convert("L")), np.vstack(rows))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "white"),
        ("device", "tpu"),
        ("precision", "float8"),
        ("backend", "gpu"),
    ],
)
def test_a_model_that_is_not_to_be_had_is_a_value_error(name, value):
    with pytest.raises(ValueError, match=value):
        scanline.load(**{name: value})


def test_importing_it_needs_no_torch():
    code = "import scanline, sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
