"""What a report says of samples: fair halves of the test images, copies that are found, the right pictures."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.evaluation import contact_sheets
from scanline.model.evaluation.classifier import Classifier, look
from scanline.model.evaluation.likelihood import bits_of_images
from scanline.model.evaluation.metrics import figures
from scanline.model.evaluation.neighbours import nearest
from scanline.model.evaluation.report import save_report
from scanline.model.evaluation.samples import COMPLETED, COMPLETIONS, NEIGHBOURS, Evidence, gather
from scanline.model.sampling.offline import Painted, paint
from tests.support import small_models

CONFIG = small_models.config(height=6, width=5, layers=1, neighbours=(5,))
COLOUR = small_models.config(height=4, width=4, layers=1, channels=3)
MODEL, CLASSIFIER = small_models.model(CONFIG), Classifier(6, 5, 1)
TRAINING, TEST = small_models.images(CONFIG, 150, seed=1), small_models.images(CONFIG, 131, seed=2)
LABELS = np.zeros(131, np.uint8)


def evidence(samples: int = 60) -> Evidence:
    bits = bits_of_images(MODEL, TEST)
    return gather(MODEL, CLASSIFIER, "mnist", TRAINING, TEST, LABELS, bits, samples, seed=4)


@pytest.fixture(scope="module")
def found() -> Evidence:
    return evidence()


def seen(found: Evidence, images: np.ndarray) -> Evidence:
    """The same report, had the model painted `images`."""
    return replace(
        found,
        painted=Painted(images, found.painted.bits_per_dim[: len(images)]),
        sample_looks=look(CLASSIFIER, images),
        sample_neighbours=nearest(images, found.training, NEIGHBOURS),
    )


@pytest.mark.parametrize("samples", [60, 90])
def test_samples_and_as_many_test_images_stand_before_the_same_others(samples: int) -> None:
    found = evidence(samples)
    assert (len(found.chosen), len(found.others)) == (min(samples, 65), 66)
    assert not set(found.chosen) & set(found.others)
    assert figures(found)["frechet_distance"]["images"] == len(found.chosen)


def test_test_images_for_samples_give_the_figures_of_test_images(found: Evidence) -> None:
    told = figures(seen(found, found.test[found.chosen]))
    distance, near = told["frechet_distance"], told["nearest_training_image"]
    assert distance["samples"] == pytest.approx(distance["test_images"])
    assert near["samples_median"] == near["test_images_median"]
    assert near["samples_close"] == pytest.approx(0.01, abs=0.01)


def test_images_that_were_learnt_by_heart_are_found(found: Evidence) -> None:
    samples = found.painted.images.copy()
    samples[:20] = TRAINING[30:50]
    samples[20:40] = np.clip(TRAINING[50:70].astype(int) + 1, 0, 255)  # nearly copies
    near = figures(seen(found, samples))["nearest_training_image"]
    assert near["copies"] == 20
    assert near["samples_close"] >= 40 / 60
    assert near["samples_least"] == 0
    assert near["close_is_below"] > 1


def test_an_image_that_looks_like_nothing_is_not_recognised(found: Evidence) -> None:
    """The untaught classifier is sure of nothing, and says so."""
    told = figures(found)["recognisable"]
    assert (told["samples"], told["test_images"], told["test_images_right"]) == (0, 0, 0)


def test_completions_keep_the_upper_half(found: Evidence) -> None:
    held = found.completions
    assert held.completed.shape == (COMPLETED, COMPLETIONS, CONFIG.bytes)
    assert held.known.tolist() == [True] * 15 + [False] * 15
    assert (held.completed[:, :, :15] == held.originals[:, None, :15]).all()
    assert len(np.unique(held.completed[0], axis=0)) == COMPLETIONS


@pytest.mark.parametrize("row", [0, 1, COMPLETED - 1])
def test_completions_are_those_of_their_original_alone(found: Evidence, row: int) -> None:
    """The known front is read once for all completions of an image, and never for those of another."""
    held = found.completions
    alone = paint(MODEL, COMPLETED * COMPLETIONS, seed=4, known=held.originals[row], mask=held.known)
    first = row * COMPLETIONS
    np.testing.assert_array_equal(held.completed[row], alone.images[first : first + COMPLETIONS])


def opened(picture: contact_sheets.Picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.png)))


def test_a_sheet_shows_each_image_in_its_frame(found: Evidence) -> None:
    pixels = opened(contact_sheets.unchosen(found, CONFIG))
    assert pixels.shape == (10 * 8, 7 + contact_sheets.GAP + NEIGHBOURS * 7, 4)
    first = found.painted.images[0].reshape(6, 5)
    nearest_one = TRAINING[found.sample_neighbours.places[0, 0]].reshape(6, 5)
    np.testing.assert_array_equal(pixels[1:7, 1:6, 0], first)
    np.testing.assert_array_equal(pixels[1:7, 14:19, 1], nearest_one)
    assert (pixels[1:7, 1:6, 3] == 255).all()
    assert (pixels[0, :, 3] == 0).all()


def test_the_closest_samples_come_first(found: Evidence) -> None:
    first = found.painted.images[found.sample_neighbours.distances[:, 0].argmin()]
    np.testing.assert_array_equal(opened(contact_sheets.closest(found, CONFIG))[1:7, 1:6, 2], first.reshape(6, 5))


def test_completions_stand_between_occluded_and_original(found: Evidence) -> None:
    pixels = opened(contact_sheets.completions(found, CONFIG))[1:7, :, 0]
    assert (pixels[3:, 1:6] == 128).all()
    np.testing.assert_array_equal(pixels[:, -6:-1], found.completions.originals[0].reshape(6, 5))


def test_colour_has_a_report_too(tmp_path: Path) -> None:
    model = small_models.model(COLOUR)
    training, test = small_models.images(COLOUR, 80, seed=1), small_models.images(COLOUR, 100, seed=2)
    bits = bits_of_images(model, test)
    found = gather(model, Classifier(4, 4, 3), "cifar10", training, test, LABELS[:100], bits, 50, seed=0)
    told = {"precision": "exact", "bits_per_dim": 8.0, "standard_error": 0.1, "quality": figures(found)}
    save_report("<dots & dots>", COLOUR, told, found, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<h1>&lt;dots &amp; dots&gt;</h1>" in page
    assert "airplane" in told["quality"]["classes"]["names"]
    np.testing.assert_array_equal(
        opened(contact_sheets.samples(found, COLOUR))[1:5, 1:5, :3].reshape(-1), found.painted.images[0]
    )
