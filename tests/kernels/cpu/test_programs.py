"""C++ of the kernel alone: the same bits everywhere, errors as elementwise.h
says, and threads that share a tile.
"""

import platform
import subprocess

import pytest

from tests.support.kernels.compilers import COMPILER, HEADERS, compile_program, run_program
from tests.support.kernels.native import ISAS

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

PROCESSORS = {
    "avx512vnni": "cascadelake",
    "avx512": "skylake-avx512",
    "avx2": "haswell",
    "portable": "x86-64",
}
LARGEST_ERRORS = {  # in units of the last place: those that elementwise.h states, and gelu's own
    "exponential": 1.0,
    "logarithm": 1.0,
    "log_one_plus": 1.5,
    "log_sigmoid": 2.5,
    "log_one_minus_exponential": 4.0,
    "gelu": 6.0,
}


def arithmetic(folder, isa):
    """What arithmetic.cpp prints on that instruction set: a line for each
    function. It fails at a wrong fma.
    """
    known = platform.machine() == "x86_64" and isa in PROCESSORS
    flags = [f"-march={PROCESSORS[isa]}"] if known else []
    return run_program(
        compile_program(str(COMPILER), "arithmetic.cpp", folder, "-DISA=tested", *flags), "200000"
    )


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    return arithmetic(tmp_path_factory.mktemp("baseline"), "portable")


def test_fast_math_is_refused_because_it_would_change_the_bytes():
    command = [
        str(COMPILER),
        "-ffast-math",
        "-fsyntax-only",
        "-x",
        "c++",
        str(HEADERS / "runner.h"),
    ]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode
    assert "compile without it" in refused.stderr


def test_fma_is_exact_and_errors_are_as_small_as_stated(baseline):
    for name, _, error in map(str.split, baseline.splitlines()):
        assert 0 < float(error) <= LARGEST_ERRORS[name], name
    assert {line.split()[0] for line in baseline.splitlines()} == LARGEST_ERRORS.keys()


@pytest.mark.parametrize("isa", [isa for isa in ISAS if isa in PROCESSORS and isa != "portable"])
def test_every_instruction_set_gives_the_same_bits(isa, baseline, tmp_path):
    assert arithmetic(tmp_path, isa) == baseline


CALLS = 4000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program(
        str(COMPILER), "group_size.cpp", tmp_path_factory.mktemp("group"), "-DISA=tested"
    )


def chosen(program, most, *seconds):
    """How often each size was chosen in the last half of the calls, for each of the
    times given one after the other.
    """
    given = "".join(f"{' '.join(map(str, line))}\n" for line in seconds)
    ran = subprocess.run(
        [program, str(most), str(CALLS)], input=given, capture_output=True, text=True, check=True
    )
    return [[int(count) for count in line.split()] for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(
    ("most", "seconds", "best"),
    [
        (8, (1.0, 2.0, 4.0, 8.0), 0),
        (8, (3.0, 2.0, 4.0, 8.0), 1),
        (8, (5.0, 4.0, 3.0, 6.0), 2),
        (8, (8.0, 4.0, 2.0, 1.0), 3),
        (6, (3.0, 2.0, 1.0), 2),  # six threads are halved to three and to one
        (2, (1.0, 0.97), 0),  # too little to exchange the sizes
        (1, (1.0,), 0),
    ],
)
def test_the_fastest_size_is_taken_mostly(program, most, seconds, best):
    (counts,) = chosen(program, most, seconds)
    assert counts[best] >= 0.99 * CALLS / 2


def test_a_size_that_becomes_faster_is_found(program):
    slow = (4.0, 3.0, 2.0)
    fast = (1.0, 2.0, 3.0)
    for counts, best in zip(chosen(program, 4, slow, fast, slow), (2, 0, 2), strict=True):
        assert counts[best] >= 0.98 * CALLS / 2
