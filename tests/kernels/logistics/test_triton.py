"""Sampling a mixture of logistics in Triton: the bytes and costs of the reference."""

import math

import pytest
import torch

from tests.support.kernels.gpu import there  # isort: skip

from scanline.kernels.logistics import Logistics
from scanline.kernels.logistics.triton import sample
from tests.support.close import assert_close
from tests.support.engine.slot_arrays import (
    BATCH,
    assert_painted,
    copy,
    near_halves,
    painted,
    pool,
    some_slots,
    untouched,
)

LENGTH, COMPONENTS = 12, 5


def case(offset: float = -2.0) -> torch.Tensor:
    """Parameters [BATCH, 3K], scales around e^offset."""
    parameters = torch.randn(BATCH, 3 * COMPONENTS) * 2
    parameters[:, 2 * COMPONENTS :] += offset
    return there(parameters)[0]


@pytest.mark.parametrize("offset", [-5.0, -2.0, 3.0])
@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_bytes_and_costs_are_those_of_the_reference_and_other_slots_stay(scale: str, offset: float) -> None:
    parameters, slots, before = case(offset), some_slots(), pool(LENGTH)
    after = copy(before)
    sample(parameters, slots, **after, scale=scale)
    slot, law, means = slots[slots >= 0], Logistics(COMPONENTS, scale), slice(COMPONENTS, 2 * COMPONENTS)
    images, cost, known_cost = painted(law, parameters, slots, before)
    same = assert_painted(images, after["images"], near_halves(law, means, parameters, slots, before))[slot]
    assert same.sum() > len(slot) / 2
    assert_close("bits", cost[same], (after["bits"] - before["bits"])[slot][same])
    assert_close("known bits", known_cost[same], (after["known_bits"] - before["known_bits"])[slot][same])
    assert torch.equal(after["position"][slot], before["position"][slot] + 1)
    assert untouched(slots, before, after)


@pytest.mark.parametrize(
    ("byte", "mean", "raw", "cost"),
    [
        # the middle of one very wide component, where the two ends of a bin differ in their last bits only
        (128, 0.0, 8.0, -math.log2(1 / 127.5 / math.e**8 / 4)),
        # black where one component at white has the narrowest scale, floored at e^-7: its probability underflows, and
        # log sigmoid(-x) is -x for an x as large
        (0, 1.0, -60.0, (2 - 1 / 255) * math.e**7 / math.log(2)),
    ],
)
def test_costs_of_extreme_scales_are_exact_and_finite(byte: int, mean: float, raw: float, cost: float) -> None:
    state = {name: tensor[:1].clone() for name, tensor in pool(LENGTH).items()}
    state["known"][:], state["images"][:] = True, byte
    for name in ("bits", "known_bits"):
        state[name][:] = 0
    sample(*there(torch.tensor([[0.0, mean, raw]]), torch.tensor([0])), **state, scale="exp")
    assert_close("bits", torch.tensor([cost]), state["bits"].cpu())
    assert torch.equal(state["bits"], state["known_bits"])


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown scale parametrisation 'log'; known: exp, elu"):
        sample(case(), some_slots(), **pool(LENGTH), scale="log")
