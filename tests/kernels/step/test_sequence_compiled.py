"""One launch for many positions, compiled for a Hopper: it adds the same numbers in the same order as one for each.

    python -m tests.kernels.step.test_sequence_compiled

compiles both without a GPU and compares the layouts that decide the order of their sums; none may be contracted.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.kernels.ttgir import sums

ROOT = Path(__file__).parents[3]


def main() -> None:
    from tests.support.kernels.compiled_kernels import compiling  # isort: skip, before any kernel

    from scanline.kernels.step.fused_triton import fused_recurrent_step
    from scanline.kernels.step.sequence_triton import fused_recurrent_sequence

    for heads, width, dtype in ((8, 32, torch.float32), (8, 32, torch.float16), (3, 33, torch.float32)):
        s, z, two = torch.zeros(2, heads, width, width, dtype=dtype), torch.zeros(2, heads, width), torch.arange(2)
        with compiling(90) as found:
            fused_recurrent_step(torch.zeros(2, 3 * heads * width), s, z, two)
            fused_recurrent_sequence(torch.zeros(2, 3 * heads * width), s, z, two, two)
        step, sequence = (kernel.asm for kernel in found)
        assert len(sums(step["ttgir"])) == 2
        assert sums(step["ttgir"]) == sums(sequence["ttgir"])
        assert not any("fma.rn" in kernel["ptx"] for kernel in (step, sequence))


def test_one_launch_for_many_positions_adds_in_the_order_of_single_steps() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.kernels.step.test_sequence_compiled"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


if __name__ == "__main__":
    main()
