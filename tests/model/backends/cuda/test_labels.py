"""Classes on the CUDA backend: read and stepped with the same bits, and the parameters and costs of torch's step."""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

SMALL = {"height": 1, "width": 2, "layers": 1}  # the interpreter takes its time
CLASSES = (("7", "seven"), ("horse",))
LABELS = [2, 0, 1]  # one for each image
OPTIONS = CudaOptions(sizes=(4,), steps=1, reads=3, read_rows=6)
# each way to read a step's bytes and each distribution
KINDS = and_slow(["plain", "strokes", "pixels"], "categorical", "authors", "grey pixels")


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
def test_reading_with_labels_has_the_bits_of_stepping_with_them(variant: str) -> None:
    model = model_of(variant)
    config, backend = model.config, CudaBackend(model, options=OPTIONS)
    pool = painted(model, LABELS)
    state, (labels,) = State.zeros(config, len(LABELS), DEVICE), there(torch.tensor(LABELS))
    bits = backend.read(pool.images, state, np.full(len(LABELS), config.bytes), labels)
    assert torch.equal(pool.state.s, state.s)
    assert torch.equal(pool.state.z, state.z)
    added = torch.zeros_like(pool.bits)
    for byte in bits.unbind(1):
        added += byte
    assert torch.equal(pool.bits, added)
    unlabelled = State.zeros(config, len(LABELS), DEVICE)
    backend.read(pool.images, unlabelled, np.full(len(LABELS), config.bytes))
    same = [torch.equal(*(one.s[:, i] for one in (state, unlabelled))) for i in range(len(LABELS))]
    assert same == [label == 0 for label in LABELS]


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
    labelled = contents(painted(with_classes, LABELS))
    assert [torch.equal(expected[3][:, i], labelled[3][:, i]) for i in range(3)] == [False, True, False]
