"""Likelihoods: bits of probabilities that sum to one, in the parallel view and from the backend."""

import numpy as np
import pytest
import torch

from scanline.model.evaluation import likelihood
from scanline.model.evaluation.likelihood import bits
from scanline.model.evaluation.metrics import standard_error
from scanline.model.sampling.base.generator import Generator
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow


@pytest.mark.parametrize("variant", and_slow(small_models.CORE, *small_models.REST))
def test_bits_are_of_probabilities_that_sum_to_one_given_the_bytes_before(variant):
    """So the bits of an image's bytes sum up to -log2 of the probability of the
    image, of which there are 256^N.
    """
    config = small_models.config_of(variant)
    model = small_models.model(config)
    for position in (0, 5, config.bytes - 1):
        images = small_models.tensor(config, 1).repeat(256, 1)
        images[:, position] = torch.arange(256)
        found = bits(model, images)
        assert (-found[:, position]).exp2().sum().item() == pytest.approx(1, abs=1e-4)
        if position:
            before = found[:, :position]
            assert_close("bits of earlier bytes", before[:1].expand_as(before), before)


def test_first_byte_costs_what_the_histogram_says():
    model = small_models.model(small_models.config(**small_models.NO_START))
    images = small_models.tensor(model.config, 3)
    expected = [-np.log2(small_models.HISTOGRAM[value]) for value in images[:, 0].tolist()]
    assert_close(
        "bits",
        torch.tensor(expected),
        bits(model, images)[:, 0],
    )
    certain = small_models.config(start_token=False, first_byte_histogram=(1.0,) + (0.0,) * 255)
    assert bits(small_models.model(certain), torch.ones(1, 20, dtype=torch.uint8))[0, 0].isinf()


@pytest.mark.parametrize("variant", ["plain", "histogram", "strokes", "pixels"])
def test_the_backend_scores_as_the_parallel_view_in_any_batch(variant, monkeypatch):
    monkeypatch.setattr(likelihood, "BATCH", 3)
    model = small_models.model_of(variant)
    done = []
    images = small_models.images(model.config, 7)
    expected = bits(model, torch.from_numpy(images))
    generator = Generator(model, 1)
    assert_close("bits", expected, torch.from_numpy(generator.score(images)))
    generator.close()
    found = likelihood.bits_per_dim(model, images, progress=done.append)
    assert_close(
        "bits per dimension",
        expected.mean(dim=1),
        torch.from_numpy(found),
    )
    assert done == [3, 6, 7]


def test_the_standard_error_of_a_mean():
    assert standard_error(np.array([1.0, 2.0, 3.0, 6.0])) == pytest.approx((14 / 3) ** 0.5 / 2)
    assert standard_error(np.array([1.0])) is None
