"""The parts of a run, in the order in which they decide: does it work, is painting at its goal, is
training, then the rates that are published. docs/gpu.md says what follows from each answer.

`seconds` are what a part takes on an H100 with 16 cores. Their sum is less than the ten minutes that
a card is lent for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.gpu.ahead import ahead
from benchmarks.gpu.compile_kernels import compile_kernels
from benchmarks.gpu.correctness import same_bits, self_test
from benchmarks.gpu.goals import goals, one
from benchmarks.gpu.painting import bench, rates
from benchmarks.gpu.reading import likelihoods, reading
from benchmarks.gpu.results import Finding
from benchmarks.gpu.same_bytes import same_bytes
from benchmarks.gpu.setup import Sizes
from benchmarks.gpu.tests_here import run_tests
from benchmarks.gpu.update_profile import update_profile


@dataclass(frozen=True)
class Part:
    """Measurements that are made in one go. A later part needs no earlier one, but uses what
    `goals` has found."""

    name: str
    run: Callable[[Sizes], Iterator[Finding]]
    seconds: int
    what: str


PARTS = (
    Part(
        "compile",
        compile_kernels,
        45,
        "every kernel but those of int8, on all cores, into Triton's cache",
    ),
    Part(
        "self_test",
        self_test,
        10,
        "the backend that a server would choose, and whether it passes its own check",
    ),
    Part("same_bits", same_bits, 10, "bits, s and z of images, alone, among thousands, unchained"),
    Part(
        "goals",
        goals,
        35,
        "4,096 images by 1, 2 and 4 streams, beside the copy: the streams of all later parts",
    ),
    Part("one", one, 10, "1, 8 and 64 images, with deferred steps one by one and at once"),
    Part("same_bytes", same_bytes, 20, "int8: the CPU kernel's bits, and rates beside exact"),
    Part("ahead", ahead, 40, "painting ahead beside steps: bytes, bits, states, passes, rates"),
    Part("update_profile", update_profile, 90, "the compiled update, and its kernels by kind"),
    Part(
        "likelihoods",
        likelihoods,
        40,
        "scoring and classification, by passes with and without graphs",
    ),
    Part("tests", run_tests, 90, "tests of kernels and of the CUDA backend, on this device"),
    Part("rates", rates, 50, "images/s with 1 to 10,000 in flight"),
    Part("bench", bench, 60, "ceilings, one image, scoring, the authors' library"),
    Part("reading", reading, 60, "completions, codes"),
)
