"""Images that are to be coded, or that have a tolerance, read in one call: each has the results that it has alone."""

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.backend import Backend
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.state import State
from tests.support import small_models

ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
CONFIG = small_models.config(predicts="categorical", **small_models.WINDOW, **small_models.CLASSES)
IMAGES = torch.from_numpy(small_models.images(CONFIG, 3))
LABELS = torch.tensor([2, 0, 1])
TOLERANCES = np.array([30, 0, 255])


def read(backend: Backend, *rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return bits [n, N] and intervals [n, N, 2] of some of the images."""
    chosen = [*rows]
    intervals = torch.zeros(len(rows), CONFIG.bytes, 2, dtype=torch.int32)
    stops, state = np.full(len(rows), CONFIG.bytes), State.zeros(CONFIG, len(rows))
    batch = PrefillBatch.of(IMAGES[chosen], state, stops, LABELS[chosen], TOLERANCES[chosen], intervals)
    return backend.prefill(batch), intervals


@pytest.mark.parametrize("way", [*ISAS, "eager"])
def test_intervals_beside_tolerances(way: str) -> None:
    model = small_models.model(CONFIG)
    backend = EagerBackend(model) if way == "eager" else CpuBackend(model, 2, isa=way)
    bits, intervals = read(backend, 0, 1, 2)
    assert (intervals[..., 1] >= 1).all()
    for row in range(3):
        own_bits, own_intervals = read(backend, row)
        assert torch.equal(own_bits[0], bits[row])
        assert torch.equal(own_intervals[0], intervals[row])
    backend.close()
