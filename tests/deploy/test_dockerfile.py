"""The Dockerfile passes hadolint, and agrees with pyproject.toml, setup.py and the settings."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

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


def test_torch_python_and_variables_are_those_of_the_project() -> None:
    (torch,) = re.findall(r'"(torch[^"]*)"', DOCKERFILE)
    assert torch in PROJECT["dependencies"]
    (version,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    least = PROJECT["requires-python"].removeprefix(">=")
    assert [int(part) for part in version.split(".")] >= [int(part) for part in least.split(".")]
    variables = dict(re.findall(r"\b(SCANLINE_\w+)=(\S+)", DOCKERFILE))
    assert variables
    check(variables, ())


def test_the_health_check_asks_whether_the_process_is_alive_over_http_or_https() -> None:
    """Not whether it is ready: a restart of the engine takes longer than three checks."""
    (line,) = re.findall(r"^HEALTHCHECK [^\n]*\\\n\s+CMD (\[.*?\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    shell, flag, command = json.loads(re.sub(r"\\\n\s*", "", line))
    script = command.replace("exec wget", "echo")
    for scheme, variables in (("http", {}), ("https", {"SCANLINE_TLS_CERT": "cert.pem"})):
        environment = {**os.environ, "SCANLINE_PORT": "8000", **variables}
        said = subprocess.run([shell, flag, script], env=environment, capture_output=True, text=True, check=True)
        assert said.stdout.split()[-1] == f"{scheme}://localhost:8000/healthz"


def test_the_image_listens_on_both_families() -> None:
    assert re.findall(r"SCANLINE_HOST=(\S+)", DOCKERFILE) == ["::"]


@pytest.mark.parametrize("folder", ["kernels", "model", "server/api", "server/cluster", "server/web/dist"])
def test_every_file_of_the_package_is_in_the_build_context(folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    files = [path for path in paths if path.parent.name != "__pycache__" and path.suffix != ".so"]
    assert files
    assert [path for path in files if not in_build_context(str(path.relative_to(ROOT)))] == []


def test_of_other_files_only_those_at_the_root_are_in_the_build_context() -> None:
    needed = [
        "scanline/__init__.py",
        "scanline/py.typed",
        "pyproject.toml",
        "setup.py",
        PROJECT["readme"],
        *PROJECT["license-files"],
    ]
    assert all((ROOT / path).is_file() for path in needed)
    assert [path for path in needed if not in_build_context(path)] == []
    others = ["tests/conftest.py", ".git/HEAD", "server/web/node_modules/a/b.js", "kernels/cpu/_step.so"]
    assert [path for path in others if in_build_context(path)] == []


def test_the_build_requires_files_that_the_wheel_has() -> None:
    (library,) = re.findall(r'Extension\(\s*"([\w.]+)"', (ROOT / "setup.py").read_text())
    required = re.findall(r"grep (\S+) contents", DOCKERFILE)
    assert required == [library.replace(".", "/"), "scanline/server/web/dist/index.html"]
    assert (ROOT / required[1].removeprefix("scanline/")).is_file()
