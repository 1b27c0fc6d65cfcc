"""A minute of benchmarks/soak.py, in which the engine is killed twice: nothing lost, wrong, or left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_a_minute_of_everything() -> None:
    command = [sys.executable, "benchmarks/soak.py", "--minutes", "1", "--kill-every", "25", "--spell", "10"]
    soak = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert soak.returncode == 0, soak.stdout
