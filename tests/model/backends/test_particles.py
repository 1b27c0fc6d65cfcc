"""Resampling and the choice of a particle, against the arithmetic written
out for one group in plain Python.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from scanline.kernels.philox import uniforms
from scanline.model.backends import particles
from scanline.model.backends.groups import Groups
from scanline.model.backends.particles import choose, copy_slots, resample
from scanline.model.backends.slots import ARRAYS, SlotPool
from scanline.model.base.state import NUMBERS
from tests.support import small_models

CONFIG = small_models.config(**small_models.WINDOW, causal_conv=True, predicts="categorical")
SLOTS = 40
POSITION = 7
SEED = 3
INDEX = 5
Arrays = dict[str, torch.Tensor]


def pool(seed: int = 0) -> SlotPool:
    """Slots of noise, all particles of different images."""
    random = torch.Generator().manual_seed(seed)
    made = SlotPool.empty(CONFIG, SLOTS)
    made.state.s.normal_(generator=random)
    made.state.z.normal_(generator=random)
    made.images.random_(0, 256, generator=random)
    for name in ("bits", "known_bits", "evidence_bits"):
        getattr(made, name).uniform_(0, 50, generator=random)
    made.effective_particles.fill_(64)
    made.seed.fill_(SEED)
    made.index.copy_(torch.arange(SLOTS) * 3)
    return made


def group(pool: SlotPool, slots: list[int], known_bits: list[float], index: int = INDEX) -> None:
    """Make slots the particles of one image, whose known bytes have cost `known_bits` each."""
    pool.index[slots] = index + (torch.arange(len(slots)) << 32)
    pool.known_bits[slots] = torch.tensor(known_bits, dtype=torch.float64)
    pool.evidence_bits[slots] = 100.0


def contents(pool: SlotPool) -> Arrays:
    arrays = {name: getattr(pool, name) for name in ARRAYS} | vars(pool.state)
    return {name: array.clone() for name, array in arrays.items()}


def uniform(index: int = INDEX, position: int = POSITION) -> float:
    return float(
        uniforms(*map(torch.tensor, (SEED, index + (particles.RESAMPLING << 32), position)))[0]
    )


def weights_of(known_bits: list[float]) -> list[float]:
    least = min(known_bits)
    return [2.0 ** (least - bits) if math.isfinite(least) else 1.0 for bits in known_bits]


def effective_of(known_bits: list[float]) -> float:
    weights = weights_of(known_bits)
    return sum(weights) ** 2 / sum(weight**2 for weight in weights)


def mean_bits(known_bits: list[float]) -> float:
    return min(known_bits) - math.log2(sum(weights_of(known_bits)) / len(known_bits))


def drawn(weights: list[float], point: float) -> int:
    """The particle in whose part of the weights laid end to end the point from 0 to 1 lies."""
    end = 0.0
    for particle, weight in enumerate(weights):
        end += weight
        if point * sum(weights) < end:
            return particle
    raise AssertionError("the point is beyond the weights")


def ancestors_of(known_bits: list[float], uniform: float) -> list[int]:
    """By systematic resampling, each particle that is drawn staying itself."""
    count = len(known_bits)
    weights = weights_of(known_bits)
    all_drawn = [drawn(weights, (uniform + k) / count) for k in range(count)]
    ancestors = [particle if particle in all_drawn else -1 for particle in range(count)]
    again = [one for k, one in enumerate(all_drawn) if k and all_drawn[k - 1] == one]
    for particle in range(count):
        if ancestors[particle] < 0:
            ancestors[particle] = again.pop(0)
    assert not again
    return ancestors


CASES: dict[str, list[float]] = {
    "one has all the weight": [80.0, 2.0, 90.0, 75.0, 1000.0],
    "two share it": [3.0, 60.0, 3.5, 60.0, 70.0, 80.0, 66.0],
    "some are impossible": [math.inf, 4.0, math.inf, 9.0, math.inf, math.inf],
    "not a number is impossible": [math.nan, 4.0, 30.0],
    "sixty-four": [float(20 * math.sin(k) ** 2 * k) for k in range(64)][:36],
}


@pytest.mark.parametrize("case", CASES)
def test_few_effective_particles_are_resampled_as_the_reference_does(case: str) -> None:
    known_bits = CASES[case]
    numbers = [math.inf if math.isnan(bits) else bits for bits in known_bits]
    made = pool()
    slots = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(1))[
        : len(known_bits)
    ].tolist()
    group(made, slots, known_bits)
    before = contents(made)
    resample(made, Groups(np.array([slots]), np.array([POSITION])), copy_slots)
    assert effective_of(numbers) < len(slots) / 2, "the case is none for resampling"
    ancestors = [slots[ancestor] for ancestor in ancestors_of(numbers, uniform())]
    after = contents(made)
    for name in ("images", "bits"):
        assert torch.equal(after[name][slots], before[name][ancestors]), name
    for name in NUMBERS:
        assert torch.equal(after[name][:, slots], before[name][:, ancestors]), name
    assert after["known_bits"][slots].tolist() == [0.0] * len(slots)
    assert after["evidence_bits"][slots].tolist() == pytest.approx(
        [100 + mean_bits(numbers)] * len(slots), abs=1e-9
    )
    assert after["effective_particles"][slots].tolist() == pytest.approx(
        [effective_of(numbers)] * len(slots), abs=1e-9
    )
    for name in ("seed", "index", "label", "known", "temperature", "position"):
        assert torch.equal(after[name], before[name]), name
    rest = [slot for slot in range(SLOTS) if slot not in slots]
    for name, tensor in after.items():
        left, right = (x[:, rest] if name in NUMBERS else x[rest] for x in (tensor, before[name]))
        assert torch.equal(left, right), name


def test_many_effective_particles_keep_all_but_the_smallest_number_of_them() -> None:
    made = pool()
    known_bits = [3.0, 3.5, 4.0, 3.0]
    slots = [9, 1, 5, 2]
    group(made, slots, known_bits)
    before = contents(made)
    groups = Groups(np.array([slots]), np.array([POSITION]))
    resample(made, groups, copy_slots)
    after = contents(made)
    effective = after.pop("effective_particles")
    assert effective[slots].tolist() == pytest.approx([effective_of(known_bits)] * 4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
    made.known_bits[slots] = 3.0
    resample(made, groups, copy_slots)
    assert torch.equal(made.effective_particles, effective), (
        "a later larger number replaced the smallest"
    )


def test_particles_that_all_rule_out_a_known_byte_weigh_the_same() -> None:
    made = pool()
    slots = [4, 5, 6]
    group(made, slots, [math.inf] * 3)
    before = contents(made)
    groups = Groups(np.array([slots]), np.array([POSITION]))
    resample(made, groups, copy_slots)
    assert torch.equal(made.images, before["images"])
    assert made.effective_particles[slots].tolist() == [3.0] * 3
    choose(made, groups)
    assert made.evidence_bits[slots].tolist() == [math.inf] * 3
    assert torch.equal(made.images[4], before["images"][slots[drawn([1.0, 1.0, 1.0], uniform())]])


def test_the_chosen_particle_s_image_and_bits_end_in_the_leader_s_slot() -> None:
    found = set()
    for index in range(20):
        made = pool()
        slots = [8, 3, 11, 30]
        known_bits = [5.0, 4.0, 4.5, 20.0]
        group(made, slots, known_bits, index)
        before = contents(made)
        choose(made, Groups(np.array([slots]), np.array([CONFIG.bytes])))
        chosen = drawn(weights_of(known_bits), uniform(index, CONFIG.bytes))
        found.add(chosen)
        after = contents(made)
        for name in ("images", "bits"):
            assert torch.equal(after[name][8], before[name][slots[chosen]]), name
            rest = [slot for slot in range(SLOTS) if slot != 8]
            assert torch.equal(after[name][rest], before[name][rest]), name
        assert after["evidence_bits"][slots].tolist() == pytest.approx(
            [100 + mean_bits(known_bits)] * 4
        )
        assert after["known_bits"][slots].tolist() == [0.0] * 4
        assert all(
            torch.equal(after[name], before[name])
            for name in (*NUMBERS, "index", "seed", "position")
        )
    assert {0, 1, 2} <= found


def test_a_group_alone_and_among_others_has_the_same_bits() -> None:
    """Groups of 3 fill no whole vector, so that torch's own functions would
    round some of them in another way.
    """
    random = np.random.default_rng(0)
    costs = [random.uniform(0, 12, 3).tolist() for _ in range(13)]
    slots = random.permutation(39).reshape(13, 3)
    positions = np.arange(13)
    for act in (lambda pool, groups: resample(pool, groups, copy_slots), choose):
        together = pool()
        alone = pool()
        for made in (together, alone):
            for index, (row, cost) in enumerate(zip(slots, costs, strict=True)):
                group(made, row.tolist(), cost, index)
        act(together, Groups(slots, positions))
        for row in range(13):
            act(alone, Groups(slots[row : row + 1], positions[row : row + 1]))
        for name, tensor in contents(together).items():
            assert torch.equal(tensor, contents(alone)[name]), name


@pytest.mark.parametrize("particles", [2, 3, 4, 7, 16, 64])
def test_numpy_on_the_host_and_torch_on_a_device_decide_the_same_bits(particles: int) -> None:
    """Weights of many sizes, equal ones, impossible particles and groups in which all are."""
    random = np.random.default_rng(particles)
    count = 300
    spread = random.choice([0.0, 1e-9, 0.5, 3.0, 20.0, 400.0], (count, 1))
    known_bits = 30 + spread * random.random((count, particles))
    known_bits[random.random(known_bits.shape) < 0.1 * random.integers(0, 2, (count, 1))] = math.inf
    known_bits[::50], known_bits[1, 0] = math.inf, math.nan
    slots = random.permutation(count * particles).reshape(count, particles)
    groups = Groups(slots, random.integers(0, 5000, count))

    def decided(draw: object, act: Callable[..., None], *copy: object) -> Arrays:
        made = SlotPool.empty(CONFIG, slots.size)
        rows = torch.from_numpy(slots)
        made.bits.copy_(torch.arange(slots.size))  # which slot's each becomes
        made.seed.copy_(torch.arange(slots.size) * 2**40 // slots.size)
        made.index[rows] = torch.arange(count)[:, None] + (torch.arange(particles) << 32)
        made.known_bits[rows] = torch.from_numpy(known_bits)
        made.evidence_bits.copy_(torch.arange(slots.size) / 7)
        made.effective_particles.fill_(particles)
        act(made, groups, *copy, draw)
        return {
            name: getattr(made, name)
            for name in ("bits", "known_bits", "evidence_bits", "effective_particles")
        }

    for act, copy in ((resample, (copy_slots,)), (choose, ())):
        by_torch, by_numpy = (decided(draw, act, *copy) for draw in (uniforms, None))
        for name, tensor in by_torch.items():
            assert torch.equal(tensor.view(torch.int64), by_numpy[name].view(torch.int64)), name
        moved = by_torch["bits"] != torch.arange(slots.size)
        assert moved.any() == (particles > 2 or act is choose), (
            "fewer than P / 2 = 1 of two particles cannot be"
        )


def test_the_exact_functions_are_close_to_torch_s_own() -> None:
    special = torch.tensor([0.0, -0.5, -1.0, -100.0, -1e308, -torch.inf])
    x = torch.cat((-torch.rand(4000, dtype=torch.float64) * 99, special))
    assert (particles.power_of_two(x) / torch.exp2(x) - 1)[:-2].abs().max() < 1e-13
    assert particles.power_of_two(x)[-2:].tolist() == [0.0, 0.0]
    assert particles.power_of_two(torch.tensor([0.0, -3.0], dtype=torch.float64)).tolist() == [
        1.0,
        0.125,
    ]
    y = torch.rand(4000, dtype=torch.float64) * 64
    assert (particles.logarithm(y) - torch.log2(y)).abs().max() < 1e-13
    assert particles.logarithm(torch.tensor([0.25, 1.0, 32.0], dtype=torch.float64)).tolist() == [
        -2.0,
        0.0,
        5.0,
    ]
