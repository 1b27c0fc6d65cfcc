"""Figures of a model's classes, each of the images that its name says; and the
table of guidance, a row a weight.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from scanline.model.base.sampling_options import SamplingParams
from scanline.model.datasets import CLASSES
from scanline.model.evaluation import classes
from scanline.model.evaluation.classes import ClassMeasurements, class_figures, measure_classes
from scanline.model.evaluation.classifier import Classifier, Predictions, classify
from scanline.model.evaluation.guidance import guidance_figures, within_class_distance
from scanline.model.evaluation.likelihood import bits
from scanline.model.evaluation.metrics import sure_share
from scanline.model.likelihood.classification import posterior
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import small_models
from tests.support.close import assert_close

ORDER = (3, 1, 4, 0, 5, 9, 2, 6, 8, 7)  # the model's classes are not in the order of the set's
CONFIG = small_models.config(
    height=6,
    width=5,
    layers=1,
    predicts="categorical",
    classes=tuple((str(digit),) for digit in ORDER),
)
MODEL = small_models.model(CONFIG)
MODEL.class_head = small_models.class_head(CONFIG)
CLASSIFIER = Classifier(6, 5, 1, 10)
EACH = 4
COLD = SamplingParams(guidance=3.0, temperature=0.5)  # the default
TESTS = small_models.images(CONFIG, 130, seed=2)
DIGITS = np.random.default_rng(3).integers(0, 10, 130).astype(np.uint8)
TEST = torch.from_numpy(TESTS[:9])
OF = DIGITS[:9]


@pytest.fixture(scope="module")
def found():
    """Six of nine test images are classified, and samples of each class painted."""
    return measure_classes(
        MODEL,
        CLASSES["mnist"],
        TESTS[:9],
        OF,
        classified=6,
        of_each=EACH,
        classifier=CLASSIFIER,
        ways=classes.ways_of((3.0, 1.5), (2,), COLD),
        seed=4,
    )


def label(digit):
    return ORDER.index(digit) + 1


def test_the_labels_are_found_by_name_and_other_classes_are_none_of_the_set():
    labels = classes.labels_of_set(CONFIG, CLASSES["mnist"])
    assert labels.tolist() == [label(digit) for digit in range(10)]
    assert classes.labels_of_set(CONFIG, CLASSES["cifar10"]) is None
    assert (
        classes.labels_of_set(replace(CONFIG, classes=CONFIG.classes[:9]), CLASSES["mnist"]) is None
    )


def test_bits_with_the_true_class_are_those_of_each_images_own_label(
    found,
):
    labels = torch.tensor([label(digit) for digit in OF.tolist()])
    expected = bits(MODEL, TEST, labels).mean(dim=1)
    assert_close("bits with the true class", expected, torch.from_numpy(found.true_class))
    assert not np.allclose(found.true_class, bits(MODEL, TEST).mean(dim=1).numpy())


def test_an_image_is_given_the_class_of_least_cost_or_the_mean_of_all(
    found,
):
    of_digit = []
    for digit in range(10):
        labels = torch.full((6,), label(digit))
        of_digit.append(bits(MODEL, TEST[:6], labels).sum(dim=1))
    under = torch.stack(of_digit, dim=1)  # [6, 10]
    confusion = np.zeros((10, 10), np.int64)
    for digit, said in zip(OF[:6], under.argmin(dim=1).tolist(), strict=True):
        confusion[digit, said] += 1
    assert_array_equal(found.by_bits.confusion, confusion)
    assert found.by_bits.temperature is None  # six images are too few to fit one to
    assert_allclose(found.by_bits.posterior, posterior(under.numpy()), rtol=1e-3)
    mean = np.log2(10) - torch.logsumexp(-under * np.log(2), dim=1) / np.log(2)
    drawn = torch.from_numpy(found.any_class)
    assert_close("bits where the class is drawn", mean / CONFIG.bytes, drawn)


def test_the_figures_are_shares_of_rows_and_of_all():
    # 18 of the first 20 answers are wrong, and the last 50 are sure
    number = np.arange(100)
    true = number % 10
    said = np.where(number < 20, 7, true)
    sure = np.where(number < 50, 0.98, 0.995)
    probabilities = np.repeat((1 - sure)[:, None] / 9, 10, axis=1)
    probabilities[number, said] = sure
    answers = classes.Answers(true, probabilities)
    # nineteen samples of each, ten of them right
    given = np.concatenate([[*range(10), *[digit] * 9] for digit in range(10)])
    predictions = Predictions(np.zeros((190, 64)), given, np.ones(190))
    samples = classes.ClassSamples(10, predictions, 3, SamplingParams())
    assert_array_equal(samples.confusion, 1 + 9 * np.eye(10, dtype=np.int64))
    figures = class_figures(
        ClassMeasurements(
            CLASSES["mnist"],
            np.array([3, 7]),
            np.array([1.0, 2.0]),
            answers,
            samples,
            readings=1000,
            by_head=answers,
        )
    )
    assert figures["true_class"] == {"bits_per_dim": 1.5, "standard_error": 0.5, "images": 2}
    classification = figures["classification"]
    assert classification["accuracy"] == 0.82
    assert classification["standard_error"] == pytest.approx(0.0384, abs=1e-4)
    assert classification["images"] == 100
    assert classification["readings"] == 1000
    assert figures["by_head"].items() < classification.items()
    assert figures["by_head"]["sure"] == {"above": 0.99, "images": 50, "right": 1.0}
    assert figures["samples"]["as_asked"] == pytest.approx(10 / 19)
    assert figures["samples"]["as_asked_of_each"] == pytest.approx([10 / 19] * 10)
    assert figures["samples"]["each"] == 19
    assert figures["by_class"][7] == {
        "name": "7",
        "images": 1,
        "bits_per_dim": 2.0,
        "by_head": 1.0,
        "by_bits": 1.0,
        "samples_as_asked": pytest.approx(10 / 19),
    }
    assert figures["by_class"][3]["by_head"] == 0.8
    assert "bits_per_dim" not in figures["by_class"][0]
    fitted = replace(answers, temperature=0.01).figures()
    assert fitted["temperature"] == 0.01
    assert fitted["sure"]["images"] == 25  # of every second one
    assert sure_share(fitted) == "; of 25 answers above 0.99 at temperature 0.01, 100.00% are right"


def test_answers_are_as_often_right_in_a_bin_as_they_are_sure():
    confidence = np.array([0.35, 0.31, 0.9, 1.0, 1.0])
    found = classes.reliability(confidence, np.array([True, False, True, True, False]))
    low, high = found["bins"]
    assert low == {"from": 0.3, "answers": 2, "confidence": pytest.approx(0.33), "right": 0.5}
    assert (high["from"], high["answers"], high["right"]) == (0.9, 3, pytest.approx(2 / 3))
    error = (2 * (0.5 - 0.33) + 3 * (2.9 / 3 - 2 / 3)) / 5
    assert found["calibration_error"] == pytest.approx(error)


def test_each_row_of_guidance_is_of_the_samples_of_its_way(found):
    tests = classify(CLASSIFIER, TESTS)
    rows = guidance_figures(found, DIGITS, tests, 4, COLD)["rows"]
    ways = [(row["guidance"], row["best_of"], row["default"]) for row in rows]
    assert [way[:2] for way in ways] == [(1, 1), (3, 1), (1.5, 1), (3, 2), (1.5, 2), (3, 1)]
    assert [way[2] for way in ways] == [False] * 5 + [True]
    asked = np.repeat(np.arange(10), EACH)
    for row in rows:
        images = []
        for digit in range(10):
            way = {name: row[name] for name in ("guidance", "temperature", "best_of")}
            request = GenerateRequest(0, EACH, 4, label=label(digit), **way)
            images.append(paint_request(MODEL, request).images)
        seen = classify(CLASSIFIER, np.concatenate(images))
        assert row["recognisable"] == seen.recognised.mean()
        assert row["as_asked"] == (seen.classes == asked).mean()


def test_the_distance_within_classes_is_that_from_their_means_each_class_alike():
    features = np.array(
        [
            [0.0, 0.0],
            [6.0, 8.0],
            [100.0, 0.0],
            [100.0, 2.0],
            [100.0, 2.0],
            [100.0, 0.0],
        ]
    )
    assert within_class_distance(features, np.array([3, 3, 7, 7, 7, 7])) == (5 + 1) / 2
    assert within_class_distance(features[[2, 5]], np.array([7, 7])) == 0
    assert within_class_distance(features[:0], np.zeros(0, np.int64)) == 0
