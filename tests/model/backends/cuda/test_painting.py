"""The CUDA backend: the parameters of Transformer.step, and slots without an image, which stay as they are."""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, ON_GPU  # isort: skip

from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.engine.slot_arrays import clear
from tests.support.sweeps import and_slow

TINY = small_models.config(height=1, width=4, layers=1)


def small(sizes: tuple[int, ...]) -> CudaOptions:
    """Options for few images: two steps in a graph of one image, and few rows to read at a time."""
    return CudaOptions(sizes=sizes, steps=2, few=1, prefill_graphs=((2, 3),))


def with_base(model: Transformer, parameters: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """The parameters as the network returns them: with the base added to every component's means."""
    k, c = model.config.components, model.config.channels
    moved = parameters.clone()
    if model.config.predicts == "pixel_logistics":
        moved[:, k : k + k * c] += base.repeat(1, k)
    return moved


def place(slots: SlotPool, slot: int, first: int, index: int) -> None:
    """Starts an image in a slot: the higher its index, the higher its temperature; every third has known bytes."""
    clear(slots.state, slot, first)
    slots.seed[slot], slots.index[slot], slots.temperature[slot] = 2**40 + 1, index, 0.5 + index / 40
    slots.bits[slot], slots.images[slot] = 0, index
    if index % 3 == 0:
        slots.known[slot, 1::2] = True


def advance(backend: CudaBackend, slots: SlotPool, steps: int) -> None:
    """Paints up to `steps` steps of all images that are not done."""
    left = (slots.images.shape[1] - int(slots.state.position.min())) // backend.config.step_bytes
    if chosen := slots.in_flight().tolist():
        backend.advance(slots, np.array(chosen), min(steps, left)).wait()


@pytest.mark.parametrize("variant", and_slow(small_models.CORE, *small_models.REST))
def test_parameters_and_states_are_those_of_the_step(variant: str) -> None:
    options = small_models.VARIANTS[variant] | small_models.CLASSES
    model = small_models.model(small_models.config(**options)).to(DEVICE)
    config, chosen = model.config, [0, 2, 3]
    backend, slots = CudaBackend(model, options=small((1, 4))), SlotPool.empty(config, 5, DEVICE, deferred=3)
    for slot in chosen:
        place(slots, slot, config.first, slot)
        slots.label[slot] = slot
    state = State.zeros(config, len(chosen), DEVICE)
    for _ in range(2):
        expected = model.step(slots.images[chosen], state, slots.label[chosen])
        advance(backend, slots, 1)
        found = backend.buffers.part(0, len(chosen))
        assert_close("parameters", expected, with_base(model, found.parameters, found.base))
    complete = slots.state.complete(config.step_bytes)
    assert_close("s", state.s, complete.s[:, chosen])
    assert_close("z", state.z, complete.z[:, chosen])
    shown = slots.snapshot(2, 0, 1, config.step_bytes).wait()
    assert all(
        (left == right.cpu().numpy()).all()
        for left, right in zip(shown, (complete.s[0, 2, 1], complete.z[0, 2, 1]), strict=True)
    )
    assert slots.state.position[chosen].tolist() == state.position.tolist()


def test_finished_images_and_free_slots_are_not_changed() -> None:
    model = small_models.model(TINY).to(DEVICE)
    backend, slots = CudaBackend(model, options=small((4,))), SlotPool.empty(TINY, 3, DEVICE, deferred=3)
    place(slots, 0, 0, 1)
    place(slots, 1, 0, 2)
    slots.state.position[0] = TINY.bytes - 1
    slots.state.s[:, 2], slots.state.z[:, 2] = float("nan"), float("nan")
    advance(backend, slots, 1)
    ended = [tensor.clone() for tensor in (slots.images, slots.bits)]
    state = [tensor.clone() for tensor in (slots.state.s, slots.state.z)]
    advance(backend, slots, TINY.bytes)
    done = [0, 2]
    for before, after in zip(ended, (slots.images, slots.bits), strict=True):
        assert torch.equal(before[done], after[done])
    for before, after in zip(state, (slots.state.s, slots.state.z), strict=True):
        assert torch.equal(before[:, done].nan_to_num(), after[:, done].nan_to_num())
    assert slots.state.position.tolist() == [TINY.bytes] * 3
    assert slots.bits[1].isfinite()


@pytest.mark.parametrize(("slots", "sizes"), [(1, [1]), (5, [1, 8])])
def test_warming_up_prepares_the_smallest_and_the_largest_size_that_the_slots_fill_and_changes_no_image(
    slots: int, sizes: list[int]
) -> None:
    model = small_models.model(TINY).to(DEVICE)
    backend, pool = CudaBackend(model, options=small((1, 4, 8))), SlotPool.empty(TINY, slots, DEVICE, deferred=3)
    for slot in range(slots):
        place(pool, slot, 0, slot)
    arrays = (pool.images, pool.bits, pool.state.s, pool.state.z, pool.state.position)
    before = [array.clone() for array in arrays]
    backend.warm_up(pool)
    assert sorted({size for size, _, _ in backend.graphs}) == sizes
    assert [found[1:] for found in backend.graphs if found[0] == 1] == [(2, False), (1, False), (1, True)]
    assert all(torch.equal(*pair) for pair in zip(before, arrays, strict=True))
    assert backend.kernel_prefill.in_one_launch


@pytest.mark.skipif(not ON_GPU, reason="CUDA graphs need a GPU")
def test_a_graph_is_recorded_once_for_each_size() -> None:
    model = small_models.model(TINY).to(DEVICE)
    backend = CudaBackend(model, options=small((1, 8)))
    slots = SlotPool.empty(TINY, 9, DEVICE)
    for slot in range(9):
        place(slots, slot, 0, slot)
    advance(backend, slots, 3)
    recorded = dict(backend.graphs)
    assert sorted(recorded) == [(1, 1, False), (1, 2, False), (8, 1, False)]
    advance(backend, slots, 3)
    assert backend.graphs == recorded
