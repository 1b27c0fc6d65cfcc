"""Classes and guidance on the CUDA backend: the images and costs of torch's step. Reads with labels: test_read.py."""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Backend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

SMALL = {"height": 1, "width": 2, "layers": 1}  # the interpreter takes its time
CLASSES = (("7", "seven"), ("horse",))
LABELS = [2, 0, 1]  # one for each image
OPTIONS = CudaOptions(sizes=(4,), steps=1)
# each way to read a step's bytes and each distribution
KINDS = and_slow(["plain", "pixels"], "strokes", "categorical", "authors", "grey pixels")


def model_of(variant: str, classes: tuple[tuple[str, ...], ...] = CLASSES) -> Transformer:
    options = {**small_models.VARIANTS[variant], **SMALL, "classes": classes}
    if "window_columns" in options:
        options |= {"window_rows": 1, "window_columns": 2}
    return small_models.model(small_models.config(**options)).to(DEVICE)


def started(model: Transformer, slots: int, labels: list[int]) -> SlotPool:
    """A pool whose first slots have the same images whatever their labels: all known, each second byte, none."""
    pool = SlotPool.empty(model.config, slots, DEVICE)
    count = len(labels)
    pool.images[:count], pool.label[:count] = there(
        torch.from_numpy(small_models.images(model.config, count)), torch.tensor(labels)
    )
    for slot, every in enumerate((1, 2, model.config.bytes + 1)):
        pool.known[slot, every - 1 :: every] = True
    pool.seed[:count], pool.index[:count] = 2**40 + 1, torch.arange(count)
    pool.state.position[:count] = model.config.first
    return pool


def painted(model: Transformer, labels: list[int]) -> SlotPool:
    pool = started(model, len(labels), labels)
    backend = CudaBackend(model, options=OPTIONS)
    backend.advance(pool, np.arange(len(labels)), model.config.steps).wait()
    return pool


def contents(pool: SlotPool) -> list[torch.Tensor]:
    return [pool.images, pool.bits, pool.known_bits, pool.state.s, pool.state.z]


@pytest.mark.parametrize("variant", KINDS)
def test_images_and_costs_are_those_of_torch_with_the_same_labels(variant: str) -> None:
    model = model_of(variant)
    found, eager = painted(model, LABELS), EagerBackend(model)
    expected = started(model, eager.rows, LABELS)
    eager.advance(expected, np.arange(len(LABELS)), model.config.steps).wait()
    same = (expected.images[: len(LABELS)] == found.images).all(dim=1)  # but where a byte is rounded from near a half
    assert same[0]
    assert same.sum() >= 2
    for name in ("bits", "known_bits"):
        assert_close(name, getattr(expected, name)[: len(LABELS)][same], getattr(found, name)[same])
    assert found.known_bits[0] == found.bits[0] > 0
    assert 0 < found.known_bits[1] < found.bits[1]
    assert found.known_bits[2] == 0


@pytest.mark.parametrize("variant", and_slow(["plain"], "grey pixels"))
def test_without_a_class_all_bits_are_those_of_a_model_without_classes(variant: str) -> None:
    with_classes, without = model_of(variant), model_of(variant, ())
    with_classes.load_state_dict(without.state_dict(), strict=False)
    with_classes.classes[0] = 0
    expected = contents(painted(without, [0, 0, 0]))
    for model, labels in ((with_classes, [0, 0, 0]), (without, [0, 1, 2])):
        assert all(torch.equal(*pair) for pair in zip(expected, contents(painted(model, labels)), strict=True))


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
    for name, value in {"seed": 5, "position": model.config.first, "temperature": 1.0, "guidance": 2.5}.items():
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
