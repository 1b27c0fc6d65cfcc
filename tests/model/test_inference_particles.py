"""The Python API with particles: completions that fit what is known on both sides, and what the known pixels cost."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import scanline
from scanline.model.tasks.offline import paint
from tests.support import shapes
from tests.support.sentences import assert_says

HOLE = np.ones((7, 5), np.bool_)
HOLE[2:4, 1:4] = False


@pytest.fixture(scope="module")
def model(grey_directory: Path) -> "scanline.Model":
    return scanline.load(grey_directory, device="cpu")


@pytest.fixture(scope="module")
def picture(model: "scanline.Model") -> np.ndarray:
    return model.sample(1, seed=3).array[0]


def test_one_particle_is_a_completion_that_knows_only_what_comes_before(
    model: "scanline.Model", picture: np.ndarray
) -> None:
    found = model.complete(picture, mask=HOLE, n=3, seed=2, particles=1)
    law = paint(model.network, 3, seed=2, known=picture, mask=HOLE)
    np.testing.assert_array_equal(found.array, law.images.reshape(3, 7, 5))
    assert found.effective_particles is not None
    np.testing.assert_array_equal(found.effective_particles, np.ones(3))


def test_sixteen_particles_are_run_where_a_known_byte_follows_a_hidden_one(
    model: "scanline.Model", picture: np.ndarray
) -> None:
    found = model.complete(picture, mask=HOLE, n=3, seed=2)
    sixteen = model.complete(picture, mask=HOLE, n=3, seed=2, particles=16)
    np.testing.assert_array_equal(found.array, sixteen.array)
    np.testing.assert_array_equal(found.evidence_bits, sixteen.evidence_bits)
    assert (found.array[:, HOLE] == picture[HOLE]).all()
    assert found.effective_particles is not None
    assert ((found.effective_particles >= 1) & (found.effective_particles < 16)).all()
    assert (found.array != model.complete(picture, mask=HOLE, n=3, seed=2, particles=1).array).any()


def test_where_nothing_known_follows_one_particle_is_run_and_the_evidence_is_exact(
    model: "scanline.Model", picture: np.ndarray
) -> None:
    found = model.complete(picture, keep_rows=3, n=2, seed=2)
    np.testing.assert_array_equal(found.array, model.complete(picture, keep_rows=3, n=2, seed=2, particles=1).array)
    known = model.score(picture, per_pixel=True)[0, :3].sum()
    assert found.evidence_bits == pytest.approx(known, rel=1e-6)
    estimate = model.score_known(picture, keep_rows=3, repeats=2)
    assert (estimate.bits, estimate.standard_error) == (pytest.approx(known, rel=1e-6), 0.0)
    assert estimate.known_bytes == 15
    assert estimate.bits_per_dim == pytest.approx(known / 15, rel=1e-6)


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


def test_a_stream_of_completions_ends_with_what_is_painted_at_once(
    model: "scanline.Model", picture: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    steps = list(model.stream(2, image=picture, mask=HOLE, particles=8, seed=4))
    law = model.complete(picture, mask=HOLE, n=2, particles=8, seed=4).array
    np.testing.assert_array_equal(steps[-1].array, law)
    for step in steps:
        for image, whole, painted in zip(step.array, law, step.painted, strict=True):
            np.testing.assert_array_equal(image.reshape(-1)[:painted], whole.reshape(-1)[:painted])


def test_the_cost_of_known_pixels_is_their_share_of_the_joint_probability(
    model: "scanline.Model", picture: np.ndarray
) -> None:
    """With one hidden byte, p(known) is the sum over its 256 values."""
    mask = np.ones((7, 5), np.bool_)
    mask[3, 2] = False
    every = np.repeat(picture[None], 256, axis=0)
    every[:, 3, 2] = np.arange(256)
    law = -np.log2(np.exp2(-model.score(every, per_pixel=True).sum(axis=(1, 2))).sum())
    found = model.score_known(picture, mask=mask, particles=64, repeats=32, seed=1)
    assert found.known_bytes == 34
    assert found.standard_error < 0.5
    assert found.bits == pytest.approx(law, abs=5 * found.standard_error)
    assert found == model.score_known(picture, mask=mask, particles=64, repeats=32, seed=1)


WRONG: dict[str, tuple[Callable[["scanline.Model", np.ndarray], object], str]] = {
    "no particles": (
        lambda m, p: m.complete(p, mask=HOLE, particles=0),
        "particles must be a whole number from 1 to 64, not 0.",
    ),
    "too many particles": (
        lambda m, p: m.complete(p, mask=HOLE, particles=65),
        "particles must be a whole number from 1 to 64, not 65.",
    ),
    "half a particle": (
        lambda m, p: m.score_known(p, mask=HOLE, particles=2.5),
        "particles must be a whole number from 1 to 64, not 2.5.",
    ),
    "text": (
        lambda m, p: m.complete(p, mask=HOLE, particles="many"),
        "particles must be a whole number from 1 to 64, not 'many'.",
    ),
    "particles of a sample": (
        lambda m, p: next(m.stream(1, particles=4)),
        "particles are for completions; give an image, or leave particles out.",
    ),
    "one repeat": (
        lambda m, p: m.score_known(p, mask=HOLE, repeats=1),
        "repeats must be a whole number from 2 to 256, not 1.",
    ),
    "nothing known": (
        lambda m, p: m.score_known(p, keep_rows=0),
        "keep_rows leaves nothing known, so that there is nothing to measure.",
    ),
    "no mask": (lambda m, p: m.score_known(p), "Give keep_rows or mask."),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_a_value_error_with_one_sentence(
    model: "scanline.Model", picture: np.ndarray, what: str
) -> None:
    call, sentence = WRONG[what]
    assert_says(sentence, call, model, picture)
