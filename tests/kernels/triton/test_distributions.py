"""Sampling in Triton by each distribution, and the parts that the
kernels share, against the references.
"""

from math import e, inf, log, log2, nan

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip


from scanline.kernels import LN2, philox
from scanline.kernels.categorical import Categorical
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.triton.sampling import draw_uniforms
from tests.support.close import assert_close
from tests.support.engine.pools import (
    BATCH,
    POOL,
    channels,
    copy,
    guiding,
    pool,
    sample,
    some_slots,
    with_base,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter

STEPS = 4  # of an image
MIXTURES = [PixelLogistics(*size) for size in [(5, 3), (1, 3), (5, 1), (5, 1, "elu")]]


def case(distribution, spread=None):
    """Parameters [BATCH, width], logits as large as `spread` or scales
    around e^spread, and base [BATCH, C].
    """
    parameters = torch.randn(BATCH, distribution.width)
    if isinstance(distribution, PixelLogistics):
        scales = distribution.components * (1 + distribution.channels)
        parameters[:, scales : scales + distribution.components * distribution.channels] += (
            spread or -2.0
        )
    else:
        parameters *= spread or 3.0
    return there(parameters, torch.randn(BATCH, channels(distribution)) / 2)


def pool_of(distribution):
    return pool(STEPS * channels(distribution), channels(distribution))


def painted(distribution, parameters, slots, before):
    """Return the images [POOL, N] after a step by the reference in float64, and of the chosen the
    cost [n] in bits, of all bytes and of those that are known."""
    slot = slots[slots >= 0]
    own = parameters[slots >= 0]
    places = before["position"][slot, None] + torch.arange(channels(distribution), device=DEVICE)
    draws = philox.uniforms(before["seed"][slot, None], before["index"][slot, None], places)
    values = before["images"][slot].gather(1, places)
    known = before["known"][slot].gather(1, places)
    bytes_ = distribution.sample(own, draws, before["temperature"][slot], values, known)
    after = before["images"].clone()
    after[slot] = after[slot].scatter(1, places, bytes_)
    costs = -distribution.log_prob(own, bytes_).double() / LN2
    return after, costs.sum(dim=1), (costs * known).sum(dim=1)


def same_images(
    distribution,
    parameters,
    slots,
    before,
    after,
):
    """Return which images [POOL] the reference paints, too. Fail where others differ but for a step
    of one in the first byte of a mixture's that is rounded from within 1e-3 of a half, which
    another logarithm may round the other way."""
    expected = painted(distribution, parameters, slots, before)[0]
    shift = torch.full((BATCH, 3), 1e-3 / 127.5)
    # of means, by which bytes move
    shifts = (by[:, : channels(distribution)].to(DEVICE) for by in (-shift, shift))
    moved = [
        painted(distribution, with_base(distribution, parameters, by), slots, before)[0]
        for by in shifts
    ]
    different = expected != after["images"]
    near = (moved[0] != moved[1]).any(dim=1)
    assert not different[~near].any()
    for image in different.any(dim=1).nonzero().flatten().tolist():
        first = int(different[image].nonzero()[0])
        assert abs(int(expected[image, first]) - int(after["images"][image, first])) == 1
    return ~different.any(dim=1)


@pytest.mark.parametrize(
    ("distribution", "spread"),
    [
        *((Categorical(), spread) for spread in (0.5, 3.0, 30.0)),
        *zip(MIXTURES, (-5.0, -2.0, -2.0, 2.0), strict=True),
    ],
    ids=str,
)
def test_bytes_and_costs_are_the_reference_and_other_slots_stay(distribution, spread):
    (parameters, base), slots, before = (
        case(distribution, spread),
        some_slots(),
        pool_of(distribution),
    )
    after = copy(before)
    slot = slots[slots >= 0]
    own = with_base(distribution, parameters.double(), base)
    sample(distribution, parameters, base, slots, after)
    _, cost, known_cost = painted(distribution, own, slots, before)
    same = same_images(distribution, own, slots, before, after)[slot]
    assert same.sum() > len(slot) / 2
    assert_close("bits", cost[same], (after["bits"] - before["bits"])[slot][same])
    assert_close(
        "known bits", known_cost[same], (after["known_bits"] - before["known_bits"])[slot][same]
    )
    assert torch.equal(after["position"][slot], before["position"][slot] + channels(distribution))
    idle = torch.ones(POOL, dtype=torch.bool, device=DEVICE)
    idle[slot] = False
    assert all(torch.equal(before[name][idle], after[name][idle]) for name in before)


@pytest.mark.parametrize("distribution", [Categorical(), MIXTURES[0]], ids=str)
def test_an_image_alone_has_the_same_bits(distribution):
    parameters, base = case(distribution)
    slots = some_slots()
    together = pool_of(distribution)
    alone = copy(together)
    sample(distribution, parameters, base, slots, together)
    for row in (0, 5, BATCH - 1):
        one = slice(row, row + 1)
        sample(distribution, parameters[one], base[one], slots[one], alone)
        for name in together:
            assert torch.equal(together[name][slots[row]], alone[name][slots[row]])


@pytest.mark.parametrize(
    ("byte", "mean", "raw", "cost"),
    [
        # the middle of one very wide component, where the two ends of
        # a bin differ in their last bits only
        (128, 0.0, 8.0, -log2(1 / 127.5 / e**8 / 4)),
        # black where one component at white has the narrowest scale, floored at e^-7: its
        # probability underflows, and log sigmoid(-x) is -x for an x as large
        (0, 1.0, -60.0, (2 - 1 / 255) * e**7 / log(2)),
    ],
)
def test_costs_of_extreme_scales_are_exact_and_finite(byte, mean, raw, cost):
    state = {name: tensor[:1].clone() for name, tensor in pool(STEPS).items()}
    state["known"][:], state["images"][:] = True, byte
    state["bits"][:] = state["known_bits"][:] = 0
    given = there(torch.tensor([[0.0, mean, raw]]), torch.zeros(1, 1), torch.tensor([0]))
    sample(PixelLogistics(1, 1), *given, state)
    assert_close("bits", torch.tensor([cost]), state["bits"].cpu())
    assert torch.equal(state["bits"], state["known_bits"])


def with_pairs(before):
    """The pool, whose slots 9 and 2, and 4 and 6, become those of guided images."""
    for one, other in ((9, 2), (4, 6)):
        for name in ("images", "known", "seed", "index", "temperature", "position"):
            before[name][other] = before[name][one]
        before["label"][one] = 3
        before["partner"][one], before["partner"][other] = other - one, one - other
        before["guidance"][[one, other]] = 2.5
    return before


@pytest.mark.parametrize(
    ("distribution", "value"), [(Categorical(), nan), (PixelLogistics(5, 3), inf)]
)
def test_a_guided_image_costs_nan_where_its_other_slot_is_not_finite(distribution, value):
    before = with_pairs(pool_of(distribution))
    parameters, base = (part[:4].contiguous() for part in case(distribution))
    parameters[1, 30] = value
    sample(
        distribution,
        parameters,
        base,
        there(torch.tensor([9, 2, 4, 6]))[0],
        before,
        guiding=guiding(before),
    )
    assert before["bits"][[9, 2]].isnan().all()
    assert before["bits"][[4, 6]].isfinite().all()


@pytest.mark.parametrize(
    ("distribution", "value"),
    [
        (Categorical(), nan),
        (Categorical(), -inf),
        (PixelLogistics(3, 1), inf),
        (PixelLogistics(2, 3), nan),
    ],
    ids=str,
)
def test_a_parameter_that_is_not_finite_shows_in_its_image_s_bits(distribution, value):
    parameters, base = case(distribution)
    slots = some_slots()
    sound = pool(6, 3)
    unsound = copy(sound)
    wrong = parameters.clone()
    rows = torch.arange(0, BATCH, 2)
    column = torch.linspace(0, distribution.width - 1, len(rows)).long()
    wrong[rows, column] = value
    sample(distribution, parameters, base, slots, sound)
    sample(distribution, wrong, base, slots, unsound)
    bad = slots[rows][slots[rows] >= 0]
    good = torch.ones(POOL, dtype=torch.bool, device=DEVICE)
    good[bad] = False
    assert unsound["bits"][bad].isnan().all()
    for name in sound:
        assert torch.equal(sound[name][good], unsound[name][good])


def test_uniforms_are_philox_bit_for_bit():
    count = 200  # more than a program has
    seed = torch.randint(0, 2**63 - 1, (count,))
    index = torch.randint(0, 2**63 - 1, (count,))
    position = torch.randint(0, 3072, (count,))
    seed[:2], index[:2] = torch.tensor([0, 2**63 - 1]), torch.tensor([0, 2**32])
    for part in (slice(0, count), slice(3, 4)):  # from a place that is not aligned, too
        given = [tensor[part] for tensor in there(seed, index, position)]
        assert torch.equal(
            philox.uniforms(seed, index, position)[part], draw_uniforms(*given).cpu()
        )
    with pytest.raises(ValueError, match=r"seeds \[200\], indices \[199\]"):
        draw_uniforms(seed, index[1:], position)
