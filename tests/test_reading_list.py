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
    assert len(listed) > MANY
    printed = subprocess.run(
        [sys.executable, "-m", "tests.support.sampled_files"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    lines = re.findall(r"^(\d+) (\S+\.py)$", printed, re.MULTILINE)
    ran = {file for _, file in lines}
    central = {file for count, file in lines if int(count) >= MANY}
    assert listed <= ran
    assert central <= listed
