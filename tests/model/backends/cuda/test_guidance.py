"""Guided images on the CUDA backend: those of torch's step, whichever graph and place in it their slots have."""

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

SMALL = {"height": 1, "width": 2, "layers": 1}  # the interpreter takes its time
SLOTS = [7, 1, 4, 0, 2]  # image 0 guided in slots 7 and 1, image 1 alone in 4, image 2 guided in 0 and 2
INDEX = [0, 0, 1, 2, 2]
LABELS = [2, 0, 1, 1, 0]
PARTNER = [-6, 6, 0, 2, -2]


def model_of(variant: str) -> Transformer:
    options = {**small_models.VARIANTS[variant], **SMALL, **small_models.CLASSES}
    if "window_columns" in options:
        options |= {"window_rows": 1, "window_columns": 2}
    return small_models.model(small_models.config(**options)).to(DEVICE)


def painted(model: Transformer, backend: Backend, slots: int, rows: list[int]) -> SlotPool:
    """A pool after all steps of some of the images above."""
    pool = SlotPool.empty(model.config, slots, DEVICE)
    arrivals = Arrivals.empty(len(rows), model.config.bytes, pinned=not pool.on_host)
    numbers = {"slots": SLOTS, "index": INDEX, "label": LABELS, "partner": PARTNER}
    for name, values in numbers.items():
        getattr(arrivals, name).copy_(torch.tensor([values[row] for row in rows]))
    for name, value in {"seed": 5, "position": model.config.first, "temperature": 1.0, "guidance": 2.5}.items():
        getattr(arrivals, name).fill_(value)
    backend.place(pool, arrivals)
    backend.advance(pool, np.sort([SLOTS[row] for row in rows]), model.config.steps).wait()
    return pool


@pytest.mark.parametrize("variant", ["categorical", "strokes", "pixels"])
def test_images_and_costs_are_those_of_torch(variant: str) -> None:
    model = model_of(variant)
    eager = EagerBackend(model)
    expected = painted(model, eager, eager.rows, list(range(5)))
    found = painted(model, CudaBackend(model, options=CudaOptions(sizes=(6,), steps=1)), 8, list(range(5)))
    assert torch.equal(expected.images[:8], found.images)
    assert_close("bits", expected.bits[:8], found.bits)
    assert torch.equal(found.images[7], found.images[1])
    assert found.bits[7] != found.bits[1]


def test_a_guided_image_has_the_same_bits_alone_and_in_graphs_of_other_sizes() -> None:
    model = model_of("strokes")
    slots = there(torch.tensor([0, 2]))[0]
    alone = painted(model, CudaBackend(model, options=CudaOptions(sizes=(2,), steps=1)), 8, [3, 4])
    for sizes in ((6,), (2,)):  # together, or one pair after the other
        others = painted(model, CudaBackend(model, options=CudaOptions(sizes=sizes, steps=1)), 8, list(range(5)))
        for name in ("images", "bits"):
            assert torch.equal(getattr(alone, name)[slots], getattr(others, name)[slots])
        assert torch.equal(alone.state.s[:, slots], others.state.s[:, slots])
