"""Images join and leave a pool in batches: numpy on the host and torch's operations for a GPU do the same."""

from dataclasses import replace

import numpy as np
import torch

from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.slots import PLACED, SlotPool, _taken_apart
from scanline.model.config import ModelConfig
from scanline.model.state import State
from tests.support import small_models

CONFIG = small_models.config()
SLOTS = 6


def used_pool() -> SlotPool:
    """A pool in which every number is one that an earlier image has left."""
    pool = SlotPool.empty(CONFIG, SLOTS)
    pool.state.s.fill_(float("nan"))
    pool.state.z.fill_(float("nan"))
    for tensor, left in ((pool.images, 7), (pool.known, True), (pool.bits, 3.5), (pool.seed, 9), (pool.index, 8)):
        tensor.fill_(left)
    for name in ("known_bits", "evidence_bits", "effective_particles", "label"):
        getattr(pool, name).fill_(6)
    return pool


def prefix(config: ModelConfig, value: float) -> State:
    state = State.zeros(config, 1)
    state.s.fill_(value)
    state.z.fill_(-value)
    return state


def arrivals() -> Arrivals:
    """Five images in slots of any order, two of them from one prefix and one from another."""
    block = Arrivals.empty(5, CONFIG.bytes, [prefix(CONFIG, 1.5), prefix(CONFIG, 2.5)], [1, 0, 1])
    block.slots.copy_(torch.tensor([4, 1, 0, 5, 2]))
    block.seed.copy_(torch.arange(5) + 2**60)
    block.index.copy_(torch.arange(5) * 3)
    block.position.copy_(torch.tensor([0, 0, 3, 5, 3]))
    block.bits.copy_(torch.linspace(0, 1, 5, dtype=torch.float64))
    block.temperature.copy_(torch.tensor([1.0, 0.7, 0.1, 1 / 3, 2.0]))
    block.label.copy_(torch.arange(5) + 1)
    block.evidence_bits.copy_(torch.linspace(7, 9, 5, dtype=torch.float64))
    block.effective_particles.fill_(16)
    block.images.copy_(torch.from_numpy(small_models.images(CONFIG, 5)))
    block.known.copy_(torch.arange(5 * CONFIG.bytes).view(5, -1) % 3 == 0)
    return block


def contents(pool: SlotPool) -> dict[str, torch.Tensor]:
    return vars(pool.state) | {name: tensor for name, tensor in vars(pool).items() if name != "state"}


def test_what_arrives_replaces_all_that_its_slots_held_and_nothing_else() -> None:
    pool, block = used_pool(), arrivals()
    pool.place(block)
    slots = block.slots
    for name in PLACED:
        if name != "temperature":
            assert torch.equal(getattr(pool, name)[slots], getattr(block, name)), name
            assert (getattr(pool, name)[3] == getattr(used_pool(), name)[3]).all(), name
    assert pool.known_bits.tolist() == [0, 0, 0, 6, 0, 0]
    assert torch.equal(pool.temperature[slots], block.temperature.float())
    assert pool.state.position.tolist() == [3, 0, 3, CONFIG.bytes, 0, 5]
    assert pool.state.s[:, [4, 1]].eq(0).all()
    assert pool.state.z[:, [4, 1]].eq(0).all()
    for slot, value in ((0, 2.5), (5, 1.5), (2, 2.5)):
        assert pool.state.s[:, slot].eq(value).all()
        assert pool.state.z[:, slot].eq(-value).all()
    assert pool.state.s[:, 3].isnan().all()
    assert pool.images[3].tolist() == [7] * CONFIG.bytes


def test_a_gpu_s_operations_place_the_same() -> None:
    on_host, by_torch = used_pool(), used_pool()
    on_host._place_by_numpy(arrivals())
    by_torch._place_by_torch(arrivals())
    for name, tensor in contents(on_host).items():
        assert torch.equal(tensor.nan_to_num(-9), contents(by_torch)[name].nan_to_num(-9)), name


def test_a_block_is_the_same_after_one_copy() -> None:
    block = arrivals()
    copy = replace(block, block=block.block.clone())
    for name in ("slots", "position", *PLACED):
        assert torch.equal(getattr(copy, name), getattr(block, name)), name
    assert block.without_prefix == 2


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
        np.testing.assert_array_equal(found.evidence_bits, [9.0 + 2, 7.0 + 4])  # and what was known since
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
