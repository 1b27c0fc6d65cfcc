"""The moving average of the weights: short of memory at first, then the decay that was asked for."""

import torch

from scanline.model.training.average import Average
from tests.support import small_models
from tests.support.close import assert_close


def test_it_begins_as_a_copy_that_training_does_not_touch() -> None:
    model = small_models.model(small_models.config())
    average = Average(model, 0.9)
    before = model.head.weight.clone()
    model.head.weight.zero_()
    assert torch.equal(average.model.head.weight, before)


def test_it_moves_by_one_less_the_decay() -> None:
    model = small_models.model(small_models.config())
    average = Average(model, 0.9)
    before = average.model.head.weight.clone()
    model.head.weight.add_(1)
    average.follow(model, update=10_000)
    assert_close("average", before + 0.1, average.model.head.weight)


def test_its_memory_is_short_in_the_first_updates() -> None:
    model = small_models.model(small_models.config())
    average = Average(model, 0.999)
    before = average.model.head.weight.clone()
    model.head.weight.add_(1)
    average.follow(model, update=0)
    assert_close("average", before + 0.9, average.model.head.weight)
