"""Classification: the bits of the network's parallel view under every class, and Bayes' rule."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.inputs import InvalidInput
from scanline.model.likelihood.classification import Classification, posterior
from scanline.model.likelihood.typicality import Typicality
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.tasks.classify import ClassifyValues, plan
from scanline.model.tasks.offline import Progress, nothing, progressing
from tests.support import small_models


def classify(
    generator: Generator,
    images: np.ndarray,
    tolerances: np.ndarray | None = None,
    progress: Progress = nothing,
    info: ModelInfo | None = None,
    *,
    by_bits: bool = True,
) -> Classification:
    """Classify images [n, N] uint8, read as they are, to within tolerances [n]."""
    count = len(images)
    task = plan(info or ModelInfo(generator.config), ClassifyValues(count, by_bits))
    exact = np.zeros(count, np.int64)
    task.fill([Cleaned(images, exact > 0, exact if tolerances is None else tolerances)])
    for _ in progressing(Engine(generator), [task], progress):
        pass
    return task.result()


CLASSES = (("circle", "disc"), ("square",), ("star",))


@pytest.fixture(scope="module")
def model() -> Transformer:
    return small_models.model(small_models.config(classes=CLASSES))


@pytest.fixture(scope="module")
def images(model: Transformer) -> np.ndarray:
    return small_models.images(model.config, 5)


@pytest.fixture(scope="module")
def expected(model: Transformer, images: np.ndarray) -> np.ndarray:
    """Bits [5, 3] of each image under each class, by the parallel view."""
    given, columns = torch.from_numpy(images), []
    for label in (1, 2, 3):
        parameters = model.parallel(given, labels=torch.full((5,), label))
        columns.append(model.bits(parameters, given, 0, model.config.bytes).sum(dim=1))
    return torch.stack(columns, dim=1).numpy()


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_the_bits_are_those_of_every_image_under_every_class(
    model: Transformer, images: np.ndarray, expected: np.ndarray, backend: str
) -> None:
    generator = Generator(model, 1, backend=backend)
    found = classify(generator, images)
    generator.close()
    np.testing.assert_allclose(found.bits, expected, rtol=1e-4)
    assert found.class_names == ("circle", "square", "star")
    assert found.best == tuple(found.class_names[k] for k in expected.argmin(axis=1))
    assert (np.ptp(expected, axis=1) > 0.1).all()  # classes matter


def test_classes_of_a_model_of_mirrored_images_are_compared_by_the_mean_of_both_readings(
    model: Transformer, images: np.ndarray
) -> None:
    both = small_models.model(replace(model.config, mirrored=True))
    plain, found = Generator(model, 1), Generator(both, 1)
    mirror_images = images.reshape(5, model.config.height, model.config.width)[:, :, ::-1].reshape(5, -1)
    given, mirrored = classify(plain, images), classify(plain, mirror_images)
    reports: list[int] = []
    result = classify(found, images, progress=reports.append)
    plain.close()
    found.close()
    np.testing.assert_array_equal(result.bits, given.bits)
    mean = (given.bits + mirrored.bits) / 2
    np.testing.assert_array_equal(result.compared_bits, mean)
    np.testing.assert_array_equal(result.posterior, posterior(mean))
    assert result.best == tuple(result.class_names[k] for k in mean.argmin(axis=1))
    assert given.best != result.best
    assert reports[-1] == 2 * 3 * images.size


def test_the_posterior_is_that_of_bayes_with_a_uniform_prior() -> None:
    bits = np.array([[2000.0, 2001.0, 2003.0], [0.0, 0.0, np.inf]])
    found = Classification(("a", "b", "c"), bits, bits, np.zeros(2, bool))
    np.testing.assert_allclose(found.posterior, [[8 / 13, 4 / 13, 1 / 13], [0.5, 0.5, 0.0]])
    assert found.best == ("a", "a")


def test_an_image_that_no_class_allows_leaves_them_equally_likely() -> None:
    np.testing.assert_array_equal(posterior(np.full((1, 4), np.inf)), np.full((1, 4), 0.25))


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_bytes_to_within_a_tolerance_cost_what_all_of_their_range_cost_together(backend: str) -> None:
    model = small_models.model(small_models.config(classes=CLASSES, **small_models.VARIANTS["strokes"]))
    images, tolerances = small_models.images(model.config, 4), np.array([0, 5, 255, 40])
    generator = Generator(model, 1, backend=backend)
    found = classify(generator, images, tolerances=tolerances).bits
    for label in range(3):
        parameters = model.parallel(torch.from_numpy(images), labels=torch.full((4,), label + 1))
        logs = torch.log_softmax(parameters.double(), dim=-1)
        away = (torch.arange(256) - torch.from_numpy(images).long().unsqueeze(-1)).abs()
        ranges = logs.masked_fill(away > torch.from_numpy(tolerances).view(4, 1, 1), -torch.inf).logsumexp(dim=-1)
        expected = -ranges.sum(dim=1).numpy() / np.log(2)
        np.testing.assert_allclose(found[:, label], expected, rtol=1e-4, atol=1e-9)
    alone = classify(generator, images[1:2], tolerances=tolerances[1:2]).bits
    prefill = generator.start_prefill(images[1:], [20, 20, 13], [3, 3, 3], [5, 255, 40])
    while not prefill.done:
        generator.run_prefill(prefill, 3)
    generator.close()
    np.testing.assert_array_equal(alone, found[1:2])
    assert prefill.bits[0].sum() == found[1, 2]


def test_a_model_without_classes_does_not_classify(grey: Transformer) -> None:
    generator = Generator(grey, 1)
    with pytest.raises(InvalidInput, match=r"^This model knows no classes and cannot classify\.$"):
        classify(generator, small_models.images(grey.config, 1))
    generator.close()


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_a_class_head_reads_each_image_once_and_bits_are_read_where_they_are_asked_for(backend: str) -> None:
    model = small_models.model(small_models.config(mirrored=True, **small_models.CLASSES))
    images, bare = small_models.images(model.config, 5), Generator(model, 1, backend=backend)
    plain, whole = classify(bare, images), bare.score(images).sum(axis=1)
    model.class_head = small_models.class_head(model.config)
    typical = Typicality.measure(whole, images, np.zeros(5, bool))
    info = ModelInfo(model.config, typicality=typical, has_class_head=True)
    readings = {False: 5, True: 5 + 5 * 2 * 3}
    for by_bits, count in readings.items():
        reports: list[int] = []
        found = classify(Generator(model, 1, backend=backend), images, None, reports.append, info, by_bits=by_bits)
        assert reports[-1] == count * model.config.bytes
        np.testing.assert_array_equal(found.logits, model.class_logits(torch.from_numpy(images)).numpy())
        np.testing.assert_allclose(found.posterior, torch.tensor(found.logits).double().softmax(dim=1))
        assert found.best == tuple(found.class_names[k] for k in np.asarray(found.logits).argmax(axis=1))
        tails = typical.tail_probabilities(whole, images, np.zeros(5, bool))
        np.testing.assert_array_equal(found.tail_probabilities, tails)
        if by_bits:
            np.testing.assert_array_equal(found.bits, plain.bits)
            np.testing.assert_array_equal(found.posterior_by_bits, plain.posterior)
        else:
            assert found.bits is found.compared_bits is found.posterior_by_bits is None
