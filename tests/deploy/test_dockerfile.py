"""The Dockerfile: hadolint is content, and what it says twice is what pyproject.toml says."""

import re
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from scanline.server.environment import check

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
HADOLINT = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.skipif(HADOLINT is None, reason="no hadolint for this machine")
def test_hadolint_finds_nothing() -> None:
    told = subprocess.run([str(HADOLINT), "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (told.stdout, told.returncode) == ("", 0)


def test_torch_is_the_one_of_the_project() -> None:
    (wanted,) = re.findall(r'"(torch[^"]*)"', DOCKERFILE)
    assert wanted in PROJECT["dependencies"]


def test_its_python_is_one_of_the_projects() -> None:
    (version,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    least = PROJECT["requires-python"].removeprefix(">=")
    assert [int(part) for part in version.split(".")] >= [int(part) for part in least.split(".")]


def test_what_the_build_needs_is_let_through() -> None:
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / path).exists() for path in let_through)
    assert {"pyproject.toml", "setup.py", PROJECT["readme"], *PROJECT["license-files"]} <= set(let_through)
    assert {"kernels", "model", "server"} <= set(let_through)


def test_its_variables_are_settings() -> None:
    variables = dict(re.findall(r"\b(SCANLINE_\w+)=(\S+)", DOCKERFILE))
    assert variables
    check(variables, ())
