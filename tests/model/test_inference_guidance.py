"""The Python API with guidance: images of a class whose bytes are drawn away from those of images without one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import scanline
from scanline.model.formats.checkpoint import save_model
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.tasks.offline import paint, paint_requests
from tests.support import shapes, small_models
from tests.support.sentences import assert_says

HOLE = np.ones((7, 5), np.bool_)
HOLE[2:4, 1:4] = False


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> "scanline.Model":
    directory = tmp_path_factory.mktemp("models") / "guided"
    save_model(small_models.model(replace(shapes.SHAPES, predicts="categorical")), directory)
    return scanline.load(directory, device="cpu")


@pytest.fixture(scope="module")
def picture(model: "scanline.Model") -> np.ndarray:
    return model.sample(1, seed=3).array[0]


def test_guidance_changes_the_images_of_a_seed_and_one_is_none(model: "scanline.Model") -> None:
    plain = model.sample(4, class_name="square", seed=7)
    np.testing.assert_array_equal(model.sample(4, class_name="square", guidance=1, seed=7).array, plain.array)
    images = {weight: model.sample(4, class_name="square", guidance=weight, seed=7) for weight in (1.5, 3)}
    for weight, found in images.items():
        again = paint(model.network, 4, seed=7, label=2, guidance=weight)
        np.testing.assert_array_equal(found.array, again.images.reshape(4, 7, 5))
        assert (found.array != plain.array).any()
    assert (images[1.5].array != images[3].array).any()


def test_an_image_is_the_same_whatever_is_painted_with_it(model: "scanline.Model", picture: np.ndarray) -> None:
    """Images of other classes, weights and seeds, and those of many particles, are in the batch."""
    known, mask = (picture.tobytes(),), (HOLE.tobytes(),)
    requests = [
        GenerateRequest(0, 3, 7, label=2, guidance=2.0),
        GenerateRequest(1, 2, 7, label=2),
        GenerateRequest(2, 1, 7, label=2, guidance=4.0),
        GenerateRequest(3, 2, 8, 0.7, known, mask, label=3, guidance=1.5),
        GenerateRequest(4, 1, 8, 0.7, known, mask, label=3, particles=8),
        GenerateRequest(5, 4, 7),
    ]
    assert [request.slots for request in requests] == [6, 2, 2, 4, 8, 4]
    together = paint_requests(model.network, requests)
    for request, found in zip(requests, together, strict=True):
        (alone,) = paint_requests(model.network, [request])
        np.testing.assert_array_equal(found.images, alone.images)
        np.testing.assert_array_equal(found.bits_per_dim, alone.bits_per_dim)
    (last,) = paint_requests(model.network, [replace(requests[0], only=(2,))])
    np.testing.assert_array_equal(last.images[0], together[0].images[2])


def test_a_guided_completion_keeps_what_is_known_and_streams_end_with_it(
    model: "scanline.Model", picture: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    for kept in ({"mask": HOLE}, {"keep_rows": 3}):
        found = model.complete(picture, **kept, n=2, class_name="star", guidance=2.5, seed=2)  # type: ignore[arg-type]
        known = HOLE if "mask" in kept else np.arange(35).reshape(7, 5) < 15
        np.testing.assert_array_equal(found.array[:, known], np.stack([picture[known]] * 2))
        plain = model.complete(picture, **kept, n=2, class_name="star", particles=1, seed=2)  # type: ignore[arg-type]
        assert (found.array != plain.array).any()
        steps = [*model.stream(2, image=picture, **kept, class_name="star", guidance=2.5, seed=2)]  # type: ignore[arg-type]
        np.testing.assert_array_equal(steps[-1].array, found.array)
        for step in steps:
            for image, whole, painted in zip(step.array, found.array, step.painted, strict=True):
                np.testing.assert_array_equal(image.reshape(-1)[:painted], whole.reshape(-1)[:painted])
    sampled = [*model.stream(2, class_name="star", guidance=2.5, seed=5)][-1].array
    np.testing.assert_array_equal(sampled, model.sample(2, class_name="star", guidance=2.5, seed=5).array)


WRONG: dict[str, tuple[Callable[["scanline.Model", np.ndarray], object], str]] = {
    "below one": (
        lambda m, p: m.sample(1, class_name="star", guidance=0.99),
        "guidance must be from 1 (none) to 10, not 0.99.",
    ),
    "too much": (
        lambda m, p: m.complete(p, keep_rows=2, class_name="star", guidance=11),
        "guidance must be from 1 (none) to 10, not 11.",
    ),
    "not a number": (
        lambda m, p: next(m.stream(1, class_name="star", guidance=float("nan"))),
        "guidance must be from 1 (none) to 10, not nan.",
    ),
    "no class": (
        lambda m, p: m.sample(1, guidance=2),
        "guidance needs a class, or a prompt that names one.",
    ),
    "particles": (
        lambda m, p: m.complete(p, mask=HOLE, class_name="star", guidance=2, particles=4),
        "guidance and particles cannot be combined; send one of them.",
    ),
    "particles of a stream": (
        lambda m, p: next(m.stream(1, image=p, mask=HOLE, class_name="star", guidance=2, particles=4)),
        "guidance and particles cannot be combined; send one of them.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_a_value_error_with_one_sentence(
    model: "scanline.Model", picture: np.ndarray, what: str
) -> None:
    call, sentence = WRONG[what]
    assert_says(sentence, call, model, picture)
