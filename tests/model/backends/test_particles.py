"""Resampling and the choice of a particle, against the arithmetic written out for one group in
plain Python.
"""

import math

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

CONFIG = small_models.config(
    **small_models.WINDOW,
    causal_conv=True,
    predicts="categorical",
)
SLOTS = 40
POSITION = 7
SEED = 3
INDEX = 5
IMPOSSIBLE = math.inf


def pool_with(slots, known_bits, index=INDEX):
    """Slots of noise, of which `slots` are the particles of one image, whose known bytes have cost
    `known_bits` each.
    """
    random = torch.Generator().manual_seed(0)
    pool = SlotPool.empty(CONFIG, SLOTS)
    pool.state.s.normal_(generator=random)
    pool.state.z.normal_(generator=random)
    pool.images.random_(
        0,
        256,
        generator=random,
    )
    pool.bits.uniform_(
        0,
        50,
        generator=random,
    )
    pool.effective_particles.fill_(64)
    pool.seed.fill_(SEED)
    pool.index.copy_(torch.arange(SLOTS) * 3)
    pool.index[slots] = index + (torch.arange(len(slots)) << 32)
    pool.known_bits[slots] = torch.tensor(known_bits, dtype=torch.float64)
    pool.evidence_bits[slots] = 100.0
    return pool


def group_of(slots, position=POSITION):
    return Groups(np.array([slots]), np.array([position]))


def contents(pool):
    arrays = {name: getattr(pool, name) for name in ARRAYS} | vars(pool.state)
    return {name: array.clone() for name, array in arrays.items()}


def uniform(index=INDEX, position=POSITION):
    given = (SEED, index + (particles.RESAMPLING << 32), position)
    return float(uniforms(*map(torch.tensor, given))[0])


def weights_of(known_bits):
    least = min(known_bits)
    if least == IMPOSSIBLE:
        return [1.0 for _ in known_bits]
    return [2.0 ** (least - bits) for bits in known_bits]


def effective_of(known_bits):
    weights = weights_of(known_bits)
    return sum(weights) ** 2 / sum(weight**2 for weight in weights)


def mean_bits(known_bits):
    return min(known_bits) - math.log2(sum(weights_of(known_bits)) / len(known_bits))


def drawn(weights, point):
    """The particle in whose part of the weights laid end to end the point from 0 to 1 lies."""
    end = 0.0
    for particle, weight in enumerate(weights):
        end += weight
        if point * sum(weights) < end:
            return particle
    raise AssertionError("the point is beyond the weights")


def ancestors_of(known_bits, uniform):
    """By systematic resampling, each particle that is drawn staying itself."""
    count = len(known_bits)
    weights = weights_of(known_bits)
    all_drawn = [drawn(weights, (uniform + k) / count) for k in range(count)]
    again = list(all_drawn)
    for particle in set(all_drawn):
        again.remove(particle)
    ancestors = []
    for particle in range(count):
        ancestors.append(particle if particle in all_drawn else again.pop(0))
    assert not again
    return ancestors


@pytest.mark.parametrize(
    "known_bits",
    [
        [80.0, 2.0, 90.0, 75.0, 1000.0],
        [3.0, 60.0, 3.5, 60.0, 70.0, 80.0, 66.0],
        [
            IMPOSSIBLE,
            4.0,
            IMPOSSIBLE,
            9.0,
            IMPOSSIBLE,
            IMPOSSIBLE,
        ],
        [20 * math.sin(k) ** 2 * k for k in range(36)],
    ],
    ids=["one has all the weight", "two share it", "some are impossible", "thirty-six"],
)
def test_few_effective_particles_are_resampled_as_the_reference_does(
    known_bits,
):
    order = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(1)).tolist()
    slots = order[: len(known_bits)]
    others = order[len(known_bits) :]
    pool = pool_with(slots, known_bits)
    before = contents(pool)
    resample(pool, group_of(slots), copy_slots)
    after = contents(pool)
    effective = effective_of(known_bits)
    assert effective < len(slots) / 2, "the case is none for resampling"
    ancestors = [slots[ancestor] for ancestor in ancestors_of(known_bits, uniform())]
    for name, array in after.items():
        of_slot = array.transpose(0, 1) if name in NUMBERS else array
        was = before[name].transpose(0, 1) if name in NUMBERS else before[name]
        assert torch.equal(of_slot[others], was[others]), name
        if name in ("images", "bits", *NUMBERS):
            assert torch.equal(of_slot[slots], was[ancestors]), name
        elif name not in ("known_bits", "evidence_bits", "effective_particles"):
            assert torch.equal(array, was), name
    assert not after["known_bits"][slots].any()
    for slot in slots:
        assert after["evidence_bits"][slot].item() == pytest.approx(100 + mean_bits(known_bits))
        assert after["effective_particles"][slot].item() == pytest.approx(effective)


def test_not_a_number_is_impossible():
    slots = [4, 5, 6]
    not_finite = pool_with(slots, [math.nan, 4.0, 30.0])
    impossible = pool_with(
        slots,
        [
            IMPOSSIBLE,
            4.0,
            30.0,
        ],
    )
    for pool in (not_finite, impossible):
        resample(pool, group_of(slots), copy_slots)
    expected = contents(impossible)
    for name, array in contents(not_finite).items():
        assert torch.equal(expected[name].nan_to_num(), array.nan_to_num()), name


