"""Tests of the kernels and of the CUDA backend on this device: each file in a process of its own,
several at once.

One file that hangs, or that breaks its process, costs only itself.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import Sizes
from scanline.model.base.resources import cores

ROOT = Path(__file__).parents[2]
# of test files that run on a GPU where there is one, and of no others
MARK = "from tests.support.kernels.gpu import "
DRY = ("tests/kernels/triton/test_layer_norm.py",)
AT_ONCE = 8
LIMIT = 150  # seconds of one file; most of them are Triton's compiler's


def files_of_tests() -> list[str]:
    """Return the test files that run on a GPU where there is one, the longest first."""
    paths = [path for path in (ROOT / "tests").rglob("test_*.py") if MARK in path.read_text()]
    paths.sort(key=lambda path: -path.stat().st_size)
    return [str(path.relative_to(ROOT)) for path in paths]


def run_tests(sizes: Sizes) -> Iterator[Finding]:
    """Yield the number of tests that passed in each file; failed ones by name, with the first line
    of what they say."""
    files = DRY if sizes.dry else files_of_tests()
    with ThreadPoolExecutor(min(AT_ONCE, cores())) as pool:
        running = {pool.submit(_run, file): file for file in files}
        for done in as_completed(running):
            yield from done.result()


def _run(file: str) -> list[Finding]:
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            file,
        ]
        if find_spec("xdist"):
            command += ["-n0"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        try:
            result = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                timeout=LIMIT,
                capture_output=True,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [Finding(f"tests/{file}", None, note=f"did not end within {LIMIT} s")]
        if not report.exists():
            lines = [f"exit status {result.returncode}"]
            lines += (result.stdout + result.stderr).strip().splitlines()
            return [Finding(f"tests/{file}", None, note=f"no report: {lines[-1][:200]}")]
        return _read(file, ElementTree.parse(report).getroot())


def _read(file: str, root: ElementTree.Element) -> list[Finding]:
    cases = list(root.iter("testcase"))
    failures: list[Finding] = []
    skipped = 0
    for case in cases:
        for child in case:
            skipped += child.tag == "skipped"
            if child.tag in ("failure", "error"):
                first, _, _ = (child.get("message") or "").strip().partition("\n")
                name = f"tests/{file}::{case.get('name')}"
                failures.append(Finding(name, None, note=f"failed: {first[:300]}"))
    passed = len(cases) - len(failures) - skipped
    note = f"{len(failures)} failed, {skipped} skipped"
    return [Finding(f"tests/{file}", passed, "passed", note), *failures]
