"""Images join and leave a pool in batches, on the host and by torch;
tiles of slots, none without images.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.slots import PLACED, SlotPool, _taken_apart
from scanline.model.base.state import State
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models

CONFIG = small_models.config()
SLOTS = 6


def used_pool():
    """A pool in which every number is one that an earlier image has left."""
    pool = SlotPool.empty(CONFIG, SLOTS)
    pool.state.s.fill_(torch.nan)
    pool.state.z.fill_(torch.nan)
    for name in (*PLACED, "known_bits"):
        getattr(pool, name).fill_(6)
    return pool


def prefix(value):
    state = State.zeros(CONFIG, 1)
    state.s.fill_(value)
    state.z.fill_(-value)
    return state


def arrivals():
    """Five images in slots of any order, two of them from one prefix and one from another."""
    block = Arrivals.empty(5, CONFIG.bytes, [prefix(1.5), prefix(2.5)], [1, 0, 1])
    block.slots.copy_(torch.tensor([4, 1, 0, 5, 2]))
    block.position.copy_(torch.tensor([0, 0, 3, 5, 3]))
    for number, name in enumerate(PLACED):
        array = getattr(block, name)
        array.copy_((torch.arange(array.numel()) + number).view(array.shape) % 7)
    block.seed.add_(2**60)
    return block


def contents(pool):
    return vars(pool.state) | {
        name: tensor for name, tensor in vars(pool).items() if name != "state"
    }


def test_what_arrives_replaces_all_that_its_slots_held_and_nothing_else():
    pool = used_pool()
    block = arrivals()
    expected = contents(used_pool())
    for name in (*PLACED, "position"):
        expected[name][block.slots] = getattr(block, name).to(expected[name].dtype)
    expected["known_bits"][block.slots] = 0
    for slot, value in ((4, 0), (1, 0), (0, 2.5), (5, 1.5), (2, 2.5)):
        expected["s"][:, slot] = value
        expected["z"][:, slot] = -value
    pool.place(block)
    for name, tensor in contents(pool).items():
        assert torch.equal(expected[name].nan_to_num(-9), tensor.nan_to_num(-9)), name


def test_a_gpu_s_operations_place_the_same():
    on_host = used_pool()
    by_torch = used_pool()
    on_host._place_by_numpy(arrivals())
    by_torch._place_by_torch(arrivals())
    for name, tensor in contents(on_host).items():
        assert torch.equal(tensor.nan_to_num(-9), contents(by_torch)[name].nan_to_num(-9)), name


def test_images_and_numbers_are_fetched_together_as_they_are():
    pool = used_pool()
    pool.place(arrivals())
    pool.known_bits.copy_(torch.arange(SLOTS))
    before = {name: tensor.clone() for name, tensor in contents(pool).items()}
    slots = np.array([2, 4])
    fetched = pool.fetch(slots).wait()
    in_one_block = _taken_apart(pool._gathered(torch.from_numpy(slots)), 2)
    for name in ("images", "bits", "evidence_bits", "effective_particles"):
        getattr(pool, name).zero_()
    before["evidence_bits"] += before["known_bits"]  # what was known since
    for found in (fetched, in_one_block):
        for name in ("images", "bits", "evidence_bits", "effective_particles"):
            assert_array_equal(
                getattr(found, name),
                before[name][slots],
                name,
            )


def test_only_the_slots_asked_for_are_advanced():
    pool = used_pool()
    pool.place(arrivals())
    seen = []

    def advance(chosen):
        seen.append(chosen.state.position.tolist())
        chosen.state.position += chosen.state.position < CONFIG.bytes

    pool.advance_only(np.array([0, 4]), advance)
    done = CONFIG.bytes
    assert seen == [[3, done, done, done, 0, done]]
    assert pool.state.position.tolist() == [4, 0, 3, done, 1, 5]
    assert pool.in_flight().tolist() == [0, 1, 2, 4, 5]
    pool.empty_slots(np.array([1, 5]))
    assert pool.in_flight().tolist() == [0, 2, 4]


@pytest.mark.parametrize("variant", ["plain", "colour", "authors", "pixels"])
def test_what_a_pool_holds_is_as_large_as_the_configuration_states_and_never_grows(
    variant,
):
    config = small_models.config_of(variant)
    generator = Generator(small_models.model(config), 64)

    def sizes():
        tensors = contents(generator.pool)
        return {name: tensor.untyped_storage().nbytes() for name, tensor in tensors.items()}

    before = sizes()
    assert generator.pool.state.nbytes == 64 * config.state_bytes_per_image
    for slot in range(3):
        generator.place(slot, ImageSpec(1, slot))
    generator.advance(config.steps)
    assert sizes() == before
