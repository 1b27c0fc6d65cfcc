"""The parts of a run, in the order of their worth: whether it works at all, then what it reaches, then why."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.gpu.compile_kernels import compile_kernels
from benchmarks.gpu.correctness import same_bits, self_test, states_of_16_bits
from benchmarks.gpu.engine_loop import engine_loop
from benchmarks.gpu.kernels import kernel_profile, state_tiles
from benchmarks.gpu.painting import bench, rates
from benchmarks.gpu.reading import likelihoods, reading
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import Sizes
from benchmarks.gpu.sweep import sweep
from benchmarks.gpu.tests_here import run_tests
from benchmarks.gpu.update_profile import update_profile


@dataclass(frozen=True)
class Part:
    """Measurements that are made in one go; a later part needs no earlier one."""

    name: str
    run: Callable[[Sizes], Iterator[Finding]]
    seconds: int  # on an H200 with 16 cores; from states on estimated
    what: str


PARTS = (
    Part("compile", compile_kernels, 45, "every kernel, on all cores, into Triton's cache"),
    Part("tests", run_tests, 90, "tests of kernels and of the CUDA backend, on this device"),
    Part("self_test", self_test, 10, "the backend that a server would choose, and whether it passes its own check"),
    Part("same_bits", same_bits, 10, "bits, s and z of images, alone and among thousands"),
    Part("rates", rates, 50, "images/s with 1 to 10,000 in flight"),
    Part("bench", bench, 60, "`scanline bench`: ceilings, one image, scoring, memory, the authors' library"),
    Part("profile", kernel_profile, 15, "every kernel of a step"),
    Part("engine", engine_loop, 15, "the engine loop with 4,096 in flight"),
    Part("likelihoods", likelihoods, 40, "scoring and classification, by passes with and without graphs"),
    Part("reading", reading, 60, "completions, codes"),
    Part("states", states_of_16_bits, 25, "16-bit states in bits/dim"),
    Part("sweep", sweep, 45, "streams, chained launches, sizes of graphs"),
    Part("state_tiles", state_tiles, 25, "recurrent step alone: its programs, and how often states are written"),
    Part("update_profile", update_profile, 90, "the compiled update, and its kernels"),
)
