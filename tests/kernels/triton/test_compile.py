"""Kernels as Triton's compiler makes them, without a GPU: no spills, and waits before copies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kernels.ttgir import early

ROOT = Path(__file__).parents[3]


def compiled(*arguments: str) -> list[str]:
    """Return what the compiler made of each kernel, a line each; fail where it has faults."""
    pytest.importorskip("triton", reason="Triton is not installed")
    command = [sys.executable, "-m", "tests.kernels.triton.compile", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.strip() for line in result.stdout.splitlines() if line.startswith("    sm_")]


@pytest.mark.compilers
def test_a_kernel_of_each_kind_has_no_faults_one_order_of_sums_and_one_variant_for_all_lengths() -> None:
    names = [line.split()[1].rstrip(":") for line in compiled("--only", "quick", "--capability", "90")]
    assert sorted(names) == [
        "_copy_slots",
        "_linear",
        "_row_moments",
        "_sequence",
        "_step",
        "_step",
        "walk_forward",
        "walk_states",
    ]


COPY = "ttg.async_copy_global_to_local"
WAIT = 'tt.elementwise_inline_asm "griddepcontrol.wait"'


def test_a_copy_before_the_wait_and_a_wait_in_a_loop_are_found() -> None:
    cases = {(WAIT, COPY): False, (COPY, WAIT): True, ("scf.for", WAIT, "scf.yield"): True}
    for lines, found in cases.items():
        assert early("\n".join(("tt.func public", *lines)), True) is found


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["80", "90", "100"])
def test_no_kernel_in_a_shape_that_users_run_has_faults(capability: str) -> None:
    assert compiled("--capability", capability)
