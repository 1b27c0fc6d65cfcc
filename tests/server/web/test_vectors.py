"""What the page's random numbers are held to is what the server draws; where node is at hand, they are held to it."""

import json
import shutil
import subprocess

import pytest

from tests.support.page_vectors import FILE, vectors

WEB = FILE.parents[1]


def test_the_vectors_are_what_this_code_draws() -> None:
    """`python -m tests.support.page_vectors` writes them anew."""
    assert json.loads(FILE.read_text()) == json.loads(json.dumps(vectors()))


@pytest.mark.skipif(not shutil.which("npm") or not (WEB / "node_modules").is_dir(), reason="npm ci was not run")
def test_the_page_draws_them_too() -> None:
    ran = subprocess.run(["npm", "test"], cwd=WEB, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
