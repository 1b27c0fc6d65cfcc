"""`python -m benchmarks.paper`: everything runs quickly, and a run that was killed goes on where it was."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.paper.__main__ import PARTS

ROOT = Path(__file__).parents[3]
FIVE_MINUTES = 300


def command(*arguments: str, out: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.paper", *arguments, "--quick", "--out", str(out)]


@pytest.mark.slow
def test_everything_runs_in_five_minutes(tmp_path: Path) -> None:
    """Of processor time, so that other programs do not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command(out=tmp_path), cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < FIVE_MINUTES
    page = (tmp_path / "paper.md").read_text()
    for part in PARTS:
        assert json.loads((tmp_path / f"{part}.json").read_text())["points"], part
        assert f"`python -m benchmarks.paper {part} --quick`" in page
