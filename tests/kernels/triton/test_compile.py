"""That Triton's compiler makes of the kernels what is meant, with a GPU at hand or without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def compiled(*arguments: str) -> list[str]:
    """Returns what the compiler made of each kernel, a line each; fails where it has faults."""
    pytest.importorskip("triton", reason="Triton is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.kernels.triton.compile", *arguments]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.strip() for line in result.stdout.splitlines() if line.startswith("    sm_")]


def test_a_kernel_of_each_kind_has_no_faults_and_attention_is_compiled_once_for_all_lengths() -> None:
    names = [line.split()[1].rstrip(":") for line in compiled("--only", "quick", "--capability", "90")]
    assert sorted(names) == ["_linear", "_linear", "_row_moments", "_step", "walk_forward", "walk_states"]


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["80", "90", "100"])
def test_no_kernel_in_a_shape_that_users_run_has_faults(capability: str) -> None:
    assert compiled("--capability", capability)
