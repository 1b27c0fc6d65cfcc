"""The Python API with classes: images of a class, likelihoods under it, and which class an image shows."""

from collections.abc import Callable

import numpy as np
import pytest

import scanline
from scanline.model.tasks.offline import paint
from tests.support import shapes
from tests.support.sentences import assert_says


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> "scanline.Model":
    return scanline.load(shapes.save(tmp_path_factory.mktemp("models") / "shapes"), device="cpu")


@pytest.fixture(scope="module")
def picture(model: "scanline.Model") -> np.ndarray:
    return model.sample(1, seed=3).array[0]


def test_samples_of_a_class_are_those_of_its_label(model: "scanline.Model") -> None:
    assert model.class_names == ("circle", "square", "star")
    images = model.sample(4, class_name="square", seed=7)
    law = paint(model.network, 4, seed=7, label=2)
    np.testing.assert_array_equal(images.array, law.images.reshape(4, 7, 5))
    np.testing.assert_array_equal(images.bits_per_dim, law.bits_per_dim)
    assert images.evidence_bits is None
    np.testing.assert_array_equal(model.sample(4, class_name=" BOX", seed=7).array, images.array)
    without, star = model.sample(4, seed=7).array, model.sample(4, class_name="star", seed=7).array
    np.testing.assert_array_equal(without, paint(model.network, 4, seed=7).images.reshape(4, 7, 5))
    assert (images.array != without).any()
    assert (images.array != star).any()


def test_images_of_any_class_are_each_that_of_its_own(model: "scanline.Model") -> None:
    images = model.sample(12, class_name="any", seed=7)
    assert {*images.classes} == {*model.class_names}
    for index, name in enumerate(images.classes):
        alone = model.sample(12, class_name=name, seed=7)
        assert alone.classes == (name,) * 12
        np.testing.assert_array_equal(images.array[index], alone.array[index])
        assert images.bits_per_dim[index] == alone.bits_per_dim[index]
    assert model.sample(5, class_name="any", seed=7).classes == images.classes[:5]
    streamed = [*model.stream(12, class_name="any", seed=7)][-1]
    np.testing.assert_array_equal(streamed.array, images.array)
    assert model.sample(2, seed=7).classes == ()


def test_completions_and_streams_are_of_the_class_that_is_named(model: "scanline.Model", picture: np.ndarray) -> None:
    completed = model.complete(picture, keep_rows=3, n=3, class_name="star", seed=2)
    assert (completed.array[:, :3] == picture[:3]).all()
    np.testing.assert_array_equal(
        completed.array, paint(model.network, 3, seed=2, known=picture, mask=rows(3), label=3).images.reshape(3, 7, 5)
    )
    streamed = [*model.stream(3, image=picture, keep_rows=3, class_name="star", seed=2)][-1]
    np.testing.assert_array_equal(streamed.array, completed.array)
    streamed = [*model.stream(2, class_name="star", seed=5)][-1]
    np.testing.assert_array_equal(streamed.array, model.sample(2, class_name="star", seed=5).array)


def test_scores_under_a_class_are_the_bits_that_painting_counted(model: "scanline.Model") -> None:
    images = model.sample(3, class_name="circle", seed=9)
    bits = model.score(images.array, class_name="disc")
    np.testing.assert_allclose(bits, images.bits_per_dim, rtol=1e-6)
    assert (np.abs(bits - model.score(images.array)) > 1e-3).all()
    per_pixel = model.score(images.array, class_name="circle", per_pixel=True)
    np.testing.assert_allclose(per_pixel.mean(axis=(1, 2)), bits, rtol=1e-6)


def test_a_classification_has_the_bits_of_scores_under_each_class(model: "scanline.Model", picture: np.ndarray) -> None:
    images = np.concatenate([model.sample(3, class_name=name, seed=1).array for name in model.class_names])
    found = model.classify(images)
    assert found.class_names == model.class_names
    for column, name in enumerate(model.class_names):
        np.testing.assert_allclose(found.bits[:, column], model.score(images, class_name=name) * 35, rtol=1e-6)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0)
    assert [model.class_names[k] for k in found.posterior.argmax(axis=1)] == [*found.best]
    assert model.classify(picture).bits.shape == (1, 3)


WRONG: dict[str, tuple[Callable[["scanline.Model", np.ndarray], object], str]] = {
    "unknown": (
        lambda m, p: m.sample(1, class_name="cat"),
        "class must be one of circle, square, star, not 'cat'.",
    ),
    "unknown, of a completion": (
        lambda m, p: m.complete(p, keep_rows=2, class_name=""),
        "class must be one of circle, square, star, not ''.",
    ),
    "any, of a completion": (
        lambda m, p: m.complete(p, keep_rows=2, class_name="any"),
        'class "any" is for images that are painted from nothing; leave class out.',
    ),
    "any, of a stream of completions": (
        lambda m, p: next(m.stream(image=p, keep_rows=2, class_name="any")),
        'class "any" is for images that are painted from nothing; leave class out.',
    ),
    "any, of a score": (
        lambda m, p: m.score(p, class_name="any"),
        'class "any" is for images that are painted from nothing; leave class out.',
    ),
    "images of another shape": (lambda m, p: m.classify(p[:3]), "images must be uint8 [n, 7, 5], not uint8 [3, 5]."),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_a_value_error_with_one_sentence(
    model: "scanline.Model", picture: np.ndarray, what: str
) -> None:
    call, sentence = WRONG[what]
    assert_says(sentence, call, model, picture)


def rows(kept: int) -> np.ndarray:
    """A mask [35] that keeps the first rows."""
    return np.arange(35) < 5 * kept
