"""The Dockerfile passes hadolint, and agrees with pyproject.toml, setup.py and the settings."""

import re
import shutil
import subprocess
import sysconfig
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from scanline.kernels.cpu.bindings import LIBRARY
from scanline.server.environment import check

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
HADOLINT = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def in_build_context(path: str) -> bool:
    """Whether .dockerignore lets a file through: the last pattern that matches it or one of its folders decides."""
    found = True
    prefixes = [str(part) for part in (Path(path), *Path(path).parents)]
    for pattern in (ROOT / ".dockerignore").read_text().splitlines():
        if pattern.startswith("#"):
            continue
        name = pattern.removeprefix("!")
        if any(_matches(prefix, name) for prefix in prefixes):
            found = pattern.startswith("!")
    return found


def _matches(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch(Path(path).name, pattern.removeprefix("**/"))
    return path.count("/") == pattern.count("/") and path != "." and fnmatch(path, pattern)


@pytest.mark.skipif(HADOLINT is None, reason="hadolint has no package for this platform")
def test_hadolint_finds_nothing() -> None:
    result = subprocess.run([str(HADOLINT), "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("", 0)


def test_torch_is_the_version_of_the_project() -> None:
    (torch,) = re.findall(r'"(torch[^"]*)"', DOCKERFILE)
    assert torch in PROJECT["dependencies"]


def test_the_project_supports_its_python() -> None:
    (version,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    least = PROJECT["requires-python"].removeprefix(">=")
    assert [int(part) for part in version.split(".")] >= [int(part) for part in least.split(".")]


@pytest.mark.parametrize("folder", ["kernels", "model", "server/api", "server/cluster", "server/web/dist"])
def test_every_file_of_the_package_is_in_the_build_context(folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    files = [path for path in paths if path.parent.name != "__pycache__" and path.suffix != ".so"]
    assert files
    assert [path for path in files if not in_build_context(str(path.relative_to(ROOT)))] == []


@pytest.mark.parametrize(
    "path", ["__init__.py", "py.typed", "pyproject.toml", "setup.py", PROJECT["readme"], *PROJECT["license-files"]]
)
def test_the_files_at_the_root_are_in_the_build_context(path: str) -> None:
    assert (ROOT / path).is_file()
    assert in_build_context(path)


@pytest.mark.parametrize(
    "path", ["tests/conftest.py", ".git/HEAD", "server/web/node_modules/a/b.js", "kernels/cpu/_step.so"]
)
def test_other_files_are_not_in_the_build_context(path: str) -> None:
    assert not in_build_context(path)


def test_the_build_requires_files_that_the_wheel_has() -> None:
    library, page = re.findall(r"grep (\S+) contents", DOCKERFILE)
    assert f"scanline/kernels/cpu/{LIBRARY.name}".startswith(library)
    assert (ROOT / page.removeprefix("scanline/")).is_file()


def test_its_variables_are_settings() -> None:
    variables = dict(re.findall(r"\b(SCANLINE_\w+)=(\S+)", DOCKERFILE))
    assert variables
    check(variables, ())
