"""Kernels as Triton's compiler makes them, without a GPU: no spills, waits
before copies, and programs that fit.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.kernels.ttgir import early

ROOT = Path(__file__).parents[3]
SMALL = ("86", "89", "120", "121")  # cards with 99 KB of shared memory for a program


def compiled(*arguments):
    """Return what the compiler made of each kernel, a line each; fail where it has faults."""
    pytest.importorskip("triton", reason="Triton is not installed")
    command = [sys.executable, "-m", "tests.kernels.triton.compile", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.strip() for line in result.stdout.splitlines() if line.startswith("    sm_")]


@pytest.mark.compilers
def test_a_kernel_of_each_kind_has_no_faults_one_order_of_sums_and_one_variant_for_all_lengths():
    """On cards with the least shared memory, the product that needs the most of it."""
    lines = compiled("--only", "quick", "--capability", "90", *SMALL)
    names = [line.split()[1].rstrip(":") for line in lines if line.startswith("sm_90")]
    assert Counter(names) == {
        "_accept": 2,
        "_add_rows": 1,
        "_categorical": 2,
        "_causal_conv": 4,
        "_copy_slots": 1,
        "_divide": 1,
        "_guess": 4,
        "_keep": 2,
        "_linear": 1,
        "_pixels": 2,
        "_place_rows": 2,
        "_row_moments": 1,
        "_rows": 1,
        "_sample": 6,
        "_sequence": 1,
        "_step": 4,
        "_write_rows": 2,
        "walk_forward": 1,
        "walk_states": 1,
        # of training
        "_attend": 2,
        "_key_value_gradients": 2,
        "_later_sums": 2,
        "_query_gradients": 2,
        "_segment_sums": 2,
        "_norm_conv": 2,
        "_norm_conv_backward": 2,
    }
    needed = {
        int(found)
        for line in lines
        if "_linear" in line
        for found in re.findall(r"(\d+) bytes shared", line)
    }
    assert [line.split()[0] for line in lines if not line.startswith("sm_90")] == [
        f"sm_{card}" for card in SMALL
    ]
    assert max(needed) <= 99 * 1024, "those cards would be left to torch"


COPY = "ttg.async_copy_global_to_local"
WAIT = 'tt.elementwise_inline_asm "griddepcontrol.wait"'


def test_a_copy_before_the_wait_and_a_wait_in_a_loop_are_found():
    for lines, found in {
        (WAIT, COPY): False,
        (COPY, WAIT): True,
        ("scf.for", WAIT, "scf.yield"): True,
    }.items():
        assert early("\n".join(("tt.func public", *lines)), True) is found
