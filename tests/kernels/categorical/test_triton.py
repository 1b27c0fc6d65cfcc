"""Sampling one of 256 values in Triton: the bytes and costs of the reference."""

import pytest
import torch

from tests.support.kernels.gpu import there  # isort: skip

from scanline.kernels.categorical import Categorical
from scanline.kernels.categorical.reference import guided
from scanline.kernels.categorical.triton import sample
from tests.support.close import assert_close
from tests.support.engine.slot_arrays import (
    BATCH,
    arrays,
    copy,
    guiding,
    painted,
    pool,
    some_slots,
    unguided,
    untouched,
)

LENGTH = 11


@pytest.mark.parametrize("spread", [0.5, 3.0, 30.0])
def test_bytes_and_costs_are_those_of_the_reference_and_other_slots_stay(spread: float) -> None:
    (parameters,), slots, before = there(torch.randn(BATCH, 256) * spread), some_slots(), pool(LENGTH) | unguided()
    after = copy(before)
    sample(parameters, slots, arrays(after), guiding(after))
    slot = slots[slots >= 0]
    images, cost, known_cost = painted(Categorical(), parameters, slots, before)
    assert torch.equal(images, after["images"])
    assert_close("bits", cost, (after["bits"] - before["bits"])[slot])
    assert_close("known bits", known_cost, (after["known_bits"] - before["known_bits"])[slot])
    assert torch.equal(after["position"][slot], before["position"][slot] + 1)
    assert untouched(slots, before, after)


def test_an_image_alone_has_the_same_bits() -> None:
    (parameters,), slots, before = there(torch.randn(BATCH, 256) * 3), some_slots(), pool(LENGTH) | unguided()
    together, alone = copy(before), copy(before)
    sample(parameters, slots, arrays(together), guiding(together))
    for i in (0, 5, BATCH - 1):
        sample(parameters[i : i + 1], slots[i : i + 1], arrays(alone), guiding(alone))
        slot = slots[i]
        assert all(torch.equal(together[name][slot], alone[name][slot]) for name in before)


def test_another_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        sample(torch.zeros(BATCH, 255), some_slots(), arrays(pool(LENGTH)), guiding(unguided()))


def test_a_guided_pair_draws_one_byte_from_the_mixed_logits_and_pays_for_it_under_its_own() -> None:
    logits, before = torch.randn(4, 256) * 3, pool(LENGTH) | unguided()
    slots, (parameters,) = there(torch.tensor([9, 2, 5, -1]))[0], there(logits)
    for name in ("images", "known", "seed", "index", "temperature", "position"):
        before[name][2] = before[name][9]
    before["label"][9], before["label"][5] = 3, 3
    before["partner"][9], before["partner"][2] = -7, 7
    before["guidance"][[9, 2]] = 2.5
    after, mixed = copy(before), parameters.clone()
    sample(parameters, slots, arrays(after), guiding(after))
    mixed[:2] = guided(parameters[:1], parameters[1:2], before["guidance"][9])
    images, _, _ = painted(Categorical(), mixed, slots, before)
    assert torch.equal(images, after["images"])
    assert torch.equal(after["images"][9], after["images"][2])
    place = before["position"][slots[:3], None]
    values = after["images"][slots[:3]].gather(1, place)
    costs = -Categorical().log_prob(parameters[:3], values).double()[:, 0] / torch.log(torch.tensor(2.0).double())
    assert_close("bits", costs, (after["bits"] - before["bits"])[slots[:3]])
    assert after["bits"][9] != after["bits"][2]


def test_a_guided_image_costs_nan_where_the_logits_without_its_class_are_not_finite() -> None:
    before = pool(LENGTH) | unguided()
    slots, (parameters,) = there(torch.tensor([4, 6, 8, 10]))[0], there(torch.randn(4, 256))
    parameters[1, 7] = float("nan")
    before["label"][[4, 8]] = 1
    before["partner"][[4, 8]], before["partner"][[6, 10]] = 2, -2
    after = copy(before)
    sample(parameters, slots, arrays(after), guiding(after))
    assert after["bits"][[4, 6]].isnan().all()
    assert after["bits"][[8, 10]].isfinite().all()
