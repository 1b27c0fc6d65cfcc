"""The table of docs/gpu.md: what tests compare byte for byte, and how many bytes.

    python -m tests.support.compared        run these tests, slow ones too, and write the table

Such a test is marked `compared`, with what it compares and both sides, and calls the fixture
`compared` with what it found equal. Where pytest has the option --compared, that appends a line of
JSON to its file.
"""

import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.tables import TABLE, _table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/gpu.md"
NAMES = ("compared", "of", "with", "bytes")


def rows():
    """What marks name: tuples of what is compared and both sides, in the order of their files."""
    found = {}
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.compared":
                found[tuple(map(ast.literal_eval, node.args))] = None
    return list(found)


def record(file, row, values):
    """Append how many bytes arrays, tensors and bytes have to a file; do nothing without one."""
    if file is None:
        return
    sizes = [len(value) if isinstance(value, bytes) else value.nbytes for value in values]
    with Path(file).open("a") as lines:
        lines.write(json.dumps([row, sum(sizes)]) + "\n")


def made():
    """Run the tests and return the table, in its marks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines"
        command = [sys.executable, "-m", "pytest", "-m", "compared", "--compared", str(file)]
        subprocess.run(command, check=True, cwd=ROOT)
        return table(file.read_text())


def table(recorded):
    """The table of what tests have recorded; AssertionError where one was left out."""
    counts = Counter()
    for line in recorded.splitlines():
        row, size = json.loads(line)
        counts[tuple(row)] += size
    lines = []
    for row in rows():
        assert row in counts, f"no test of {row} ran: see what pytest says of those it skipped"
        lines.append([*row, f"{counts[row]:,}"])
    return f"<!-- table compared -->\n{_table(NAMES, lines)}\n<!-- end -->"


def shown():
    """The table of the page, in its marks."""
    table = TABLE.search(PAGE.read_text())
    assert table is not None
    return table[0]


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(shown(), made()))
