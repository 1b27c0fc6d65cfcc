"""A minute of `benchmarks.serving.soak`, the engine killed twice: nothing lost, wrong, or left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_minute_of_mixed_traffic_loses_and_leaves_nothing() -> None:
    options = ["--minutes", "1", "--kill-every", "25", "--pause", "10"]
    command = [sys.executable, "-m", "benchmarks.serving.soak", *options]
    soak = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert soak.returncode == 0, soak.stdout
