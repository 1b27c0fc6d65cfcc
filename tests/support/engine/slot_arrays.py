"""Slots as the sampling kernels see them, and what a distribution's reference paints in them."""

from dataclasses import fields

import torch

from scanline.kernels import philox
from scanline.kernels.triton.sampling import Guiding, SlotArrays
from scanline.model.network.distribution import Distribution
from scanline.model.state import NUMBERS, State
from tests.support.kernels.gpu import there

POOL, BATCH = 20, 12
Pool = dict[str, torch.Tensor]


def clear(state: State, slot: int, first: int) -> None:
    """Set `slot` to zero at position `first`, in place, whatever it held."""
    for name in NUMBERS:
        getattr(state, name)[:, slot] = 0
    state.position[slot] = first


def pool(length: int, step_bytes: int = 1) -> Pool:
    """Images of `length` bytes, each at any step, of every kind, a third of their bytes known."""
    values = {
        "images": torch.randint(0, 256, (POOL, length), dtype=torch.uint8),
        "known": torch.rand(POOL, length) < 0.3,
        "bits": torch.rand(POOL, dtype=torch.float64) * 1000,
        "known_bits": torch.rand(POOL, dtype=torch.float64) * 1000,
        "temperature": torch.rand(POOL) + 0.5,
        "seed": torch.randint(0, 2**62, (POOL,)),
        "index": torch.randint(0, 2**40, (POOL,)),
        "position": torch.randint(0, length // step_bytes, (POOL,)) * step_bytes,
    }
    return dict(zip(values, there(*values.values()), strict=True))


def unguided() -> Pool:
    """What only the sampling kernel of 256 logits takes: no image is guided."""
    labels = {name: torch.zeros(POOL, dtype=torch.int64) for name in ("label", "partner")}
    values = labels | {"guidance": torch.ones(POOL)}
    return dict(zip(values, there(*values.values()), strict=True))


def arrays(pool: Pool) -> SlotArrays:
    """The pool as the sampling kernels take it."""
    return SlotArrays(**{field.name: pool[field.name] for field in fields(SlotArrays)})


def guiding(pool: Pool) -> Guiding:
    """What guides images of a pool with `unguided`."""
    return pool["label"], pool["partner"], pool["guidance"]


def some_slots() -> torch.Tensor:
    """The slots [BATCH] of a batch, two of them none."""
    slots = torch.randperm(POOL)[:BATCH]
    slots[[3, 7]] = -1
    return there(slots)[0]


def copy(pool: Pool) -> Pool:
    return {name: tensor.clone() for name, tensor in pool.items()}


def painted(
    distribution: Distribution, parameters: torch.Tensor, slots: torch.Tensor, before: Pool, step_bytes: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the images [POOL, N] after a step by the reference in float64, and of the chosen the cost [n] in bits, of
    all bytes and of those that are known."""
    slot, own = slots[slots >= 0], parameters[slots >= 0].double()
    places = before["position"][slot, None] + torch.arange(step_bytes, device=slots.device)
    draws = philox.uniforms(before["seed"][slot, None], before["index"][slot, None], places)
    values, known = before["images"][slot].gather(1, places), before["known"][slot].gather(1, places)
    bytes_ = distribution.sample(own, draws, before["temperature"][slot], values, known)
    after = before["images"].clone()
    after[slot] = after[slot].scatter(1, places, bytes_)
    costs = -distribution.log_prob(own, bytes_).double() / torch.log(torch.tensor(2.0, dtype=torch.float64))
    return after, costs.sum(dim=1), (costs * known).sum(dim=1)


def near_halves(
    distribution: Distribution,
    means: slice,
    parameters: torch.Tensor,
    slots: torch.Tensor,
    before: Pool,
    step_bytes: int = 1,
) -> torch.Tensor:
    """Return which images [POOL] have a byte rounded from within 1e-3 of a half, which another logarithm may round
    the other way. `means` are the columns of the parameters that move a byte, by 127.5 times as much."""
    moved = []
    for shift in (-1e-3 / 127.5, 1e-3 / 127.5):
        shifted = parameters.clone()
        shifted[:, means] += shift
        moved.append(painted(distribution, shifted, slots, before, step_bytes)[0])
    return (moved[0] != moved[1]).any(dim=1)


def assert_painted(expected: torch.Tensor, images: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """Fails where images [POOL, N] differ, but for a step of one in the first byte of those that are `near` [POOL] a
    half; returns which are the same."""
    different = expected != images
    assert not different[~near].any()
    for image in different.any(dim=1).nonzero().flatten().tolist():
        first = int(different[image].nonzero()[0])
        assert abs(int(expected[image, first]) - int(images[image, first])) == 1
    return ~different.any(dim=1)


def untouched(slots: torch.Tensor, before: Pool, after: Pool) -> bool:
    """Whether all that belongs to slots that were not chosen is as it was."""
    idle = torch.ones(POOL, dtype=torch.bool, device=slots.device)
    idle[slots[slots >= 0]] = False
    return all(torch.equal(before[name][idle], after[name][idle]) for name in before)
