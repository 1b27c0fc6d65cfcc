"""Likelihoods: the bits of an image are those that painting it counted, in the parallel and the recurrent view."""

import numpy as np
import pytest
import torch

from scanline.model.evaluation import evaluate
from scanline.model.evaluation.likelihood import bits
from scanline.model.evaluation.metrics import standard_error
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.offline import paint
from tests.support import small_models
from tests.support.close import assert_close


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("variant", small_models.VARIANTS)
def test_bits_of_painted_images_are_the_generators(variant: str, temperature: float) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    painted = paint(model, 6, seed=2, temperature=temperature)
    scored = bits(model, torch.from_numpy(painted.images)).mean(dim=1)
    assert_close("bits per dimension", scored, torch.from_numpy(painted.bits_per_dim))


def test_bits_of_a_completion_count_its_known_bytes_too() -> None:
    config = small_models.config()
    model, mask = small_models.model(config), np.arange(config.bytes) < 10
    painted = paint(model, 4, seed=2, known=small_models.images(config, 1)[0], mask=mask)
    scored = bits(model, torch.from_numpy(painted.images)).mean(dim=1)
    assert_close("bits per dimension", scored, torch.from_numpy(painted.bits_per_dim))


def test_first_byte_costs_what_the_histogram_says() -> None:
    model = small_models.model(small_models.config(**small_models.NO_START))
    images = torch.from_numpy(small_models.images(model.config, 3))
    expected = [-np.log2(small_models.HISTOGRAM[value]) for value in images[:, 0].tolist()]
    assert_close("bits", torch.tensor(expected), bits(model, images)[:, 0])


def test_a_first_byte_that_the_histogram_rules_out_costs_infinitely_much() -> None:
    certain = (1.0,) + (0.0,) * 255
    model = small_models.model(small_models.config(start_token=False, first_byte_histogram=certain))
    image = torch.ones(1, model.config.bytes, dtype=torch.uint8)
    assert bits(model, image)[0, 0].isinf()


def test_the_generator_scores_an_image_as_the_parallel_view_does() -> None:
    model = small_models.model(small_models.config())
    image = small_models.images(model.config, 1)
    generator = Generator(model, 1)
    result = generator.score(image)[0]
    generator.close()
    assert_close("bits", bits(model, torch.from_numpy(image))[0], torch.from_numpy(result))


def test_bits_per_dim_are_those_of_the_parallel_view_in_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "BATCH", 3)
    model, done = small_models.model(small_models.config()), []
    images = small_models.images(model.config, 7)
    found = evaluate.bits_per_dim(model, images, progress=done.append)
    assert_close("bits per dimension", bits(model, torch.from_numpy(images)).mean(dim=1), torch.from_numpy(found))
    assert done == [3, 6, 7]


def test_the_standard_error_of_a_mean() -> None:
    assert standard_error(np.array([1.0, 2.0, 3.0, 6.0])) == pytest.approx((14 / 3) ** 0.5 / 2)
    assert standard_error(np.array([1.0])) is None
