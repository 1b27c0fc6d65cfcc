"""fma, exp, log and what is made of them: the same bits everywhere, and errors as small as elementwise.h says."""

import platform
import subprocess
from pathlib import Path

import pytest

from scanline.kernels import cpu as cpu_kernels
from tests.support.kernels.compilers import COMPILER, HEADERS, compile_program, run_program

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
PROCESSORS = {"avx512vnni": "cascadelake", "avx512": "skylake-avx512", "avx2": "haswell", "portable": "x86-64"}
LARGEST_ERRORS = {  # in units of the last place: those that elementwise.h states, and gelu's own
    "exponential": 1.0,
    "logarithm": 1.0,
    "log_one_plus": 1.5,
    "log_sigmoid": 2.5,
    "log_one_minus_exponential": 4.0,
    "gelu": 6.0,
}


def arithmetic(folder: Path, isa: str) -> str:
    """What arithmetic.cpp prints on that instruction set: a line for each function. It fails at a wrong fma."""
    known = platform.machine() == "x86_64" and isa in PROCESSORS
    flags = [f"-march={PROCESSORS[isa]}"] if known else []
    return run_program(compile_program(str(COMPILER), "arithmetic.cpp", folder, "-DISA=tested", *flags), "200000")


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> str:
    return arithmetic(tmp_path_factory.mktemp("baseline"), "portable")


def test_fast_math_is_refused_because_it_would_change_the_bytes() -> None:
    command = [str(COMPILER), "-ffast-math", "-fsyntax-only", "-x", "c++", str(HEADERS / "runner.h")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode
    assert "compile without it" in refused.stderr


def test_fma_is_exact_and_errors_are_as_small_as_stated(baseline: str) -> None:
    for name, _, error in map(str.split, baseline.splitlines()):
        assert 0 < float(error) <= LARGEST_ERRORS[name], name
    assert {line.split()[0] for line in baseline.splitlines()} == LARGEST_ERRORS.keys()


@pytest.mark.parametrize("isa", [isa for isa in ISAS if isa in PROCESSORS and isa != "portable"])
def test_every_instruction_set_gives_the_same_bits(isa: str, baseline: str, tmp_path: Path) -> None:
    assert arithmetic(tmp_path, isa) == baseline
