"""Threads that share cores: every barrier still opens, groups shrink, and no byte changes."""

import os
import resource
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from tests.support.kernels import native_vectors
from tests.support.kernels.native_vectors import CASES

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
CASE = CASES["ten components, colour"]
CALLS = 30


def paint(threads: int, calls: int = 1) -> np.ndarray:
    """Return the image after painting it `calls` times over."""
    network = native_vectors.network(CASE, cpu_kernels.instruction_sets()[0], threads)
    for _ in range(calls):
        slots = {
            name: tensor[:, :1].contiguous() if name in ("s", "z", "conv_state") else tensor[:1].contiguous()
            for name, tensor in native_vectors.slots(CASE).items()
        }
        network.advance(slots, CASE.shape().bytes)
    network.close()
    return slots["images"].numpy()


@pytest.fixture
def one_core() -> Iterator[None]:
    """Keep this process on one core for the length of a test, with all threads that it starts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_that_share_one_core_cost_little_and_change_no_byte(one_core: None, threads: int) -> None:
    """An image has 36 steps of 21 barriers: few of them send a thread to sleep, which costs a time slice."""
    expected = paint(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    np.testing.assert_array_equal(paint(threads, CALLS), expected)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before < 21 * 36 * CALLS / 10


def test_many_networks_at_once_do_not_block_each_other() -> None:
    networks = [native_vectors.network(CASE, cpu_kernels.instruction_sets()[0], 4) for _ in range(8)]
    expected = paint(1)
    for network in networks:
        slots = native_vectors.slots(CASE)
        network.advance(slots, CASE.shape().bytes)
        assert torch.equal(slots["images"][:1], torch.from_numpy(expected))
    for network in networks:
        network.close()
