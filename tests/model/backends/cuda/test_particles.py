"""Particles on the CUDA backend: slots are copied in the order of calls;
waiting for the device costs no core.
"""

import copy

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, ON_GPU, there  # isort: skip

import time

from scanline.model.backends import particles
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.groups import Groups
from scanline.model.backends.pending import DeviceClock
from scanline.model.backends.slots import ARRAYS, SlotPool
from tests.support import small_models

CONFIG = small_models.config(height=2, width=3, layers=2)
SLOTS = 9
GROUPS = Groups(np.array([[7, 2, 5], [1, 0, 4]]), np.array([3, 2]))
# Of the first group, the particle in slot 5 has nearly all of the
# weight; in the second, all weigh the same.
KNOWN_BITS = {
    7: 40.0,
    2: 45.0,
    5: 1.0,
    1: 2.5,
    0: 2.5,
    4: 2.5,
}


def backend_of(model, state_dtype=torch.float32):
    return CudaBackend(
        model,
        state_dtype,
        options=CudaOptions(
            (4,),
            steps=1,
            prefill_graphs=((1, 4),),
        ),
    )


def filled(state_dtype=torch.float32):
    """A pool in which every slot holds numbers of its own."""
    pool = SlotPool.empty(CONFIG, SLOTS, DEVICE, state_dtype, 3)
    random = torch.Generator().manual_seed(0)
    for array in (pool.state.s, pool.state.z, pool.state.deferred, pool.bits, pool.evidence_bits):
        array.copy_(torch.rand(array.shape, generator=random))
    pool.images.copy_(torch.randint(256, pool.images.shape, generator=random))
    pool.index.copy_(torch.arange(SLOTS) + (torch.arange(SLOTS) << 32))
    pool.label.copy_(torch.arange(SLOTS))
    pool.effective_particles.fill_(3)
    pool.known_bits[list(KNOWN_BITS)] = there(torch.tensor(list(KNOWN_BITS.values())).double())[0]
    return pool


def contents(pool):
    return vars(pool.state) | {name: getattr(pool, name) for name in ARRAYS}


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_resampling_is_that_of_plain_torch_bit_for_bit(state_dtype):
    pool = filled(state_dtype)
    backend = backend_of(small_models.model(CONFIG).to(DEVICE), state_dtype)
    # some survive, some are copied, in both groups
    pool.known_bits.copy_(torch.linspace(0, 30, SLOTS))
    by_torch = copy.deepcopy(pool)
    addresses = {name: array.data_ptr() for name, array in contents(pool).items()}
    for decide, decide_by_torch in (
        (backend.resample, lambda *of: particles.resample(*of, particles.copy_slots)),
        (backend.choose, particles.choose),
    ):
        decide(pool, GROUPS)
        decide_by_torch(by_torch, GROUPS)
        for name, array in contents(pool).items():
            assert torch.equal(contents(by_torch)[name], array), name
    assert addresses == {name: array.data_ptr() for name, array in contents(pool).items()}


@pytest.mark.skipif(not ON_GPU, reason="only a GPU can be waited for")
def test_nothing_waits_for_the_gpu():
    pool = filled()
    backend = backend_of(small_models.model(CONFIG).to(DEVICE))
    backend.warm_up(pool)
    for _ in range(2):  # the first calls load code, for which the driver may wait
        backend.resample(pool, GROUPS)
        backend.choose(pool, GROUPS)
    torch.cuda.set_sync_debug_mode("error")
    try:
        backend.resample(pool, GROUPS)
        backend.choose(pool, GROUPS)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_a_wait_for_a_gpu_takes_no_core():
    clock = DeviceClock(torch.device("cuda"))
    torch.cuda._sleep(2_000_000_000)  # cycles: about a second
    began = time.process_time()
    assert time.process_time() - began < 0.1 * clock.stop().wait()
