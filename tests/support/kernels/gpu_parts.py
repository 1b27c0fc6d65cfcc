"""Parts of a run of benchmarks.gpu that end in every way in which a part can; a process of its own imports them."""

import os
import time
from collections.abc import Callable, Iterator

from benchmarks.gpu.parts import Part
from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import Sizes


def works(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("works", os.getpid(), "process")


def raises(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("raises/before", 1.0)
    raise RuntimeError("CUDA error: an illegal memory access\nmore lines")


def dies(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("dies/before", 1.0)
    os._exit(7)


def hangs(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("hangs/before", 1.0)
    time.sleep(600)


def never(sizes: Sizes) -> Iterator[Finding]:
    raise AssertionError("this part has no time")
    yield


def part(run: Callable[[Sizes], Iterator[Finding]], seconds: int = 1) -> Part:
    return Part(run.__name__, run, seconds, "a test")
