"""The promise: the same network, seeds and bytes give the same bits on every
instruction set and every processor, on any number of threads, also where these share
cores, and whatever the numbers are.

tests/support/kernels/native_fuzz.py, of which a short run is here, runs for
longer in sanitize.py of this folder.
"""

import os
import resource
from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.kernels.cpu.shape import STATE
from tests.support.kernels import native_fuzz, native_vectors
from tests.support.kernels.native import ISAS, NATIVE
from tests.support.kernels.native_vectors import CASES, INTERVALS, Case

pytestmark = NATIVE

# Of all bits of a run, on any machine. When the arithmetic changes they do,
# and so do the images of every seed.
DIGESTS = {
    "odd": "0953300b0177707b",
    "odd, float16, pre-norm, GELU": "7d2a2241f7a0b07f",
    "odd, int8": "563898af84f94a4e",
    "one component, one wide head": "7d4c79ffc70cb54e",
    "ten components, colour": "7a08e921cfe22856",
    "joined waves": "42ed3aa2b4429cdc",
    "vectors of 16": "04375668cf39ab8b",
    "the paper's heads, int8": "d5eb565c091cacb9",
    "more images than a tile": "15a65b3f45b130f4",
    "categorical": "6192bb2a02fd7c2e",
    "window of greys": "38b4743166fdb796",
    "strokes": "6aefff7b46d64cc8",
    "grey pixels": "b9cc3e431c3508f4",
    "colour pixels": "d15e2c32cfda05ef",
    "colour pixels, int8": "0a936e9b169adca8",
    "classes of bytes": "d566f252e24b6a8d",
    "classes of pixels, int8": "700d8de2333e3fe9",
    "guided pixels": "e646129162cf15f0",
    "causal_conv": "b49543c310a254fd",
    "causal_conv, int8": "d352d162c21ceb45",
    "colour pixels, uncentred": "013a6fc20a345ff7",
}


@pytest.mark.compared(
    "networks of random numbers, all they compute",
    "recorded hashes",
    "each instruction set and WebAssembly",
)
@pytest.mark.parametrize("name", CASES)
def test_states_images_bits_and_parameters_are_the_recorded_ones_on_every_instruction_set(
    name, compared
):
    for isa in ISAS:
        results = native_vectors.run(CASES[name], isa)
        assert all(np.isfinite(array).all() for array in results.values()), isa
        assert native_vectors.digest(results) == DIGESTS[name], isa
    compared(*(array for output, array in results.items() if output != INTERVALS))


