"""Numbers that are not finite show in an image's bits on every backend, painted
or read, and in no other image's.
"""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE  # isort: skip

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.base.state import State
from tests.support import small_models

SMALL = {"height": 2, "width": 2, "layers": 1, "norm": "post"}
UNSOUND = 77  # the byte whose embedding is not usable
BEYOND_FLOAT16 = 1e6


def backend_of(name, value, config):
    model = small_models.model(config)
    model.embedding.value[UNSOUND] = value
    if name == "eager":
        return EagerBackend(model)
    if name == "cuda":
        return CudaBackend(
            model.to(DEVICE), options=CudaOptions((2,), steps=1, prefill_graphs=((1, 4), (2, 4)))
        )
    if not cpu_kernels.available():
        pytest.skip("the cpu kernel was not compiled")
    return CpuBackend(model, 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter
@pytest.mark.parametrize(
    ("name", "value", "activation"),
    [
        ("cpu", np.nan, "relu"),
        ("cpu", np.inf, "gelu"),
        ("eager", np.nan, "relu"),
        ("cuda", BEYOND_FLOAT16, "relu"),
    ],
)
def test_bits_are_not_finite_from_the_byte_on_that_is_not_usable(name, value, activation):
    config = small_models.config(**SMALL, activation=activation)
    backend = backend_of(name, value, config)
    device = torch.device(DEVICE if name == "cuda" else "cpu")
    images = torch.tensor([[1, UNSOUND, 2, 3], [1, 2, 3, 4]], dtype=torch.uint8, device=device)
    pool = SlotPool.empty(config, backend.rows * 2, device)
    pool.images[:2], pool.known[:2], pool.state.position[:2] = images, True, 0
    backend.advance(pool, np.arange(2), config.steps).wait()
    assert pool.bits[:2].isfinite().tolist() == [False, True]
    bits = backend.prefill(
        PrefillBatch.of(
            images, State.zeros(config, 2, device, deferred=backend.deferred), np.array([4, 4])
        )
    )
    assert not bits[0, 2:].isfinite().any()
    assert bits[1].isfinite().all()
