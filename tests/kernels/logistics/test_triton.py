"""Sampling in Triton: the random words of kernels/philox.py, the bytes and costs of the reference."""

import math

import pytest
import torch

from tests.support.gpu import DEVICE, there  # isort: skip

import triton
import triton.language as tl

from scanline.kernels import mixture, philox
from scanline.kernels.mixture.anchors import anchored, candidates
from scanline.kernels.mixture.triton import sample, uniforms
from tests.support import small_models
from tests.support.close import assert_close

POOL, LENGTH, COMPONENTS = 40, 12, 5
Pool = dict[str, torch.Tensor]


@triton.jit
def _draw(seed, index, position, out, count: tl.constexpr):
    i = tl.arange(0, count)
    first, second = uniforms(tl.load(seed + i), tl.load(index + i), tl.load(position + i))
    tl.store(out + 2 * i, first)
    tl.store(out + 2 * i + 1, second)


def test_uniforms_are_philox_bit_for_bit() -> None:
    seed, index = torch.randint(0, 2**63 - 1, (64,)), torch.randint(0, 2**40, (64,))
    position = torch.randint(0, 3072, (64,))
    seed[:2], index[:2] = torch.tensor([0, 2**63 - 1]), torch.tensor([0, 2**32])
    out = torch.empty(64, 2, device=DEVICE)
    _draw[(1,)](*there(seed, index, position), out, 64)
    assert torch.equal(philox.uniforms(seed, index, position), out.cpu())


def pool() -> Pool:
    """Images anywhere, of every kind, a third of their bytes known."""
    position = torch.randint(0, LENGTH, (POOL,))
    values = {
        "images": torch.randint(0, 256, (POOL, LENGTH), dtype=torch.uint8),
        "known": torch.rand(POOL, LENGTH) < 0.3,
        "bits": torch.rand(POOL, dtype=torch.float64) * 1000,
        "temperature": torch.rand(POOL) + 0.5,
        "seed": torch.randint(0, 2**62, (POOL,)),
        "index": torch.randint(0, 2**40, (POOL,)),
        "position": position,
    }
    return dict(zip(values, there(*values.values()), strict=True))


def case(offset: float = -2.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Parameters [22, 3K], scales around e^offset, and the slots they belong to, two of them none."""
    parameters = torch.randn(22, 3 * COMPONENTS) * 2
    parameters[:, 2 * COMPONENTS :] += offset
    slots = torch.randperm(POOL)[:22]
    slots[[3, 7]] = -1
    return there(parameters, slots)


@pytest.mark.parametrize("offset", [-5.0, -2.0, 3.0])
@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_bytes_and_costs_are_those_of_the_mixture(scale: str, offset: float) -> None:
    (parameters, slots), before = case(offset), pool()
    after = {name: tensor.clone() for name, tensor in before.items()}
    sample(parameters, slots, **after, scale=scale)
    slot = slots[slots >= 0]
    place, own = before["position"][slot], parameters[slots >= 0]
    draws = philox.uniforms(before["seed"][slot], before["index"][slot], place)
    painted = mixture.sample(own.double(), draws, before["temperature"][slot], scale)
    expected = before["images"].clone()
    expected[slot, place] = torch.where(before["known"][slot, place], before["images"][slot, place], painted)
    assert torch.equal(expected, after["images"])
    cost = mixture.bits(own, expected[slot, place], scale)
    assert_close("bits", cost, (after["bits"] - before["bits"])[slot])
    assert torch.equal(after["position"][slot], place + 1)


@pytest.mark.parametrize(("width", "channels"), [(3, 1), (2, 3)])
def test_means_may_be_offsets_from_painted_neighbours(width: int, channels: int) -> None:
    (parameters, slots), before = case(), pool()
    height = LENGTH // (width * channels)
    config = small_models.config(height=height, width=width, channels=channels, anchors=True)
    after = {name: tensor.clone() for name, tensor in before.items()}
    raw = torch.cat((parameters, torch.randn(len(slots), config.anchor_numbers, device=DEVICE) * 3), dim=1)
    sample(raw, slots, **after, scale="exp", grid=(width, channels))
    slot = slots[slots >= 0]
    place = before["position"][slot].unsqueeze(1)
    anchors = candidates(before["images"][slot], place, config.width, config.channels)
    shifted = anchored(raw[slots >= 0].unsqueeze(1), *anchors, COMPONENTS).squeeze(1)
    values = after["images"][slot].gather(1, place).squeeze(1)
    cost = mixture.bits(shifted, values, "exp")
    assert_close("bits", cost, (after["bits"] - before["bits"])[slot])


def test_rows_that_were_not_chosen_stay_as_they_are() -> None:
    (parameters, slots), before = case(), pool()
    after = {name: tensor.clone() for name, tensor in before.items()}
    sample(parameters, slots, **after, scale="exp")
    idle = torch.ones(POOL, dtype=torch.bool)
    idle[slots[slots >= 0].cpu()] = False
    assert all(torch.equal(before[name][idle], after[name][idle]) for name in before)


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
    state = {name: tensor[:1].clone() for name, tensor in pool().items()}
    state["known"][:], state["images"][:], state["bits"][:] = True, byte, 0
    sample(*there(torch.tensor([[0.0, mean, raw]]), torch.tensor([0])), **state, scale="exp")
    assert_close("bits", torch.tensor([cost]), state["bits"].cpu())


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown scale parametrisation 'log'; known: exp, elu"):
        sample(*case(), **pool(), scale="log")
