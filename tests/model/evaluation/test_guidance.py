"""The table of guidance: each row is of the samples of its weight, and one is of test images."""

import html
import re

import numpy as np
import pytest

from scanline.model.evaluation.class_section import class_section
from scanline.model.evaluation.classes import ClassMeasurements, class_figures, measure_classes
from scanline.model.evaluation.classifier import Classifier, classify
from scanline.model.evaluation.comparison import Comparison, LabelledData, compare
from scanline.model.evaluation.guidance import guidance_figures, within_class_distance
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import card_rows, frechet_distance, quality
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import small_models

WORDS = tuple((str(digit),) for digit in range(10))
CONFIG = small_models.config(height=6, width=5, layers=1, classes=WORDS, predicts="categorical")
MODEL, CLASSIFIER = small_models.model(CONFIG), Classifier(6, 5, 1)
TRAINING, TEST = small_models.images(CONFIG, 60, seed=1), small_models.images(CONFIG, 130, seed=2)
LABELS = np.random.default_rng(3).integers(0, 9, 130).astype(np.uint8)  # no test image is a nine
EACH = 4


@pytest.fixture(scope="module")
def found() -> ClassMeasurements:
    return measure_classes(
        MODEL,
        "mnist",
        TEST[:2],
        LABELS[:2],
        classified=0,
        each=EACH,
        classifier=CLASSIFIER,
        guidance=(3.0, 1.5),
        seed=4,
    )


@pytest.fixture(scope="module")
def compared() -> Comparison:
    data = LabelledData("mnist", TRAINING, np.zeros(60, np.uint8), TEST, LABELS)
    return compare(MODEL, CLASSIFIER, data, bits_per_dim(MODEL, TEST), 50, seed=4)


def test_each_row_is_of_the_samples_of_its_weight(found: ClassMeasurements, compared: Comparison) -> None:
    figures = guidance_figures(found, compared)
    assert [row["guidance"] for row in figures["rows"]] == [1, 3, 1.5]
    assert (figures["each"], figures["seed"], figures["against"]) == (EACH, 4, 65)
    asked = np.repeat(np.arange(10), EACH)
    for row in figures["rows"]:
        weight = row["guidance"]
        requests = [GenerateRequest(0, EACH, 4, label=digit + 1, guidance=weight) for digit in range(10)]
        images = np.concatenate([paint_request(MODEL, request).images for request in requests])
        seen = classify(CLASSIFIER, images)
        assert row["recognisable"] == seen.recognised.mean()
        assert row["as_asked"] == (seen.classes == asked).mean()


def test_distances_are_of_as_many_samples_as_test_images(found: ClassMeasurements, compared: Comparison) -> None:
    figures = guidance_figures(found, compared)
    half = sorted(set(range(130)) - set(compared.others.tolist()))
    chosen = [index for digit in range(10) for index in [at for at in half if LABELS[at] == digit][:EACH]]
    counts = np.bincount(LABELS[chosen], minlength=10)
    assert counts[9] == 0
    assert figures["compared"] == len(chosen)
    others, tests = compared.test_predictions.features[compared.others], compared.test_predictions.features[chosen]
    row = figures["test_images"]
    assert row["recognisable"] == compared.test_predictions.recognised.mean()
    assert row["as_asked"] == (compared.test_predictions.classes == LABELS).mean()
    assert row["frechet_distance"] == pytest.approx(frechet_distance(tests, others))
    assert row["within_class_distance"] == pytest.approx(within_class_distance(tests, LABELS[chosen]))
    for row, samples in zip(figures["rows"], (found.samples, *found.guided), strict=True):
        assert samples is not None
        first = np.arange(10 * EACH) % EACH < np.repeat(counts, EACH)
        features = samples.predictions.features[first]
        assert row["frechet_distance"] == pytest.approx(frechet_distance(features, others))
        assert row["within_class_distance"] == pytest.approx(within_class_distance(features, samples.asked[first]))
        right = first & (samples.predictions.classes == samples.asked)
        as_asked = within_class_distance(samples.predictions.features[right], samples.asked[right])
        assert row["within_class_distance_as_asked"] == pytest.approx(as_asked)


def test_the_distance_within_classes_is_that_from_their_means_each_class_alike() -> None:
    features = np.array([[0.0, 0.0], [6.0, 8.0], [100.0, 0.0], [100.0, 2.0], [100.0, 2.0], [100.0, 0.0]])
    assert within_class_distance(features, np.array([3, 3, 7, 7, 7, 7])) == (5 + 1) / 2
    assert within_class_distance(features[[2, 5]], np.array([7, 7])) == 0
    assert within_class_distance(features[:0], np.zeros(0, np.int64)) == 0


def test_the_report_and_the_card_state_the_table(found: ClassMeasurements, compared: Comparison) -> None:
    evaluation = {"precision": "exact", "bits_per_dim": 8.0, "standard_error": 0.1, "images": 130}
    evaluation |= {"classes": class_figures(found), "quality": quality(compared)}
    without = class_section(CONFIG, evaluation, found)
    evaluation["guidance"] = figures = guidance_figures(found, compared)
    section = class_section(CONFIG, evaluation, found)
    assert section.startswith(without)
    assert "Guidance" not in without
    assert section.count("data:image/png") - without.count("data:image/png") == 2
    text = html.unescape(re.sub(r"<[^>]*>", "|", section))
    rows = {f"guidance {row['guidance']:g}": row for row in figures["rows"]} | {"test images": figures["test_images"]}
    for name, row in rows.items():
        shares = f"{row['recognisable']:.1%}|{row['as_asked']:.1%}"
        within = f"{row['within_class_distance']:.2f}|{row['within_class_distance_as_asked']:.2f}"
        assert f"|{name}|{shares}|{row['frechet_distance']:.2f}|{within}\n" in text
    plain, three = figures["rows"][:2]
    assert card_rows(evaluation).split("\n")[-2] == (
        f"| guidance 3, 4 samples of each class (without) | {three['recognisable']:.1%} recognisable"
        f" ({plain['recognisable']:.1%}), {three['as_asked']:.1%} of the class asked for ({plain['as_asked']:.1%}),"
        f" Frechet distance {three['frechet_distance']:.1f} ({plain['frechet_distance']:.1f}), distance within classes"
        f" {three['within_class_distance']:.2f} ({plain['within_class_distance']:.2f}, of test images"
        f" {figures['test_images']['within_class_distance']:.2f}), of images seen as asked for"
        f" {three['within_class_distance_as_asked']:.2f} ({plain['within_class_distance_as_asked']:.2f},"
        f" {figures['test_images']['within_class_distance_as_asked']:.2f}) |"
    )
