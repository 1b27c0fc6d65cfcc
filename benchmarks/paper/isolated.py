"""Seconds and peak memory of one call, in processes of their own that may not exceed the memory that is free.

Peak memory is what the call, its arguments and its gradients add to a process (VmHWM of /proc/self/status, so Linux
only). Every call gets a new process, forked from one that has loaded the modules, since memory that an earlier call has
freed would be used again and not be counted; for the same reason its allocator returns every large tensor to the
system. Time is measured in another process, with the allocator as it is.
"""

import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import forkserver, get_context
from pathlib import Path

import numpy as np
import torch

from benchmarks.paper.results import Point
from scanline.model.bench.measure import durations
from scanline.model.resources import free_memory

Prepare = Callable[[int], Callable[[], object]]  # length -> the call to measure, with its inputs drawn

SHARE = 0.85  # of the free memory that a call may take
WARM_UP = 128  # length of a first call, so that what torch loads at its first use is not counted
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "16384"}
PRELOADED = ["benchmarks.paper.scaling"]


class Isolated:
    """Measures calls; a context, which starts the process that measures time and ends it."""

    def __enter__(self) -> "Isolated":
        threads = (torch.get_num_threads(),)
        self._times = ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, threads)
        return self

    def __exit__(self, *error: object) -> None:
        self._times.shutdown()

    def measure(self, prepare: Prepare, length: int, seconds: float) -> Point:
        """Return {"step_seconds", "peak_bytes"} of a call, the median of about `seconds` of them; {"does_not_fit":
        True, "killed", "limit_bytes"} where it needs more memory than is free, or the system killed its process.
        `prepare` is sent to the processes by name. RuntimeError where no process can be started."""
        limit = int(SHARE * free_memory())
        with _new_process() as process:
            try:
                peak = process.submit(peak_bytes, prepare, length, limit).result()
            except (BrokenProcessPool, MemoryError) as error:
                killed = isinstance(error, BrokenProcessPool)
                return {"does_not_fit": True, "killed": killed, "limit_bytes": limit}
        median = self._times.submit(median_seconds, prepare, length, seconds).result()
        return {"peak_bytes": peak, "step_seconds": median}


@contextmanager
def _new_process() -> Iterator[ProcessPoolExecutor]:
    """A new process with the allocator of ALLOCATOR, which has run nothing yet."""
    kept = dict(os.environ)
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    try:
        os.environ.update(ALLOCATOR)
        forkserver.ensure_running()  # its environment is the one at its start
    finally:
        for name in ALLOCATOR:
            os.environ.pop(name, None)
        os.environ.update(kept)
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (torch.get_num_threads(),)) as process:
        missing = set(ALLOCATOR) - set(process.submit(_names).result())
        if missing:
            raise RuntimeError(f"a fork server without {', '.join(sorted(missing))} is already running")
        yield process


def _names() -> list[str]:
    return list(os.environ)


def median_seconds(prepare: Prepare, length: int, seconds: float) -> float:
    return float(np.median(durations(prepare(length), seconds, minimum_calls=1)))


def peak_bytes(prepare: Prepare, length: int, limit: int) -> int:
    """Return what a call adds to this process. MemoryError where that is more than `limit` bytes."""
    prepare(min(WARM_UP, length))()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = status_bytes("VmRSS")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (status_bytes("VmData") + limit, hard))
    try:
        prepare(length)()
    except RuntimeError as error:  # of torch's allocator, which has no class of its own on a CPU
        if "alloc" in str(error):
            raise MemoryError(f"{limit} bytes are not enough") from None
        raise
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    return status_bytes("VmHWM") - before


def status_bytes(field: str) -> int:
    """Return a field of /proc/self/status, as in "VmRSS:    1234 kB"."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
