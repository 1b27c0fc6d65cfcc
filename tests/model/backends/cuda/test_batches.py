"""On the CUDA backend, bytes, bits and states are the same bit for bit alone and in any crowd: whatever graph an image
is in, and at which place, and whatever tiles the products have."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE  # isort: skip

from scanline.kernels.triton import linear
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.engine.slot_arrays import clear
from tests.support.sweeps import and_slow

SMALL = {"height": 1, "width": 2, "layers": 1}
VARIANTS = {"plain": {}, "post": {}, "categorical": {}, "grey pixels": {"window_rows": 1, "window_columns": 2}}
NEVER = 10**9  # programs from which on tiles are wide


@dataclass(frozen=True)
class Run:
    """How a crowd is painted."""

    images: int
    options: CudaOptions
    wide_from: int  # programs of a product
    steps: tuple[int, ...]  # of each call


ALONE = Run(1, CudaOptions(sizes=(1,), steps=1, prefill_rows=64), NEVER, (12,))
CROWDS = [
    Run(5, CudaOptions(sizes=(1, 8), steps=1, prefill_rows=64), 1, (1, 3, 8)),
    Run(6, CudaOptions(sizes=(1, 4), steps=2, few=4, prefill_rows=64), NEVER, (3, 9)),
    Run(5, CudaOptions(sizes=(6,), prefill_rows=64), 1, (12,)),
]


def painted(model: Transformer, run: Run, indices: list[int]) -> dict[int, tuple[torch.Tensor, ...]]:
    """Bytes, bits, s and z of images of these indices, in slots picked at random."""
    config, pool = model.config, SlotPool.empty(model.config, 2 * run.images, DEVICE)
    pool.state.s.fill_(float("nan"))  # what no image may read
    slots = np.random.default_rng(run.images).permutation(2 * run.images)[: len(indices)]
    for slot, index in zip(slots.tolist(), indices, strict=True):
        clear(pool.state, slot, config.first)
        pool.seed[slot], pool.index[slot], pool.temperature[slot] = 2**40 + 1, index, 0.5 + index / 20
        pool.known[slot, 1::2] = index % 3 == 0
        pool.images[slot] = 20 * index
    backend = CudaBackend(model, options=run.options)
    left = config.steps
    for steps in run.steps:
        backend.advance(pool, np.sort(slots), min(steps, left)).wait()
        left -= min(steps, left)
    backend.close()
    assert pool.state.position[torch.from_numpy(slots)].tolist() == [config.bytes] * len(indices)
    arrays = (pool.images, pool.bits, pool.state.s.transpose(0, 1), pool.state.z.transpose(0, 1))
    return {
        index: tuple(array[slot].clone() for array in arrays)
        for slot, index in zip(slots.tolist(), indices, strict=True)
    }


@pytest.mark.parametrize("variant", and_slow(["plain"], "grey pixels", "post", "categorical"))
def test_an_image_is_the_same_alone_and_in_every_crowd(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_models.model(
        small_models.config(**{**small_models.VARIANTS[variant], **SMALL, **VARIANTS[variant]})
    ).to(DEVICE)
    monkeypatch.setattr(linear, "ENOUGH", ALONE.wide_from)
    watched = [0, 4]
    alone = {index: painted(model, ALONE, [index])[index] for index in watched}
    for run in CROWDS:
        monkeypatch.setattr(linear, "ENOUGH", run.wide_from)
        together = painted(model, run, list(range(run.images)))
        for index in watched:
            for name, expected, found in zip(("bytes", "bits", "s", "z"), alone[index], together[index], strict=True):
                assert torch.equal(expected, found), (name, index, run)
    assert together[1][1] != together[2][1]
