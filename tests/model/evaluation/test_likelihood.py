"""Scoring: the bits of an image are those that painting it counted, and the mean carries its error."""

import numpy as np
import pytest
import torch

from scanline.model.evaluation.likelihood import bits, score
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


def test_the_generator_scores_an_image_beside_its_slots() -> None:
    model = small_models.model(small_models.config())
    image = small_models.images(model.config, 1)
    generator = Generator(model, 1)
    result = generator.score(image)[0]
    generator.close()
    assert_close("bits", bits(model, torch.from_numpy(image))[0], torch.from_numpy(result))


@pytest.mark.parametrize("batch", [1, 3, 7, 50])
def test_the_mean_and_its_standard_error_do_not_depend_on_the_batch(batch: int) -> None:
    model = small_models.model(small_models.config())
    images = small_models.images(model.config, 7)
    each = bits(model, torch.from_numpy(images)).mean(dim=1)
    result = score(model, images, batch)
    assert result.images == 7
    assert_close("mean", each.mean(), torch.tensor(result.bits_per_dim))
    assert_close("standard error", each.std() / 7**0.5, torch.tensor(result.standard_error))


def test_progress_counts_images() -> None:
    model, done = small_models.model(small_models.config()), []
    score(model, small_models.images(model.config, 7), 3, done.append)
    assert done == [3, 6, 7]
