"""Compile the CPU kernel with sanitizers, run its tests with that
library, then the fuzz of its inputs.

    python tests/kernels/cpu/sanitize.py                      # AddressSanitizer and UndefinedBehaviorSanitizer
    python tests/kernels/cpu/sanitize.py --sanitizer thread   # ThreadSanitizer: barriers and the thread pool

Some minutes; gcc on Linux, one object for each instruction set. The first error ends it with its
report and status 1. The library is written to build/sanitized, and the one that is installed stays
as it is. Run it after each change of kernels/cpu.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = [
    "tests/kernels/cpu/test_same_bits.py",
    "tests/model/backends/test_cpu.py",
    "tests/model/sampling/test_seed.py",
]
TESTS += ["tests/model/sampling/test_batch_composition.py"]
FLAGS = "-O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize="
KINDS = {
    "address": "address,undefined,float-cast-overflow",
    # groups are halved where threads wait long, as they do here: then none would share a tile
    "thread": "thread -DSCANLINE_WHOLE_GROUPS",
}
# tests that run with each: those of groups that are halved need such groups
SELECTED = {"address": "", "thread": "not threads_that_share_one_core"}
RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
OPTIONS = {
    # Python keeps memory to its end, and finds its own libraries' leaks elsewhere
    "ASAN_OPTIONS": "detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:ignore_noninstrumented_modules=1",
}


def build(kind):
    folder = ROOT / "build" / "sanitized" / kind
    command = [
        sys.executable,
        "setup.py",
        "-q",
        "build_ext",
        "--build-lib",
        folder,
        "--build-temp",
        folder / "objects",
    ]
    subprocess.run(
        command, cwd=ROOT, env=os.environ | {"SCANLINE_CXXFLAGS": FLAGS + KINDS[kind]}, check=True
    )
    (library,) = folder.rglob("_step.abi*.so")
    return library


def run(library, kind, arguments):
    """Run this file again with the sanitizer's runtime loaded before all else; its exit status."""
    runtimes = [
        subprocess.run(
            ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        # the second, else exceptions are thrown past the first
        for name in (RUNTIMES[kind], "libstdc++.so.6")
    ]
    environment = os.environ | OPTIONS | {"LD_PRELOAD": ":".join(runtimes), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--library", library, "--sanitizer", kind, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def test_and_fuzz(library, kind, seconds, seed):
    """In the process with the runtime: the exit status of the
    tests, or 0 after `seconds` of fuzz.
    """
    os.environ.pop("LD_PRELOAD", None)  # not for programs that tests start
    sys.path[:0] = [str(ROOT)]
    import numpy as np
    import pytest

    from scanline.kernels.cpu import bindings

    bindings.LIBRARY = library
    assert bindings.available(), bindings.unavailable_reason()
    status = pytest.main(
        # the sanitizer writes its report to the stream that other captures would keep
        ["-q", "-n0", "--capture=sys", "-p", "no:cacheprovider", "-k", SELECTED[kind], *TESTS]
    )
    if status:
        return int(status)
    from tests.support.kernels import native_fuzz

    until = time.monotonic() + seconds
    first = seed
    while time.monotonic() < until:
        print(f"\rfuzz: seed {seed}", end="", flush=True)
        for odd in (False, True):
            native_fuzz.check_painting(np.random.default_rng(seed), odd)
            native_fuzz.check_reading(np.random.default_rng(seed), odd)
        for part in range(10):
            native_fuzz.check_wrong_arguments(np.random.default_rng([seed, part]))
        seed += 1
    print(f"\rfuzz: seeds {first} to {seed - 1}, no error")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sanitizer", choices=list(KINDS), default="address")
    parser.add_argument("--seconds", type=float, default=60, help="how long to fuzz")
    parser.add_argument("--seed", type=int, default=1000, help="of the first random case")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        return test_and_fuzz(options.library, options.sanitizer, options.seconds, options.seed)
    library = build(options.sanitizer)
    return run(
        library, options.sanitizer, ["--seconds", str(options.seconds), "--seed", str(options.seed)]
    )


if __name__ == "__main__":
    sys.exit(main())
