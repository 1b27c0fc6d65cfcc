"""Classification: bits under every class, and Bayes' rule; how unusual images
are, and what known pixels cost.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from scanline.model import zoo
from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.images.pictures import open_picture, pixels
from scanline.model.inference import load
from scanline.model.likelihood.classification import Classification, fitted_temperature, posterior
from scanline.model.likelihood.marginal_likelihood import check_repeats, estimate
from scanline.model.likelihood.typicality import TYPICAL, Typicality
from scanline.model.network.class_reading import class_logits
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.engine import Engine
from scanline.model.tasks.classify import ClassifyValues, plan
from scanline.model.tasks.offline import nothing, progressing
from tests.support import small_models
from tests.support.pictures import encode


def classify(
    generator,
    images,
    tolerances=None,
    progress=nothing,
    info=None,
    *,
    by_bits=True,
):
    """Classify images [n, N] uint8, read as they are, to within tolerances [n]."""
    count = len(images)
    task = plan(info or ModelInfo(generator.config), ClassifyValues(count, by_bits))
    exact = np.zeros(count, np.int64)
    task.fill(
        [
            Cleaned(
                images,
                exact > 0,
                exact if tolerances is None else tolerances,
            )
        ]
    )
    for _ in progressing(Engine(generator), [task], progress):
        pass
    return task.result()


CLASSES = (("circle", "disc"), ("square",), ("star",))


@pytest.fixture(scope="module")
def model():
    return small_models.model(small_models.config(classes=CLASSES))


@pytest.fixture(scope="module")
def images(model):
    return small_models.images(model.config, 5)


@pytest.fixture(scope="module")
def expected(model, images):
    """Bits [5, 3] of each image under each class, by the parallel view."""
    given = torch.from_numpy(images)
    columns = []
    for label in (1, 2, 3):
        parameters = model.parallel(given, labels=torch.full((5,), label))
        columns.append(model.bits(parameters, given, 0, model.config.bytes).sum(dim=1))
    return torch.stack(columns, dim=1).numpy()


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_bits_are_of_every_class(model, images, expected, backend):
    found = classify(Generator(model, 1, backend=backend), images)
    assert_allclose(found.bits, expected, rtol=1e-4)
    assert found.class_names == ("circle", "square", "star")
    assert found.best == tuple(found.class_names[k] for k in expected.argmin(axis=1))
    assert (np.ptp(expected, axis=1) > 0.1).all()  # classes matter


def test_classes_of_mirrored_images_are_compared_by_both_readings(model, images):
    both = small_models.model(replace(model.config, mirrored=True))
    mirror_images = images.reshape(5, model.config.height, model.config.width)[:, :, ::-1].reshape(
        5, -1
    )
    given, mirrored = (classify(Generator(model, 1), each) for each in (images, mirror_images))
    reports = []
    result = classify(Generator(both, 1), images, progress=reports.append)
    assert_array_equal(result.bits, given.bits)
    mean = (given.bits + mirrored.bits) / 2
    assert_array_equal(result.compared_bits, mean)
    assert_array_equal(result.posterior, posterior(mean))
    assert result.best == tuple(result.class_names[k] for k in mean.argmin(axis=1))
    assert given.best != result.best
    assert reports[-1] == 2 * 3 * images.size


def test_the_posterior_is_that_of_bayes_with_a_uniform_prior():
    """Of an image that no class allows, too."""
    bits = np.array(
        [
            [2000.0, 2001.0, 2003.0],
            [0.0, 0.0, np.inf],
            [np.inf] * 3,
        ]
    )
    found = Classification(("a", "b", "c"), bits, bits, np.zeros(3, bool))
    assert_allclose(
        found.posterior,
        [
            [8 / 13, 4 / 13, 1 / 13],
            [0.5, 0.5, 0.0],
            [1 / 3] * 3,
        ],
    )
    assert found.best == ("a", "a", "a")


def test_the_temperature_of_bits_makes_them_as_sure_as_they_are_right_and_is_not_that_of_a_noisy_image():
    chance = np.random.default_rng(3)
    right = posterior(chance.exponential(4, (4000, 3)))
    classes = (right.cumsum(axis=1) < chance.random((4000, 1))).sum(axis=1)
    above = np.log2(right.max(axis=1, keepdims=True) / right)
    bits = chance.uniform(100, 900, (4000, 1)) * (1 + 0.01 * above)
    assert fitted_temperature(bits, classes) == pytest.approx(0.01, rel=0.1)
    assert fitted_temperature(bits[:99], classes[:99]) is None
    bits[3], bits[4], bits[5] = np.inf, (np.inf, 100, 101), (0, 0, 0.02)
    found = Classification(
        ("a", "b", "c"),
        bits,
        bits,
        np.arange(4000) == 1,
        temperature=0.01,
    )
    assert_allclose(found.posterior[[0, 2]], right[[0, 2]])
    assert_allclose(found.posterior[1], posterior(bits[1]))
    assert_allclose(
        found.posterior[3:6],
        [
            [1 / 3] * 3,
            [0, 2 / 3, 1 / 3],
            [4 / 9, 4 / 9, 1 / 9],
        ],
    )


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_bytes_to_within_a_tolerance_cost_what_all_of_their_range_cost_together(
    backend,
):
    model = small_models.model_of("strokes", classes=CLASSES)
    images = small_models.tensor(model.config, 4)
    tolerances = np.array([0, 5, 255, 40])
    generator = Generator(model, 1, backend=backend)
    found = classify(generator, images.numpy(), tolerances=tolerances).bits
    distance = (torch.arange(256) - images.long().unsqueeze(-1)).abs()
    beyond = distance > torch.from_numpy(tolerances).view(4, 1, 1)
    for label in (1, 2, 3):
        parameters = model.parallel(images, labels=torch.full((4,), label))
        logs = torch.log_softmax(parameters.double(), dim=-1)
        together = logs.masked_fill(beyond, -torch.inf).logsumexp(dim=-1)
        expected = -together.sum(dim=1).numpy() / np.log(2)
        assert_allclose(found[:, label - 1], expected, rtol=1e-4, atol=1e-9)
    alone = classify(generator, images[1:2].numpy(), tolerances=tolerances[1:2]).bits
    assert_array_equal(alone, found[1:2])


@pytest.mark.parametrize(("by_bits", "readings"), [(False, 5), (True, 5 + 5 * 2 * 3)])
@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_a_class_head_reads_each_image_once_and_bits_are_read_where_they_are_asked_for(
    backend, by_bits, readings
):
    model = small_models.model(small_models.config(mirrored=True, **small_models.CLASSES))
    images = small_models.images(model.config, 5)
    generator = Generator(model, 1, backend=backend)
    plain = classify(generator, images)
    whole = generator.score(images).sum(axis=1)
    clean = np.zeros(5, bool)
    typical = Typicality.measure(whole, images, clean)
    model.class_head = small_models.class_head(model.config)
    headed = Generator(model, 1, backend=backend)
    info = ModelInfo(model.config, typicality=typical, has_class_head=True)
    reports = []
    found = classify(
        headed,
        images,
        None,
        reports.append,
        info,
        by_bits=by_bits,
    )
    assert reports[-1] == readings * model.config.bytes
    logits = class_logits(model, torch.from_numpy(images))
    assert_array_equal(found.logits, logits.numpy())
    assert_allclose(found.posterior, logits.double().softmax(dim=1))
    names = [found.class_names[number] for number in logits.argmax(dim=1)]
    assert list(found.best) == names
    tails = typical.tail_probabilities(whole, images, clean)
    assert_array_equal(found.tail_probabilities, tails)
    if by_bits:
        assert_array_equal(found.bits, plain.bits)
        assert_array_equal(found.posterior_by_bits, plain.posterior)
    else:
        assert found.bits is found.compared_bits is found.posterior_by_bits is None


def test_a_picture_of_one_colour_has_no_class_and_one_with_a_dot_may_have_one():
    model = small_models.model(small_models.config(**small_models.CLASSES))
    model.class_head = small_models.class_head(model.config)
    generator = Generator(model, 1)
    images = np.full((2, model.config.bytes), 9, np.uint8)
    images[1, 0] = 10
    whole = generator.score(images).sum(axis=1)
    typical = Typicality.measure(whole, images, np.zeros(2, bool))
    info = ModelInfo(model.config, typicality=typical, has_class_head=True)
    blank, dotted = classify(generator, images, None, nothing, info).best
    assert blank is None
    assert dotted in model.config.class_names


def test_a_model_without_classes_does_not_classify(grey):
    with pytest.raises(InvalidInput, match=r"^This model knows no classes and cannot classify\.$"):
        classify(Generator(grey, 1), small_models.images(grey.config, 1))


BITS = np.linspace(100, 200, 1001)
IMAGES = np.full((1001, 50), 128, np.uint8)
CLEAN = np.zeros(1001, bool)
FOUND = Typicality.measure(BITS, IMAGES, np.arange(1001) < 6)


def test_test_images_are_typical_but_for_one_in_a_hundred_at_most():
    tails = FOUND.tail_probabilities(BITS, IMAGES, CLEAN)
    assert 0 < (tails < TYPICAL).mean() <= TYPICAL
    assert tails[500] == 1
    assert FOUND.range == pytest.approx((100.5 / 50, 199.5 / 50))


def test_too_many_bits_too_few_and_greys_that_cost_too_much_are_not_typical():
    fewer_greys = IMAGES[:1].copy()
    fewer_greys[0, 10:] = 0
    for bits, image in (
        (230.0, IMAGES[:1]),
        (np.inf, IMAGES[:1]),
        (70.0, IMAGES[:1]),
        (150.0, fewer_greys),
    ):
        assert FOUND.tail_probabilities(np.array([bits]), image, CLEAN[:1]) == [4 / 1002]


def test_noise_that_few_test_images_have_is_not_typical():
    assert FOUND.tail_probabilities(BITS[500:501], IMAGES[:1], np.ones(1, bool)) == pytest.approx(
        6 / 1001
    )


def test_the_figures_are_read_as_they_were_written():
    assert Typicality.from_dict(FOUND.to_dict()) == FOUND
    for wrong in (
        [],
        {"images": 3},
        FOUND.to_dict() | {"bits_per_dim": [1.0]},
        FOUND.to_dict() | {"images": "3"},
    ):
        with pytest.raises(ValueError, match=r"^typical must hold images and quantiles"):
            Typicality.from_dict(wrong)


def test_a_drawing_on_a_transparent_canvas_is_unlike_the_shipped_models_digits_and_its_samples_are_not():
    """A transparent canvas is read as white."""
    model = load(zoo.DEFAULT, device="cpu")
    sheet = np.asarray(Image.open(zoo.find(zoo.DEFAULT) / "any.png")).reshape(8, 28, 8, 28)
    digits = sheet.transpose(0, 2, 1, 3).reshape(64, 28, 28)
    canvas = np.zeros((28, 28, 4), np.uint8)
    canvas[..., 3] = digits[0]
    drawing = pixels(open_picture(encode(canvas), model.config, "image"), model.config).reshape(
        1, 28, 28
    )
    tails = model.tail_probabilities(np.concatenate([digits, drawing, np.zeros_like(drawing)]))
    assert (tails[:64] >= TYPICAL).sum() >= 60  # of test images one in a hundred is not typical
    assert (tails[64:] < TYPICAL).all()


def test_the_estimate_is_the_logarithm_of_the_mean_probability():
    found = estimate(np.array([1.0, 2.0, 2.0, np.inf]), known_bytes=5)
    assert found.bits == pytest.approx(2.0)  # the mean of 1/2, 1/4, 1/4 and 0 is 1/4
    assert found.bits_per_dim == pytest.approx(0.4)
    # 2^-5000 is 0 as a float
    shifted = estimate(np.array([1.0, 2.0, 2.0, np.inf]) + 5000, known_bytes=5)
    assert shifted.bits == pytest.approx(5002.0)
    assert shifted.standard_error == pytest.approx(found.standard_error)


def test_equal_evidence_has_no_error_and_impossible_pixels_cost_infinitely_much():
    exact = estimate(np.full(3, 7.5), known_bytes=3)
    assert (exact.bits, exact.standard_error, exact.bits_per_dim) == (7.5, 0.0, 2.5)
    assert estimate(np.full(3, np.inf), known_bytes=3).bits == math.inf
    one = estimate(np.array([8.0, np.inf]), known_bytes=3)
    assert (one.bits, one.standard_error) == (9.0, math.inf)
    assert estimate(np.zeros(3), known_bytes=0).bits_per_dim == 0.0


@pytest.mark.parametrize("repeats", [0, 1, 257, 2.5, True, "8"])
def test_repeats_that_give_no_standard_error_are_refused(repeats):
    with pytest.raises(
        InvalidInput, match=r"^repeats must be a whole number from 2 to 256, not "
    ) as caught:
        check_repeats(repeats)
    assert caught.value.param == "repeats"
