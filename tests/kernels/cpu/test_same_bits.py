"""The promise: the same network, seeds and bytes give the same bits on every instruction set and every processor."""

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.cpu.shape import STATE
from tests.support.kernels import native_vectors
from tests.support.kernels.native_vectors import CASES, Case

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")

ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
# Of all bits of a run, on any machine. When the arithmetic changes they do, and so do the images of every seed.
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


@pytest.mark.parametrize("name", CASES)
def test_states_images_bits_and_parameters_are_the_recorded_ones_on_every_instruction_set(name: str) -> None:
    for isa in ISAS:
        results = native_vectors.run(CASES[name], isa)
        assert all(np.isfinite(array).all() for array in results.values()), isa
        assert native_vectors.digest(results) == DIGESTS[name], isa


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_prefilled_bytes_leave_what_forced_ones_do(name: str, isa: str) -> None:
    case = CASES[name]
    length, first = native_vectors.inputs(case)["images"].shape[1], case.shape().first
    size = case.shape().step_bytes
    stop = length - 2 * size
    forced = native_vectors.slots(case, known=torch.ones(case.images, length, dtype=torch.uint8))
    prefilled = native_vectors.slots(case)
    network = native_vectors.network(case, isa, threads=2)
    network.advance(forced, (stop - first) // size)
    bits = torch.zeros(case.images, stop - first).double()
    states = {name: prefilled[name] for name in (*STATE, "images", "label")}
    network.read(states, first, stop, bits, None)
    network.close()
    assert torch.equal(forced["s"], prefilled["s"])
    assert torch.equal(forced["z"], prefilled["z"])
    assert torch.equal(forced["conv_state"].nan_to_num(), prefilled["conv_state"].nan_to_num())
    assert torch.equal(forced["position"], prefilled["position"])
    total = torch.zeros(case.images).double()
    for column in bits.T:
        total += column
    assert torch.equal(forced["bits"], total)
    assert torch.equal(forced["known_bits"], total)


@pytest.mark.parametrize("name", CASES)
def test_known_bits_are_the_cost_of_the_known_bytes_that_steps_have_passed(name: str) -> None:
    case = CASES[name]
    shape, painted = case.shape(), native_vectors.slots(case)
    painted["known_bits"].fill_(3.25)
    network = native_vectors.network(case, ISAS[0], threads=2)
    network.advance(painted, shape.bytes)
    read, bits = native_vectors.slots(case), torch.zeros(case.images, shape.bytes - shape.first).double()
    states = {name: read[name] for name in (*STATE, "label")} | {"images": painted["images"]}
    network.read(states, shape.first, shape.bytes, bits, None)
    network.close()
    total = torch.full((case.images,), 3.25).double()
    for column, known in zip(bits.T, painted["known"][:, shape.first :].bool().T, strict=True):
        total += column * known
    assert torch.equal(painted["known_bits"], total)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_an_image_follows_its_own_bytes_as_far_as_they_go(name: str, isa: str) -> None:
    """Its next bytes are drawn from the parameters of a read, not from those of its steps."""
    case = CASES[name]
    shape = case.shape()
    painted = native_vectors.slots(case, known=torch.zeros(case.images, shape.bytes, dtype=torch.uint8))
    network = native_vectors.network(case, isa, threads=1)
    network.advance(painted, shape.bytes)
    read, steps = native_vectors.slots(case), (shape.bytes - shape.first) // shape.step_bytes
    states = {each: read[each] for each in (*STATE, "label")} | {"images": painted["images"]}
    bits = torch.empty(case.images, shape.bytes - shape.first, dtype=torch.float64)
    parameters = torch.empty(case.images, steps, shape.parameters)
    network.read(states, shape.first, shape.bytes, bits, parameters)
    numbers = ("seed", "index", "temperature", "guidance")
    drawn_by = {each: painted[each][0].item() for each in numbers} | {"position": shape.first}
    without = parameters[1] if case.guided else None
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
    network.close()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("images", [5, 300], ids=["few", "more than a thread copies"])
def test_copied_slots_have_the_state_image_and_bits_of_their_sources(images: int, threads: int) -> None:
    sizes = {"layers": 3, "heads": 2, "key_width": 17, "value_width": 33}
    case = Case({**native_vectors.WINDOW, "causal_conv": 1, **sizes}, images=images)
    random, slots = torch.Generator().manual_seed(0), native_vectors.slots(case)
    for name in ("s", "z", "conv_state", "bits", "known_bits"):
        slots[name].normal_(generator=random)
    before = {name: tensor.clone() for name, tensor in slots.items()}
    order = torch.randperm(images, generator=random)
    targets, origin = order[: images // 2], torch.arange(images)
    sources = order[images // 2 :][torch.randint(images // 4 + 1, (len(targets),), generator=random)]
    targets, sources = torch.cat((targets, order[-1:])), torch.cat((sources, order[-1:]))  # the last one is itself
    origin[targets] = sources
    network = native_vectors.network(case, ISAS[0], threads)
    copied = {name: slots[name] for name in (*STATE, "images", "bits")}
    network.copy_slots(copied, sources, targets)
    for name, tensor in slots.items():
        expected = before[name]
        if name in ("s", "z", "conv_state"):
            expected = expected[:, origin]
        elif name in ("images", "bits"):
            expected = expected[origin]
        assert torch.equal(tensor, expected), name
    for wrong in (torch.tensor([images]), torch.tensor([-1])):
        with pytest.raises(ValueError, match=f"sources must be from 0 to {images - 1}"):
            network.copy_slots(copied, wrong, torch.tensor([0]))
        with pytest.raises(ValueError, match=f"targets must be from 0 to {images - 1}"):
            network.copy_slots(copied, torch.tensor([0]), wrong)
    with pytest.raises(ValueError, match="targets must be "):
        network.copy_slots(copied, torch.tensor([0, 1]), torch.tensor([0]))
    network.close()