def summed(bits, start=0.0):
    """Sums [B] of bits [B, n] in the order in which steps add them."""
    total = torch.full((len(bits),), start).double()
    for column in bits.T:
        total += column
    return total


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_prefilled_bytes_leave_what_forced_ones_do(name, isa):
    case = CASES[name]
    shape = CASES[name].shape()
    network = native_vectors.network(case, isa, threads=2)
    stop = shape.bytes - 2 * shape.step_bytes
    forced = native_vectors.slots(
        case, known=torch.ones(case.images, shape.bytes, dtype=torch.uint8)
    )
    network.advance(forced, (stop - shape.first) // shape.step_bytes)
    prefilled, bits, *_ = native_vectors.read(case, network, stop=stop)
    for each in STATE:
        assert torch.equal(forced[each].nan_to_num(), prefilled[each].nan_to_num()), each
    assert torch.equal(forced["bits"], summed(bits))
    assert torch.equal(forced["known_bits"], summed(bits))


@pytest.mark.parametrize("name", CASES)
def test_known_bits_are_the_cost_of_the_known_bytes_that_steps_have_passed(name):
    case = CASES[name]
    painted = native_vectors.slots(CASES[name])
    painted["known_bits"].fill_(3.25)
    network = native_vectors.network(case, ISAS[0], threads=2)
    network.advance(painted, case.shape().bytes)
    _, bits, *_ = native_vectors.read(case, network, painted["images"])
    assert torch.equal(
        painted["known_bits"], summed(bits * painted["known"][:, case.shape().first :], 3.25)
    )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_an_image_follows_its_own_bytes_as_far_as_they_go(name, isa):
    """Its next bytes are drawn from the parameters of a read, not from those of its steps."""
    case = CASES[name]
    shape = CASES[name].shape()
    painted = native_vectors.slots(
        case, known=torch.zeros(case.images, shape.bytes, dtype=torch.uint8)
    )
    network = native_vectors.network(case, isa)
    network.advance(painted, shape.bytes)
    _, _, parameters, _ = native_vectors.read(case, network, painted["images"])
    numbers = ("seed", "index", "temperature", "guidance")
    drawn_by = {each: painted[each][0].item() for each in numbers} | {"position": shape.first}
    without = parameters[1] if case.guided else None
    steps = len(parameters[0])
    path = bytes(painted["images"][0, shape.first :].numpy())
    assert network.follow(parameters[0], without, path, **drawn_by)[0] == steps
    for other in {0, steps // 2, steps - 1}:
        at = other * shape.step_bytes
        wrong = path[:at] + bytes([path[at] ^ 1]) + path[at + 1 :]
        expected = other, path[at : at + shape.step_bytes]
        assert network.follow(parameters[0], without, wrong, **drawn_by) == expected
    with pytest.raises(ValueError, match=rf"cannot draw bytes {shape.first} to "):
        network.follow(parameters[0], without, path + path, **drawn_by)
    with pytest.raises(ValueError, match="parameters must be "):
        network.follow(parameters[0, 1:], None, path, **drawn_by)


@pytest.mark.parametrize("isa", ISAS[:1] + ISAS[-1:])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("images", [5, 300], ids=["few", "more than a thread copies"])
def test_copied_slots_have_the_state_image_and_bits_of_their_sources(images, threads, isa):
    sizes = {"layers": 3, "heads": 2, "key_width": 17, "value_width": 33}
    case = Case({**native_vectors.WINDOW, "causal_conv": 1, **sizes}, images=images)
    random = torch.Generator().manual_seed(0)
    slots = native_vectors.slots(case)
    for name in ("s", "z", "conv_state", "bits", "known_bits"):
        slots[name].normal_(generator=random)
    before = {name: tensor.clone() for name, tensor in slots.items()}
    order = torch.randperm(images, generator=random)
    targets = order[: images // 2]
    origin = torch.arange(images)
    sources = order[images // 2 :][
        torch.randint(images // 4 + 1, (len(targets),), generator=random)
    ]
    # the last one is itself
    targets = torch.cat((targets, order[-1:]))
    sources = torch.cat((sources, order[-1:]))
    origin[targets] = sources
    network = native_vectors.network(case, isa, threads)
    copied = {name: slots[name] for name in (*STATE, "images", "bits")}
    network.copy_slots(copied, sources, targets)
    for name, expected in before.items():
        if name in ("s", "z", "conv_state"):
            expected = expected[:, origin]
        elif name in ("images", "bits"):
            expected = expected[origin]
        assert torch.equal(slots[name], expected), name
    for wrong in (torch.tensor([images]), torch.tensor([-1])):
        with pytest.raises(ValueError, match=f"sources must be from 0 to {images - 1}"):
            network.copy_slots(copied, wrong, torch.tensor([0]))
        with pytest.raises(ValueError, match=f"targets must be from 0 to {images - 1}"):
            network.copy_slots(copied, torch.tensor([0]), wrong)
    with pytest.raises(ValueError, match="targets must be "):
        network.copy_slots(copied, torch.tensor([0, 1]), torch.tensor([0]))


ONE = replace(CASES["ten components, colour"], images=1)
CALLS = 30


def network_of_one(threads):
    return native_vectors.network(ONE, ISAS[0], threads)


def image_by(network):
    slots = native_vectors.slots(ONE)
    network.advance(slots, ONE.shape().bytes)
    return slots["images"]


@pytest.fixture
def one_core():
    """Keep this process on one core for the length of a test, with all threads that it starts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_that_share_one_core_cost_little_and_change_no_byte(one_core, threads):
    """An image has 36 steps of 21 barriers: few of them send a thread to
    sleep, which costs a time slice.
    """
    expected = image_by(network_of_one(threads=1))
    network = network_of_one(threads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    for _ in range(CALLS):
        assert torch.equal(image_by(network), expected)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before < 21 * 36 * CALLS / 10


def test_many_networks_at_once_do_not_block_each_other():
    expected = image_by(network_of_one(threads=1))
    assert all(
        torch.equal(image_by(network), expected)
        for network in [network_of_one(threads=4) for _ in range(8)]
    )


@pytest.mark.parametrize("odd", [False, True], ids=["finite", "not finite"])
@pytest.mark.parametrize("check", [native_fuzz.check_painting, native_fuzz.check_reading])
def test_bytes_and_numbers_depend_on_no_thread_call_or_instruction_set(check, odd):
    for seed in range(15):
        check(np.random.default_rng(seed), odd)


def test_wrong_arguments_are_refused_with_a_sentence():
    for seed in range(60):
        native_fuzz.check_wrong_arguments(np.random.default_rng(seed))
