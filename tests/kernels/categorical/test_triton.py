"""Sampling one of 256 values in Triton: the bytes and costs of the reference."""

import pytest
import torch

from tests.support.gpu import there  # isort: skip

from scanline.kernels.categorical import Categorical
from scanline.kernels.categorical.triton import sample
from tests.support.close import assert_close
from tests.support.slot_arrays import BATCH, copy, painted, pool, some_slots, untouched

LENGTH = 11


@pytest.mark.parametrize("spread", [0.5, 3.0, 30.0])
def test_bytes_and_costs_are_those_of_the_reference_and_other_slots_stay(spread: float) -> None:
    (parameters,), slots, before = there(torch.randn(BATCH, 256) * spread), some_slots(), pool(LENGTH)
    after = copy(before)
    sample(parameters, slots, **after)
    slot = slots[slots >= 0]
    images, cost, known_cost = painted(Categorical(), parameters, slots, before)
    assert torch.equal(images, after["images"])
    assert_close("bits", cost, (after["bits"] - before["bits"])[slot])
    assert_close("known bits", known_cost, (after["known_bits"] - before["known_bits"])[slot])
    assert torch.equal(after["position"][slot], before["position"][slot] + 1)
    assert untouched(slots, before, after)


def test_an_image_alone_has_the_same_bits() -> None:
    (parameters,), slots, before = there(torch.randn(BATCH, 256) * 3), some_slots(), pool(LENGTH)
    together, alone = copy(before), copy(before)
    sample(parameters, slots, **together)
    for i in (0, 5, BATCH - 1):
        sample(parameters[i : i + 1], slots[i : i + 1], **alone)
        slot = slots[i]
        assert all(torch.equal(together[name][slot], alone[name][slot]) for name in before)


def test_another_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        sample(torch.zeros(BATCH, 255), some_slots(), **pool(LENGTH))
