"""The number of threads that share a tile: the fastest, found by trying, and found again when that changes."""

import subprocess
from pathlib import Path

import pytest

from tests.support.kernels.compilers import COMPILER, compile_program

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
CALLS = 4000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(str(COMPILER), "group_size.cpp", tmp_path_factory.mktemp("group"), "-DISA=tested")


def chosen(program: Path, most: int, *seconds: tuple[float, ...]) -> list[list[int]]:
    """How often each size was chosen in the last half of the calls, for each of the times given one after the other."""
    given = "".join(f"{' '.join(map(str, line))}\n" for line in seconds)
    ran = subprocess.run([program, str(most), str(CALLS)], input=given, capture_output=True, text=True, check=True)
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
def test_the_fastest_size_is_taken_but_for_a_few_trials(
    program: Path, most: int, seconds: tuple[float, ...], best: int
) -> None:
    (counts,) = chosen(program, most, seconds)
    assert counts[best] >= 0.99 * CALLS / 2


def test_a_size_that_becomes_faster_is_found(program: Path) -> None:
    slow, fast = (4.0, 3.0, 2.0), (1.0, 2.0, 3.0)
    for counts, best in zip(chosen(program, 4, slow, fast, slow), (2, 0, 2), strict=True):
        assert counts[best] >= 0.98 * CALLS / 2
