"""Figures of a model's classes, each of the images that its name says; and the
table of guidance, a row a weight.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.model.datasets import CLASSES
from scanline.model.evaluation import classes
from scanline.model.evaluation.classes import ClassMeasurements, class_figures, measure_classes
from scanline.model.evaluation.classifier import Classifier, Predictions, classify
from scanline.model.evaluation.comparison import Comparison, LabelledData, compare
from scanline.model.evaluation.guidance import guidance_figures, within_class_distance
from scanline.model.evaluation.likelihood import bits, bits_per_dim
from scanline.model.evaluation.metrics import sure_share
from scanline.model.likelihood.classification import fitted_temperature, posterior
from scanline.model.network.class_reading import class_logits
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import small_models
from tests.support.close import assert_close

ORDER = (3, 1, 4, 0, 5, 9, 2, 6, 8, 7)  # the model's classes are not in the order of the set's
CONFIG = small_models.config(
    height=6, width=5, layers=1, classes=tuple((str(digit),) for digit in ORDER)
)
MODEL = small_models.model(CONFIG)
CLASSIFIER = Classifier(6, 5, 1)
MODEL.class_head = small_models.class_head(CONFIG)
TEST = small_models.images(CONFIG, 9, seed=2)
OF = np.uint8([3, 1, 4, 1, 5, 9, 2, 6, 5])


@pytest.fixture(scope="module")
def found() -> ClassMeasurements:
    """Six of the nine test images are classified, and eleven samples of each class are painted."""
    return measure_classes(
        MODEL, "mnist", TEST, OF, classified=6, each=11, classifier=CLASSIFIER, seed=4
    )


def label(digit: int) -> int:
    return ORDER.index(digit) + 1


def test_the_labels_are_found_by_name_and_other_classes_are_none_of_the_set() -> None:
    labels = classes.labels_of_set(CONFIG, "mnist")
    assert labels is not None
    assert labels.tolist() == [label(digit) for digit in range(10)]
    assert classes.labels_of_set(CONFIG, "cifar10") is None
    assert classes.labels_of_set(replace(CONFIG, classes=CONFIG.classes[:9]), "mnist") is None


def test_bits_with_the_true_class_are_those_of_each_images_own_label(
    found: ClassMeasurements,
) -> None:
    labels = torch.tensor([label(digit) for digit in OF.tolist()])
    expected = bits(MODEL, torch.from_numpy(TEST), labels).mean(dim=1)
    assert_close("bits with the true class", expected, torch.from_numpy(found.true_class))
    assert not np.allclose(
        found.true_class, bits(MODEL, torch.from_numpy(TEST)).mean(dim=1).numpy()
    )


def bits_under_each(images: np.ndarray) -> torch.Tensor:
    """The bits of images under each digit, [n, 10]."""
    labels = [torch.full((len(images),), label(digit)) for digit in range(10)]
    return torch.stack([bits(MODEL, torch.from_numpy(images), each).sum(1) for each in labels], 1)


def test_an_image_is_given_the_class_of_least_cost_or_the_mean_of_all(
    found: ClassMeasurements,
) -> None:
    under = bits_under_each(TEST[:6])
    expected = np.zeros((10, 10), np.int64)
    np.add.at(expected, (OF[:6], under.argmin(dim=1).numpy()), 1)
    assert found.by_bits is not None
    np.testing.assert_array_equal(found.by_bits.confusion, expected)
    assert found.by_bits.temperature is None  # six images are too few to fit one to
    law = posterior(under.double().numpy())
    assert_close(
        "posterior by bits", torch.from_numpy(law), torch.from_numpy(found.by_bits.posterior)
    )
    drawn = -(torch.logsumexp(-under * np.log(2), 1) / np.log(2) - np.log2(10)) / CONFIG.bytes
    assert found.any_class is not None
    assert_close("bits where the class is drawn", drawn, torch.from_numpy(found.any_class))


def test_the_temperature_of_200_images_is_fitted_to_every_second_one() -> None:
    images = small_models.images(CONFIG, 200, seed=5)
    of = np.arange(200, dtype=np.uint8) // 7 % 10
    found = measure_classes(MODEL, "mnist", images, of, classified=200).by_bits
    under = bits_under_each(images).double().numpy()
    temperature = fitted_temperature(under[::2], of[::2])
    assert found is not None
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    law = torch.from_numpy(posterior(under, found.temperature))
    assert_close("posterior by bits", law, torch.from_numpy(found.posterior))


def test_the_head_reads_all_test_images_in_the_order_of_the_set(found: ClassMeasurements) -> None:
    posterior = class_logits(MODEL, torch.from_numpy(TEST)).double().softmax(dim=1).numpy()
    assert found.by_head is not None
    for digit in range(10):
        np.testing.assert_array_equal(
            found.by_head.posterior[:, digit], posterior[:, label(digit) - 1]
        )
    np.testing.assert_array_equal(found.by_head.true, OF)


def test_samples_are_of_the_class_of_their_row(found: ClassMeasurements) -> None:
    assert found.samples is not None
    for digit in (0, 7):
        painted = paint_request(MODEL, GenerateRequest(0, 11, 4, label=label(digit))).images
        counts = np.bincount(classify(CLASSIFIER, painted).classes, minlength=10)
        np.testing.assert_array_equal(found.samples.confusion[digit], counts)


def test_nothing_is_classified_or_painted_that_is_not_asked_for() -> None:
    found = measure_classes(MODEL, "mnist", TEST[:3], OF[:3], classified=0)
    assert (found.by_bits, found.samples, found.any_class) == (None, None, None)
    assert class_figures(found).keys() == {"names", "true_class", "by_head"}


def test_the_figures_are_shares_of_rows_and_of_all() -> None:
    # 18 of 20 of them wrong
    true = np.arange(100) % 10
    said = np.where(np.arange(100) < 20, 7, np.arange(100) % 10)
    sure = np.where(np.arange(100) < 50, 0.98, 0.995)[:, None]
    by_bits = classes.Answers(true, (1 - sure) / 9 + (sure - (1 - sure) / 9) * np.eye(10)[said])
    # nineteen of each, ten of them right
    given = np.concatenate([[*range(10), *[digit] * 9] for digit in range(10)])
    predictions = Predictions(np.zeros((190, 64)), given, np.ones(190))
    samples = classes.ClassSamples(10, predictions, 3)
    np.testing.assert_array_equal(samples.confusion, 1 + 9 * np.eye(10, dtype=np.int64))
    figures = class_figures(
        ClassMeasurements(
            CLASSES["mnist"], np.array([1.0, 2.0]), by_bits, samples, readings=1000, by_head=by_bits
        )
    )
    assert figures["true_class"] == {"bits_per_dim": 1.5, "standard_error": 0.5, "images": 2}
    assert figures["classification"]["accuracy"] == 0.82
    assert figures["classification"]["standard_error"] == pytest.approx(0.0384, abs=1e-4)
    assert (figures["classification"]["images"], figures["classification"]["readings"]) == (
        100,
        1000,
    )
    assert figures["by_head"]["sure"] == {"above": 0.99, "images": 50, "right": 1.0}
    assert figures["by_head"].items() < figures["classification"].items()
    fitted = replace(by_bits, temperature=0.01).figures()
    # every second one
    assert (fitted["temperature"], fitted["accuracy"], fitted["sure"]["images"]) == (0.01, 0.82, 25)
    assert sure_share(fitted) == "; of 25 answers above 0.99 at temperature 0.01, 100.00% are right"
    assert figures["samples"]["as_asked"] == pytest.approx(10 / 19)
    assert figures["samples"]["as_asked_of_each"] == pytest.approx([10 / 19] * 10)
    assert (figures["samples"]["each"], figures["samples"]["seed"]) == (19, 3)


WORDS = tuple((str(digit),) for digit in range(10))
GUIDED = small_models.config(height=6, width=5, layers=1, classes=WORDS, predicts="categorical")
GUIDED_MODEL = small_models.model(GUIDED)
TRAINING = small_models.images(GUIDED, 60, seed=1)
TESTS = small_models.images(GUIDED, 130, seed=2)
LABELS = np.random.default_rng(3).integers(0, 9, 130).astype(np.uint8)  # no test image is a nine
EACH = 4


@pytest.fixture(scope="module")
def guided() -> ClassMeasurements:
    asked = {
        "classified": 0,
        "each": EACH,
        "classifier": CLASSIFIER,
        "guidance": (3.0, 1.5),
        "seed": 4,
    }
    return measure_classes(GUIDED_MODEL, "mnist", TESTS[:2], LABELS[:2], **asked)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    data = LabelledData("mnist", TRAINING, np.zeros(60, np.uint8), TESTS, LABELS)
    return compare(GUIDED_MODEL, CLASSIFIER, data, bits_per_dim(GUIDED_MODEL, TESTS), 50, seed=4)


def test_each_row_is_of_the_samples_of_its_weight(
    guided: ClassMeasurements, compared: Comparison
) -> None:
    figures = guidance_figures(guided, compared)
    assert [row["guidance"] for row in figures["rows"]] == [1, 3, 1.5]
    assert (figures["each"], figures["seed"], figures["against"]) == (EACH, 4, 65)
    asked = np.repeat(np.arange(10), EACH)
    for row in figures["rows"]:
        weight = row["guidance"]
        requests = [
            GenerateRequest(0, EACH, 4, label=digit + 1, guidance=weight) for digit in range(10)
        ]
        images = np.concatenate(
            [paint_request(GUIDED_MODEL, request).images for request in requests]
        )
        seen = classify(CLASSIFIER, images)
        assert row["recognisable"] == seen.recognised.mean()
        assert row["as_asked"] == (seen.classes == asked).mean()


def test_the_distance_within_classes_is_that_from_their_means_each_class_alike() -> None:
    features = np.array(
        [[0.0, 0.0], [6.0, 8.0], [100.0, 0.0], [100.0, 2.0], [100.0, 2.0], [100.0, 0.0]]
    )
    assert within_class_distance(features, np.array([3, 3, 7, 7, 7, 7])) == (5 + 1) / 2
    assert within_class_distance(features[[2, 5]], np.array([7, 7])) == 0
    assert within_class_distance(features[:0], np.zeros(0, np.int64)) == 0
