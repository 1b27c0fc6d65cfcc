"""The CUDA backend: the parameters, images and costs of torch's step; slots
without an image stay as they are.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, ON_GPU, there  # isort: skip

from scanline.kernels.triton import linear
from scanline.model import backends
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Backend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.slots import SlotPool
from scanline.model.base.state import NUMBERS, State
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.engine.batch_composition import (
    PARTICLES,
    Painter,
    in_a_batch,
    painted_alone,
    watched,
)
from tests.support.engine.pools import with_base
from tests.support.sweeps import and_slow

TINY = small_models.config(height=1, width=4, layers=1)


def small(sizes: tuple[int, ...]) -> CudaOptions:
    """Options for few images: two steps in a graph of one image, and few rows to read at a time."""
    return CudaOptions(sizes=sizes, steps=2, few=1, prefill_graphs=((2, 3),))


def place(slots: SlotPool, slot: int, first: int, index: int) -> None:
    """Starts an image in a slot: the higher its index, the higher its
    temperature; every third has known bytes.
    """
    for name in NUMBERS:
        getattr(slots.state, name)[:, slot] = 0
    slots.state.position[slot] = first
    slots.seed[slot], slots.index[slot], slots.temperature[slot] = (
        2**40 + 1,
        index,
        0.5 + index / 40,
    )
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
    config = model.config
    chosen = [0, 2, 3]
    backend = CudaBackend(model, options=small((1, 4)))
    slots = SlotPool.empty(config, 5, DEVICE, deferred=3)
    for slot in chosen:
        place(slots, slot, config.first, slot)
        slots.label[slot] = slot
    state = State.zeros(config, len(chosen), DEVICE)
    for _ in range(2):
        expected = model.step(slots.images[chosen], state, slots.label[chosen])
        advance(backend, slots, 1)
        found = backend.buffers.part(0, len(chosen))
        assert_close(
            "parameters", expected, with_base(model.distribution, found.parameters, found.base)
        )
    complete = slots.state.complete(config.step_bytes)
    shown = slots.snapshot(2, 0, 1, config.step_bytes).wait()
    for name, of_image in zip(("s", "z"), shown, strict=True):
        assert_close(name, getattr(state, name), getattr(complete, name)[:, chosen])
        assert (of_image == getattr(complete, name)[0, 2, 1].cpu().numpy()).all()
    assert slots.state.position[chosen].tolist() == state.position.tolist()


@pytest.mark.parametrize(("slots", "sizes"), [(1, [1]), (5, [1, 8])])
def test_warming_up_prepares_the_smallest_and_the_largest_size_and_no_image(
    slots: int, sizes: list[int]
) -> None:
    model = small_models.model(TINY).to(DEVICE)
    backend = CudaBackend(model, options=small((1, 4, 8)))
    pool = SlotPool.empty(TINY, slots, DEVICE, deferred=3)
    for slot in range(slots):
        place(pool, slot, 0, slot)
    arrays = (pool.images, pool.bits, pool.state.s, pool.state.z, pool.state.position)
    before = [array.clone() for array in arrays]
    backend.warm_up(pool)
    assert sorted({size for size, _, _ in backend.graphs}) == sizes
    assert [found[1:] for found in backend.graphs if found[0] == 1] == [
        (2, False),
        (1, False),
        (1, True),
    ]
    assert all(torch.equal(*pair) for pair in zip(before, arrays, strict=True))
    assert backend.kernel_prefill.in_one_launch


SMALL = {"height": 1, "width": 2, "layers": 1}  # the interpreter takes its time
LABELS = [2, 0, 1]  # one for each image
OPTIONS = CudaOptions(sizes=(4,), steps=1)
# each way to read a step's bytes and each distribution
KINDS = and_slow(["plain", "pixels"], "strokes", "categorical", "authors", "grey pixels")


def model_of(
    variant: str, classes: tuple[tuple[str, ...], ...] = small_models.CLASSES["classes"]
) -> Transformer:
    options = {**small_models.VARIANTS[variant], **SMALL, "classes": classes}
    if "window_columns" in options:
        options |= {"window_rows": 1, "window_columns": 2}
    return small_models.model(small_models.config(**options)).to(DEVICE)


def painted(model: Transformer, labels: list[int], backend: Backend | None = None) -> SlotPool:
    """A pool whose first slots have the same images whatever their labels:
    all known, each second byte, none.
    """
    backend = backend or CudaBackend(model, options=OPTIONS)
    pool = SlotPool.empty(model.config, max(3, backend.rows), DEVICE)
    images = torch.from_numpy(small_models.images(model.config, 3))
    pool.images[:3], pool.label[:3] = there(images, torch.tensor(labels))
    for slot, every in enumerate((1, 2, model.config.bytes + 1)):
        pool.known[slot, every - 1 :: every] = True
    pool.seed[:3], pool.index[:3] = 2**40 + 1, torch.arange(3)
    pool.state.position[:3] = model.config.first
    backend.advance(pool, np.arange(3), model.config.steps).wait()
    return pool


@pytest.mark.parametrize("variant", KINDS)
def test_images_and_costs_are_those_of_torch_with_the_same_labels(variant: str) -> None:
    model = model_of(variant)
    found = painted(model, LABELS)
    expected = painted(model, LABELS, EagerBackend(model))
    # but where a byte is rounded from near a half
    same = (expected.images[:3] == found.images[:3]).all(dim=1)
    assert same[0]
    assert same.sum() >= 2
    for name in ("bits", "known_bits"):
        assert_close(name, getattr(expected, name)[:3][same], getattr(found, name)[:3][same])
    assert found.known_bits[0] == found.bits[0] > 0
    assert 0 < found.known_bits[1] < found.bits[1]
    assert found.known_bits[2] == 0


GUIDED = {  # image 0 guided in slots 7 and 1, image 1 alone in 4, image 2 guided in 0 and 2
    "slots": [7, 1, 4, 0, 2],
    "index": [0, 0, 1, 2, 2],
    "label": [2, 0, 1, 1, 0],
    "partner": [-6, 6, 0, 2, -2],
}


def guided(model: Transformer, backend: Backend, slots: int) -> SlotPool:
    pool = SlotPool.empty(model.config, slots, DEVICE, deferred=backend.deferred)
    arrivals = Arrivals.empty(5, model.config.bytes, pinned=not pool.on_host)
    for name, values in GUIDED.items():
        getattr(arrivals, name).copy_(torch.tensor(values))
    for name, value in {
        "seed": 5,
        "position": model.config.first,
        "temperature": 1.0,
        "guidance": 2.5,
    }.items():
        getattr(arrivals, name).fill_(value)
    backend.place(pool, arrivals)
    backend.advance(pool, np.sort(GUIDED["slots"]), model.config.steps).wait()
    return pool


@pytest.mark.parametrize("variant", ["categorical", "strokes", "pixels"])
def test_guided_images_and_costs_are_those_of_torch(variant: str) -> None:
    model = model_of(variant)
    eager = EagerBackend(model)
    expected = guided(model, eager, eager.rows)
    found = guided(model, CudaBackend(model, options=CudaOptions(sizes=(6,), steps=1)), 8)
    assert torch.equal(expected.images[:8], found.images)
    assert_close("bits", expected.bits[:8], found.bits)
    assert torch.equal(found.images[7], found.images[1])
    assert found.bits[7] != found.bits[1]


# the fourth step writes states; the interpreter takes its time
SIZES = {"height": 3, "width": 2, "layers": 1}
# in the interpreter
SOME = ["of a class", "known prefix, of a class", "guided", "particles", "code"]
NEVER = 10**9  # programs from which on tiles are wide


@dataclass(frozen=True)
class Run:
    slots: int
    options: CudaOptions
    wide_from: int  # programs of a product


def options(*sizes: int, steps: int = 1, streams: int = 1) -> CudaOptions:
    return CudaOptions(
        sizes, steps, few=2, streams=streams, many=4, at_once=2, prefill_graphs=((1, 4), (2, 4))
    )


ALONE = Run(0, options(1, 2, PARTICLES + 1), NEVER)
CROWDS = [Run(11, options(2, 4, steps=2, streams=2), 1), Run(7, options(4, steps=2), NEVER)]
CROWDS += [
    Run(PARTICLES, options(2, 8), 1),
    *(Run(slots, CudaOptions(), 1) for slots in (70, 5000) if ON_GPU),
]
SWEEP = ("strokes", "plain", "post", "categorical", "grey pixels", "waves of pixels")
CASES = and_slow(
    [("strokes", CROWDS if ON_GPU else CROWDS[:1])], *((variant, CROWDS) for variant in SWEEP)
)


def use(run: Run, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        backends, "_new_backend", lambda name, model, *_: CudaBackend(model, options=run.options)
    )
    patch.setattr(linear, "ENOUGH", run.wide_from)


@pytest.mark.parametrize(("variant", "crowds"), CASES)
def test_alone_is_in_a_batch(
    variant: str, crowds: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ON_GPU:  # where the self-test of each generator would take longer than the test
        monkeypatch.setattr(backends, "run_self_test", lambda *arguments: None)
        monkeypatch.setattr(CudaBackend, "warm_up", lambda *arguments: None)
    changes = {**small_models.VARIANTS[variant], **SIZES, **small_models.CLASSES}
    changes |= {"window_columns": 2} if "window_columns" in changes else {}
    model: Transformer = small_models.model(small_models.config(**changes)).to(DEVICE)
    if variant == "strokes":
        model.head.weight.mul_(16)  # so that particles are resampled
    painter = Painter(model, "cuda", "exact")
    use(ALONE, monkeypatch)
    images = watched(painter)
    images = images if ON_GPU else {name: images[name] for name in SOME}
    alone = painted_alone(painter, images)
    assert variant != "strokes" or alone["particles"][3] < PARTICLES / 2
    assert alone["code"][0] == small_models.images(model.config, 1).tobytes()
    for run in crowds:
        use(run, monkeypatch)
        for name, image in in_a_batch(painter.generator(run.slots), images).items():
            assert image == alone[name], (name, run)
