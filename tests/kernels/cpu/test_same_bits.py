"""The promise: the same network, seeds and bytes give the same bits on every instruction set and every processor."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from tests.support import native_vectors
from tests.support.native_vectors import CASES

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")

ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
# Of all bits of a run, on any machine. When the arithmetic changes they do, and so do the images of every seed.
DIGESTS = {
    "odd": "da95f27d58f3028e",
    "odd, float16, pre-norm, GELU": "711d746845fe80b2",
    "odd, int8": "af23b2965001e292",
    "one component, one wide head": "67bb44cddb3d50d1",
    "ten components, colour": "3ea5eb0fbacd0b9e",
    "joined waves": "f7421887ad0c94e6",
    "vectors of 16": "c628b4bbd2eb81aa",
    "the paper's heads, int8": "2c4c350b3ce810d3",
    "more images than a tile": "2afaa58ec4aabba2",
    "categorical": "6192bb2a02fd7c2e",
    "window of greys": "b207169b4ca2080e",
    "strokes": "6aefff7b46d64cc8",
    "grey pixels": "b9cc3e431c3508f4",
    "colour pixels": "d15e2c32cfda05ef",
    "colour pixels, int8": "0a936e9b169adca8",
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
    states = {name: prefilled[name] for name in ("s", "z", "position", "images")}
    network.read(states, first, stop, bits, None)
    network.close()
    assert torch.equal(forced["s"], prefilled["s"])
    assert torch.equal(forced["z"], prefilled["z"])
    assert torch.equal(forced["position"], prefilled["position"])
    total = torch.zeros(case.images).double()
    for column in bits.T:
        total += column
    assert torch.equal(forced["bits"], total)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", ["more images than a tile", "strokes", "colour pixels", "colour pixels, int8"])
def test_an_image_is_the_same_alone(name: str, isa: str) -> None:
    case = replace(CASES[name], images=45)
    together = native_vectors.run(case, isa)["painted images"]
    length = together.shape[1]
    for b in (0, 17, case.images - 1):
        alone = {
            name: tensor[:, b : b + 1].contiguous() if name in ("s", "z") else tensor[b : b + 1].contiguous()
            for name, tensor in native_vectors.slots(case).items()
        }
        network = native_vectors.network(case, isa)
        network.advance(alone, length)
        network.close()
        assert (alone["images"][0].numpy() == together[b]).all(), b
