"""Images join and leave a pool in batches, on the host and by torch;
tiles of slots, none without images.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.slots import PLACED, SlotPool, _taken_apart
from scanline.model.base.config import ModelConfig
from scanline.model.base.state import State
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models

CONFIG = small_models.config()
SLOTS = 6


def used_pool() -> SlotPool:
    """A pool in which every number is one that an earlier image has left."""
    pool = SlotPool.empty(CONFIG, SLOTS)
    for tensor in (pool.state.s, pool.state.z):
        tensor.fill_(float("nan"))
    left = {"images": 7, "known": True, "bits": 3.5, "seed": 9, "index": 8}
    left |= dict.fromkeys(("known_bits", "evidence_bits", "effective_particles", "label"), 6)
    for name, value in left.items():
        getattr(pool, name).fill_(value)
    return pool


def prefix(config: ModelConfig, value: float) -> State:
    state = State.zeros(config, 1)
    state.s.fill_(value)
    state.z.fill_(-value)
    return state


def arrivals() -> Arrivals:
    """Five images in slots of any order, two of them from one prefix and one from another."""
    block = Arrivals.empty(5, CONFIG.bytes, [prefix(CONFIG, 1.5), prefix(CONFIG, 2.5)], [1, 0, 1])
    values = {
        "slots": torch.tensor([4, 1, 0, 5, 2]),
        "seed": torch.arange(5) + 2**60,
        "index": torch.arange(5) * 3,
        "position": torch.tensor([0, 0, 3, 5, 3]),
        "bits": torch.linspace(0, 1, 5, dtype=torch.float64),
        "temperature": torch.tensor([1.0, 0.7, 0.1, 1 / 3, 2.0]),
        "label": torch.arange(5) + 1,
        "evidence_bits": torch.linspace(7, 9, 5, dtype=torch.float64),
        "effective_particles": torch.full((5,), 16.0),
        "images": small_models.tensor(CONFIG, 5),
        "known": torch.arange(5 * CONFIG.bytes).view(5, -1) % 3 == 0,
    }
    for name, value in values.items():
        getattr(block, name).copy_(value)
    return block


def contents(pool: SlotPool) -> dict[str, torch.Tensor]:
    return vars(pool.state) | {
        name: tensor for name, tensor in vars(pool).items() if name != "state"
    }


def test_what_arrives_replaces_all_that_its_slots_held_and_nothing_else() -> None:
    pool = used_pool()
    block = arrivals()
    pool.place(block)
    slots = block.slots
    for name in PLACED:
        if name != "temperature":
            assert torch.equal(getattr(pool, name)[slots], getattr(block, name)), name
            assert (getattr(pool, name)[3] == getattr(used_pool(), name)[3]).all(), name
    assert pool.known_bits.tolist() == [0, 0, 0, 6, 0, 0]
    assert torch.equal(pool.temperature[slots], block.temperature.float())
    assert pool.state.position.tolist() == [3, 0, 3, CONFIG.bytes, 0, 5]
    for slot, value in ((4, 0), (1, 0), (0, 2.5), (5, 1.5), (2, 2.5)):
        assert pool.state.s[:, slot].eq(value).all()
        assert pool.state.z[:, slot].eq(-value).all()
    assert pool.state.s[:, 3].isnan().all()
    assert pool.images[3].tolist() == [7] * CONFIG.bytes


def test_a_gpu_s_operations_place_the_same() -> None:
    on_host = used_pool()
    by_torch = used_pool()
    on_host._place_by_numpy(arrivals())
    by_torch._place_by_torch(arrivals())
    for name, tensor in contents(on_host).items():
        assert torch.equal(tensor.nan_to_num(-9), contents(by_torch)[name].nan_to_num(-9)), name


def test_images_and_numbers_are_fetched_together_as_they_are() -> None:
    pool = used_pool()
    pool.place(arrivals())
    pool.known_bits.copy_(torch.arange(SLOTS))
    pool.effective_particles[4] = 2.5
    slots = np.array([2, 4])
    fetched = pool.fetch(slots).wait()
    in_one_block = _taken_apart(pool._gathered(torch.from_numpy(slots)), 2)
    for tensor in (pool.images, pool.bits, pool.evidence_bits, pool.effective_particles):
        tensor.zero_()
    for found in (fetched, in_one_block):
        np.testing.assert_array_equal(found.images, arrivals().images[[4, 0]].numpy())
        np.testing.assert_array_equal(found.bits, arrivals().bits[[4, 0]].numpy())
        # and what was known since
        np.testing.assert_array_equal(found.evidence_bits, [9.0 + 2, 7.0 + 4])
        np.testing.assert_array_equal(found.effective_particles, [16, 2.5])


def test_only_the_slots_asked_for_are_advanced() -> None:
    pool = used_pool()
    pool.place(arrivals())
    seen: list[list[int]] = []

    def advance(chosen: SlotPool) -> None:
        seen.append(chosen.state.position.tolist())
        chosen.state.position += chosen.state.position < CONFIG.bytes

    pool.advance_only(np.array([0, 4]), advance)
    done = CONFIG.bytes
    assert seen == [[3, done, done, done, 0, done]]
    assert pool.state.position.tolist() == [4, 0, 3, done, 1, 5]
    assert pool.in_flight().tolist() == [0, 1, 2, 4, 5]
    pool.empty_slots(np.array([1, 5]))
    assert pool.in_flight().tolist() == [0, 2, 4]


def tensors(thing: Any, name: str = "generator") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that an object holds, weights aside."""
    if isinstance(thing, torch.Tensor):
        yield name, thing
    elif isinstance(thing, list | tuple):
        for i, item in enumerate(thing):
            yield from tensors(item, f"{name}[{i}]")
    elif hasattr(thing, "__dict__") and not isinstance(thing, torch.nn.Module):
        for key, value in vars(thing).items():
            yield from tensors(value, f"{name}.{key}")


@pytest.mark.parametrize("variant", ["plain", "colour", "authors", "pixels"])
def test_what_the_generator_holds_is_as_large_as_the_configuration_states_and_never_grows(
    variant: str,
) -> None:
    config = small_models.config_of(variant)
    generator = Generator(small_models.model(config), 64)
    state = generator.pool.state
    assert len(state.position) == 64
    assert state.nbytes == 64 * config.state_bytes_per_image
    for slot in range(3):
        generator.place(slot, ImageSpec(1, slot))
    sizes = []
    for _ in range(config.steps):
        generator.advance(1)
        sizes.append(
            {name: tensor.untyped_storage().nbytes() for name, tensor in tensors(generator)}
        )
    assert len(sizes[0]) > 3
    assert all(size == sizes[0] for size in sizes)