def test_many_effective_particles_keep_all_but_the_smallest_number_of_them():
    known_bits = [3.0, 3.5, 4.0, 3.0]
    slots = [9, 1, 5, 2]
    pool = pool_with(slots, known_bits)
    before = contents(pool)
    resample(pool, group_of(slots), copy_slots)
    after = contents(pool)
    effective = after.pop("effective_particles")
    assert effective[slots].tolist() == pytest.approx([effective_of(known_bits)] * 4)
    for name, array in after.items():
        assert torch.equal(array.nan_to_num(), before[name].nan_to_num()), name
    pool.known_bits[slots] = 3.0  # a larger number of them does not replace the smallest
    resample(pool, group_of(slots), copy_slots)
    assert torch.equal(pool.effective_particles, effective)


def test_particles_that_all_rule_out_a_known_byte_weigh_the_same():
    slots = [4, 5, 6]
    pool = pool_with(slots, [IMPOSSIBLE] * 3)
    before = contents(pool)
    resample(pool, group_of(slots), copy_slots)
    assert torch.equal(pool.images, before["images"])
    assert pool.effective_particles[slots].tolist() == [3.0] * 3
    choose(pool, group_of(slots))
    assert pool.evidence_bits[slots].tolist() == [math.inf] * 3
    chosen = slots[drawn([1.0, 1.0, 1.0], uniform())]
    assert torch.equal(pool.images[4], before["images"][chosen])


def test_the_chosen_particle_s_image_and_bits_end_in_the_leader_s_slot():
    slots = [8, 3, 11, 30]
    known_bits = [5.0, 4.0, 4.5, 20.0]
    others = [slot for slot in range(SLOTS) if slot != 8]
    found = set()
    for index in range(20):
        pool = pool_with(slots, known_bits, index)
        before = contents(pool)
        choose(pool, group_of(slots, CONFIG.bytes))
        after = contents(pool)
        chosen = drawn(weights_of(known_bits), uniform(index, CONFIG.bytes))
        found.add(chosen)
        for name in ("images", "bits"):
            assert torch.equal(after[name][8], before[name][slots[chosen]]), name
            assert torch.equal(after[name][others], before[name][others]), name
        assert after["evidence_bits"][8].item() == pytest.approx(100 + mean_bits(known_bits))
        assert not after["known_bits"][slots].any()
        for name in (*NUMBERS, "index", "seed", "position"):
            assert torch.equal(after[name].nan_to_num(), before[name].nan_to_num()), name
    assert {0, 1, 2} <= found


@pytest.mark.parametrize("particles", [2, 3, 4, 7, 16, 64])
def test_numpy_on_the_host_and_torch_on_a_device_decide_the_same_bits(particles):
    """Weights of many sizes, equal ones, impossible particles and groups in which all are."""
    random = np.random.default_rng(particles)
    count = 300
    spread = random.choice([0.0, 1e-9, 0.5, 3.0, 20.0, 400.0], (count, 1))
    known_bits = 30 + spread * random.random((count, particles))
    impossible = random.random(known_bits.shape) < 0.1 * random.integers(0, 2, (count, 1))
    known_bits[impossible] = math.inf
    known_bits[::50] = math.inf
    known_bits[1, 0] = math.nan
    slots = random.permutation(count * particles).reshape(count, particles)
    groups = Groups(slots, random.integers(0, 5000, count))
    whose = torch.arange(slots.size)

    def decided(act, *how):
        pool = SlotPool.empty(CONFIG, slots.size)
        rows = torch.from_numpy(slots)
        pool.bits.copy_(whose)
        pool.seed.copy_(whose * 2**40 // slots.size)
        pool.index[rows] = torch.arange(count)[:, None] + (torch.arange(particles) << 32)
        pool.known_bits[rows] = torch.from_numpy(known_bits)
        pool.evidence_bits.copy_(whose / 7)
        pool.effective_particles.fill_(particles)
        act(pool, groups, *how)
        return pool

    for act, copy in ((resample, [copy_slots]), (choose, [])):
        by_torch = decided(act, *copy, uniforms)
        by_numpy = decided(act, *copy, None)
        for name in ("bits", "known_bits", "evidence_bits", "effective_particles"):
            expected = getattr(by_torch, name).view(torch.int64)
            assert torch.equal(expected, getattr(by_numpy, name).view(torch.int64)), name
        # of two particles fewer than P / 2 = 1 cannot be effective
        assert (by_torch.bits != whose).any() == (particles > 2 or act is choose)


def test_the_exact_functions_are_close_to_torch_s_own():
    x = -torch.rand(4000, dtype=torch.float64) * 99
    y = torch.rand(4000, dtype=torch.float64) * 64
    assert (particles.power_of_two(x) / torch.exp2(x) - 1).abs().max() < 1e-13
    assert (particles.logarithm(y) - torch.log2(y)).abs().max() < 1e-13
    exact = torch.tensor([0.0, -3.0, -1e308, -torch.inf], dtype=torch.float64)
    assert particles.power_of_two(exact).tolist() == [1.0, 0.125, 0.0, 0.0]
    powers = torch.tensor([0.25, 1.0, 32.0], dtype=torch.float64)
    assert particles.logarithm(powers).tolist() == [-2.0, 0.0, 5.0]
