"""Kernels as Triton's compiler makes them, without a GPU: no spills, waits before copies, and programs that fit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kernels.ttgir import early

ROOT = Path(__file__).parents[3]
SMALL = ("86", "89", "120")  # cards with 99 KB of shared memory for a program


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
    """On cards with the least shared memory, the product that needs the most of it."""
    lines = compiled("--only", "quick", "--capability", "90", *SMALL)
    names = [line.split()[1].rstrip(":") for line in lines if line.startswith("sm_90")]
    assert sorted(names) == [
        "_categorical",
        "_categorical",
        "_causal_conv",
        "_causal_conv",
        "_causal_conv",
        "_causal_conv",
        "_copy_slots",
        "_feed_forward_rows",
        "_keep",
        "_keep",
        "_linear",
        "_pixels",
        "_pixels",
        "_row_moments",
        "_sample",
        "_sample",
        "_sample",
        "_sample",
        "_sequence",
        "_step",
        "_step",
        "walk_forward",
        "walk_states",
    ]
    needed = {int(found) for line in lines if "_linear" in line for found in re.findall(r"(\d+) bytes shared", line)}
    assert [line.split()[0] for line in lines if not line.startswith("sm_90")] == [f"sm_{card}" for card in SMALL]
    assert max(needed) <= 99 * 1024, "those cards would be left to torch"


COPY = "ttg.async_copy_global_to_local"
WAIT = 'tt.elementwise_inline_asm "griddepcontrol.wait"'


def test_a_copy_before_the_wait_and_a_wait_in_a_loop_are_found() -> None:
    cases = {(WAIT, COPY): False, (COPY, WAIT): True, ("scf.for", WAIT, "scf.yield"): True}
    for lines, found in cases.items():
        assert early("\n".join(("tt.func public", *lines)), True) is found


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["80", *SMALL, "90", "100"])
def test_no_kernel_in_a_shape_that_users_run_has_faults(capability: str) -> None:
    assert compiled("--capability", capability)
