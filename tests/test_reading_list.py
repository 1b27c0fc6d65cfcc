"""The reading list of docs/architecture.md has the files that `scanline sample` runs."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MANY = 10  # functions: a file of which `sample` runs so many is listed


def test_the_reading_list_has_the_files_that_sample_runs():
    page = (ROOT / "docs/architecture.md").read_text()
    listed = set(re.findall(r"^\d+\. `(\S+)`:", page, re.MULTILINE))
    command = [sys.executable, "-m", "tests.support.sampled_files"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    counts = {file: int(count) for count, file in re.findall(r"^(\d+) (\S+\.py)$", printed, re.M)}
    assert len(listed) > MANY
    assert listed - counts.keys() == set()
    assert {file for file, count in counts.items() if count >= MANY} - listed == set()
