"""The kernel compiled for aarch64 by setup.py, run by an emulator: bit for bit what
this machine's library computes.
"""

import pytest

from scanline.kernels import cpu as cpu_kernels
from tests.support.kernels import compilers, native_vectors
from tests.support.kernels.compilers import compile_library, compile_program, run_program
from tests.support.kernels.native import NATIVE
from tests.support.kernels.native_vectors import CASES
from tests.support.sweeps import and_slow

pytestmark = [
    pytest.mark.compilers,
    pytest.mark.skipif(
        bool(compilers.CROSS_MISSING), reason=f"not installed: {', '.join(compilers.CROSS_MISSING)}"
    ),
    NATIVE,
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Less optimised, which is compiled in two thirds of the time."""
    return program_with_the_library(tmp_path_factory.mktemp("aarch64"), "-O1")


@pytest.fixture(scope="module")
def released_program(tmp_path_factory):
    return program_with_the_library(tmp_path_factory.mktemp("released"), "")


def program_with_the_library(folder, flags):
    """vectors.cpp, linked with the library that setup.py makes when
    the compiler is one for aarch64.
    """
    cross = {
        "CC": f"{compilers.CROSS_PREFIX}-gcc",
        "CXX": f"{compilers.CROSS_PREFIX}-g++",
        "SCANLINE_CXXFLAGS": flags,
    }
    return compile_program(
        str(compilers.CROSS_COMPILER), "vectors.cpp", folder, compile_library(folder, **cross)
    )


@pytest.fixture(scope="module")
def plain_program(tmp_path_factory):
    """vectors.cpp with the portable code as a processor without vectors
    has it: no intrinsics of any kind.
    """
    folder = tmp_path_factory.mktemp("plain")
    flags = ["-DSCANLINE_ABI=0", "-DWITH_portable", "-pthread"]
    flags += ["-U__ARM_NEON", "-DISA=portable"]
    sources = [compilers.HEADERS / "runner.cpp", compilers.HEADERS / "dispatch.cpp"]
    return compile_program(str(compilers.CROSS_COMPILER), "vectors.cpp", folder, *sources, *flags)


@pytest.mark.compared(
    "networks of random numbers, all they compute", "this processor", "aarch64, emulated"
)
@pytest.mark.parametrize(
    ("isa", "fixture"),
    and_slow([("neon", "program")], ("neon", "released_program"), ("portable", "plain_program")),
)
@pytest.mark.parametrize("name", CASES)
def test_states_images_bits_and_parameters_are_those_of_this_processor(
    name, isa, fixture, request, tmp_path, compared
):
    case = CASES[name]
    native_vectors.record(case, tmp_path / "case")
    run_program(
        request.getfixturevalue(fixture),
        tmp_path / "case",
        tmp_path / "results",
        isa,
        emulated=True,
    )
    expected = native_vectors.run(case, cpu_kernels.instruction_sets()[0])
    found = native_vectors.read_results(tmp_path / "results", expected)
    assert [part for part in expected if (expected[part] != found[part]).any()] == []
    compared(*found.values())


@pytest.mark.slow
def test_its_arithmetic_is_that_of_this_processor(tmp_path):
    native = run_program(
        compile_program(str(compilers.COMPILER), "arithmetic.cpp", tmp_path, "-DISA=tested"), "1000"
    )
    program = compile_program(
        str(compilers.CROSS_COMPILER), "arithmetic.cpp", tmp_path, "-DISA=tested"
    )
    assert run_program(program, "10000", emulated=True) == native
