"""Sampling the bytes of a pixel in Triton: the bytes and costs of the reference, from posteriors given known bytes."""

import math

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.philox import uniforms
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.triton import sample
from tests.support.close import assert_close
from tests.support.engine.slot_arrays import (
    BATCH,
    Pool,
    arrays,
    assert_painted,
    copy,
    near_halves,
    painted,
    pool,
    some_slots,
    unguided,
    untouched,
)

PIXELS = 4
MIXTURES = [PixelLogistics(*size) for size in [(5, 3), (1, 3), (5, 1), (5, 1, "elu")]]


def case(mixture: PixelLogistics, offset: float = -2.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Parameters [BATCH, width], scales around e^offset, and base [BATCH, C]."""
    parameters, scales = torch.randn(BATCH, mixture.width), mixture.components * (1 + mixture.channels)
    parameters[:, scales : scales + mixture.components * mixture.channels] += offset
    return there(parameters, torch.randn(BATCH, mixture.channels) / 2)


def with_base(mixture: PixelLogistics, parameters: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """The parameters as the reference takes them."""
    moved, (k, c) = parameters.double(), (mixture.components, mixture.channels)
    moved[:, k : k + k * c] += base.repeat(1, k)
    return moved


@pytest.mark.parametrize(("mixture", "offset"), [*zip(MIXTURES, (-5.0, -2.0, -2.0, 2.0), strict=True)], ids=str)
def test_bytes_and_costs_are_those_of_the_reference_and_other_slots_stay(
    mixture: PixelLogistics, offset: float
) -> None:
    (parameters, base), slots, before = (
        case(mixture, offset),
        some_slots(),
        pool(PIXELS * mixture.channels, mixture.channels),
    )
    after = copy(before)
    sample(parameters, base, slots, arrays(after), distribution=mixture)
    slot = slots[slots >= 0]
    own, means = (
        with_base(mixture, parameters, base),
        slice(mixture.components, mixture.components * (1 + mixture.channels)),
    )
    images, cost, known_cost = painted(mixture, own, slots, before, mixture.channels)
    near = near_halves(mixture, means, own, slots, before, mixture.channels)
    same = assert_painted(images, after["images"], near)[slot]
    assert same.sum() > len(slot) / 2
    assert_close("bits", cost[same], (after["bits"] - before["bits"])[slot][same])
    assert_close("known bits", known_cost[same], (after["known_bits"] - before["known_bits"])[slot][same])
    assert torch.equal(after["position"][slot], before["position"][slot] + mixture.channels)
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
    state = {name: tensor[:1].clone() for name, tensor in pool(PIXELS).items()}
    state["known"][:], state["images"][:] = True, byte
    for name in ("bits", "known_bits"):
        state[name][:] = 0
    parameters, base, slots = there(torch.tensor([[0.0, mean, raw]]), torch.zeros(1, 1), torch.tensor([0]))
    sample(parameters, base, slots, arrays(state), distribution=PixelLogistics(1, 1))
    assert_close("bits", torch.tensor([cost]), state["bits"].cpu())
    assert torch.equal(state["bits"], state["known_bits"])


def test_a_known_byte_decides_the_component_of_the_next() -> None:
    mixture, before = PixelLogistics(2, 3), pool(3, 3)
    # two components alike but for their means: black, or white; the first byte says which of them it is
    parameters = torch.zeros(BATCH, mixture.width)
    parameters[:, 2:8], parameters[:, 8:14] = torch.tensor([-1.0] * 3 + [1.0] * 3), -5.0
    before["images"][:, 0] = torch.arange(len(before["images"]), device=DEVICE) % 2 * 255
    before["known"][:] = torch.tensor([True, False, False])
    slots = some_slots()
    sample(*there(parameters, torch.zeros(BATCH, 3)), slots, arrays(before), distribution=mixture)
    painted_bytes = before["images"][slots[slots >= 0]].int()
    assert painted_bytes[:, 0].unique().tolist() == [0, 255]
    assert (painted_bytes - painted_bytes[:, :1]).abs().max() < 16


def test_bits_of_known_bytes_are_those_given_the_earlier_bytes_painted_or_known() -> None:
    mixture, before = PixelLogistics(2, 3), pool(3, 3)
    (parameters, base), slots = case(mixture), some_slots()
    slot = slots[slots >= 0]
    before["known"][:] = torch.tensor([False, True, False])
    after, costs = copy(before), there(torch.zeros(BATCH, 3, dtype=torch.float64))[0]
    sample(parameters, base, slots, arrays(after), distribution=mixture, costs=costs)
    assert torch.equal((before["known_bits"][slot] + costs[slots >= 0, 1]), after["known_bits"][slot])


@pytest.mark.parametrize("mixture", MIXTURES[::3], ids=str)
def test_an_image_alone_has_the_same_bits(mixture: PixelLogistics) -> None:
    (parameters, base), slots, before = case(mixture), some_slots(), pool(PIXELS * mixture.channels, mixture.channels)
    together, alone = copy(before), copy(before)
    sample(parameters, base, slots, arrays(together), distribution=mixture)
    for i in (0, 5, BATCH - 1):
        sample(parameters[i : i + 1], base[i : i + 1], slots[i : i + 1], arrays(alone), distribution=mixture)
        slot = slots[i]
        assert all(torch.equal(together[name][slot], alone[name][slot]) for name in before)


def test_sizes_that_do_not_fit_are_refused() -> None:
    mixture = PixelLogistics(5, 3)
    parameters, base = case(mixture)
    with pytest.raises(ValueError, match="do not fit"):
        sample(parameters[:, 1:].contiguous(), base, some_slots(), arrays(pool(12, 3)), distribution=mixture)
    with pytest.raises(ValueError, match=r"base \[12, 2\] does not fit 12 pixels of 3 bytes"):
        sample(parameters, base[:, 1:].contiguous(), some_slots(), arrays(pool(12, 3)), distribution=mixture)


def guided_pairs(length: int, channels: int) -> tuple[Pool, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """A pool whose slots 9 and 2, and 4 and 6, are those of guided images; and what guides them."""
    before, of_guided = pool(length, channels), unguided()
    for one, other in ((9, 2), (4, 6)):
        for name in ("images", "known", "seed", "index", "temperature", "position"):
            before[name][other] = before[name][one]
        of_guided["label"][one] = 3
        of_guided["partner"][one], of_guided["partner"][other] = other - one, one - other
        of_guided["guidance"][[one, other]] = 2.5
    return before, (of_guided["label"], of_guided["partner"], of_guided["guidance"])


@pytest.mark.parametrize("mixture", MIXTURES[::2], ids=str)
def test_a_guided_pair_draws_the_bytes_of_the_reference_and_pays_for_them_under_its_own(
    mixture: PixelLogistics,
) -> None:
    before, guiding = guided_pairs(PIXELS * mixture.channels, mixture.channels)
    parameters, base = (part[:5].contiguous() for part in case(mixture))
    base[1], base[3] = base[0], base[2]
    slots = there(torch.tensor([9, 2, 6, 4, 5]))[0]
    after, plain = copy(before), copy(before)
    sample(parameters, base, slots, arrays(after), distribution=mixture, guiding=guiding)
    sample(parameters, base, slots, arrays(plain), distribution=mixture)
    places = before["position"][slots, None] + torch.arange(mixture.channels, device=DEVICE)
    values, known = (before[name][slots].gather(1, places) for name in ("images", "known"))
    draws = uniforms(before["seed"][slots, None], before["index"][slots, None], places)
    own, with_class = with_base(mixture, parameters, base), torch.tensor([0, 0, 3, 3], device=DEVICE)
    given = draws[:4], before["temperature"][slots[:4]], values[:4], known[:4]
    expected = mixture.sample_guided(own[with_class], own[with_class ^ 1], guiding[2][slots[:4]], *given)
    painted_bytes = after["images"][slots].gather(1, places)
    assert torch.equal(expected, painted_bytes[:4])
    assert torch.equal(after["images"][5], plain["images"][5])
    costs = -mixture.log_prob(own, painted_bytes).double() / math.log(2)
    assert_close("bits", costs.sum(dim=1), (after["bits"] - before["bits"])[slots])
    assert_close("known bits", (costs * known).sum(dim=1), (after["known_bits"] - before["known_bits"])[slots])


def test_a_guided_image_costs_nan_where_the_parameters_without_its_class_are_not_finite() -> None:
    mixture = PixelLogistics(5, 3)
    before, guiding = guided_pairs(12, 3)
    parameters, base = (part[:4].contiguous() for part in case(mixture))
    parameters[1, 30] = float("inf")
    sample(
        parameters, base, there(torch.tensor([9, 2, 4, 6]))[0], arrays(before), distribution=mixture, guiding=guiding
    )
    assert before["bits"][[9, 2]].isnan().all()
    assert before["bits"][[4, 6]].isfinite().all()
