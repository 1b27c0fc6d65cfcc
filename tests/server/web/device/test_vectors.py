"""The page's random numbers and samples are the server's: both sides are compared with the same vectors."""

import json
import shutil
import subprocess

import pytest

from tests.support.page.vectors import FILE, vectors

WEB = FILE.parents[1]


def test_the_vectors_are_what_the_server_samples() -> None:
    """`python -m tests.support.page.vectors` writes them. The last digits of the bits depend on torch and processor."""
    written, found = json.loads(FILE.read_text()), json.loads(json.dumps(vectors()))
    for one, other in zip(written["samples"], found["samples"], strict=True):
        assert one.pop("bits") == pytest.approx(other.pop("bits"), rel=1e-4)
    assert written == found


@pytest.mark.skipif(not shutil.which("npm") or not (WEB / "node_modules").is_dir(), reason="needs `npm ci`")
def test_the_vectors_are_what_the_page_samples() -> None:
    ran = subprocess.run(["npm", "test"], cwd=WEB, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
