"""The distribution: wheels that serve every Python 3, and instructions that
install no other project's package.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scanline.kernels.cpu.bindings import LIBRARY
from scanline.model.base import extras
from tests.support.server.running_server import SCANLINE

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("c++")
PIP = (sys.executable, "-m", "pip", "--quiet", "--retries=0", "--timeout=5")
# for a package that is on none
ASKS_AN_INDEX = re.compile(r"install ['\"]?scanline|\bscanline(-server)?\[")
# in pyproject.toml: the extra dev
OF_ITSELF = '"scanline-server[cluster,hub,otel,parquet,train]",'
GENERATED = ("server/web/dist/", "package-lock.json")
LEFT_OUT = (
    ".*",
    "build",
    "node_modules",
    "tests",
    "benchmarks",
    "*.so",
    "__pycache__",
    "data",
    "runs",
)
NEWEST_SECONDS = 3000  # to download and install the newest torch, some gigabytes
PAINTED = (  # with torch's operations and with our kernel
    "sample -n 4 --seed 7 --backend {backend} --out {out}",
    "sample -n 2 --seed 7 --class seven --guidance 2 --backend {backend} --out {out}",
    "complete {picture} --keep-rows 14 -n 2 --seed 7 --backend {backend} --out {out}",
)


def build(folder, path):
    """Build a wheel from a copy of the sources, with the programs of `path`."""
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*LEFT_OUT))
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", folder]
    subprocess.run(
        command,
        cwd=folder / "source",
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_without_a_compiler_it_is_one_for_any_platform(tmp_path):
    pure_wheel = build(tmp_path, path=str(tmp_path))
    assert pure_wheel.name == f"scanline_server-{extras.version()}-py3-none-any.whl"
    found = set(zipfile.ZipFile(pure_wheel).namelist())
    metadata = pure_wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    assert {name.partition("/")[0] for name in found} == {"scanline", metadata}
    assert {
        "scanline/__init__.py",
        "scanline/py.typed",
        "scanline/server/web/dist/index.html",
    } <= found
    assert "scanline/model/zoo/mnist-small/model.safetensors" in found
    assert not any(name.endswith((".so", "/setup.py")) for name in found)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_with_a_compiler_it_holds_the_library_and_serves_every_python(tmp_path):
    built = build(tmp_path, path=os.environ["PATH"])
    assert "-py3-none-" in built.name
    assert not built.name.endswith("-any.whl")
    assert [name for name in zipfile.ZipFile(built).namelist() if name.endswith(".so")] == [
        f"scanline/kernels/cpu/{LIBRARY.name}"
    ]


def test_no_instruction_asks_an_index_for_our_package():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    if not listed:
        pytest.skip("this is no clone")
    wrong = []
    for name in listed.splitlines():
        if name.startswith(GENERATED) or name.endswith(GENERATED) or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_text(errors="ignore").replace(OF_ITSELF, "")
        wrong += [f"{name}: {match[0]}" for match in ASKS_AN_INDEX.finditer(text)]
    assert wrong == []


def test_each_floor_with_a_reason_excludes_the_versions_that_it_is_about():
    declared = (ROOT / "pyproject.toml").read_text()
    floors = re.findall(r'"([\w-]+)>=([\d.]+)[^"]*",  # below ([\d.]+): ', declared)
    assert {name for name, _, _ in floors} == {"torch", "pillow", "starlette", "python-multipart"}
    for name, floor, fixed in floors:
        assert [int(part) for part in floor.split(".")] >= [
            int(part) for part in fixed.split(".")
        ], name
    (torch_range,) = re.findall(r'"(torch>=[^"]+)"', declared)
    assert torch_range in (ROOT / "Dockerfile").read_text()


def test_an_instruction_names_what_the_extra_needs():
    error = extras.MissingExtraError("--cluster", "cluster")
    packages = r"'ray\[serve\][<>=.,\d]+' 'grpcio[<>=.,\d]+'"
    assert re.fullmatch(f"--cluster needs the extra cluster: pip install {packages}", str(error))


@pytest.mark.slow  # downloads some gigabytes, where the index has no build for CPUs
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_the_newest_torch_paints_the_same_bytes(request, tmp_path):
    """The newest that the index has, whatever range we declare, beside our other packages."""
    if find_spec("pip") is None:
        pytest.skip("there is no pip")
    request.addfinalizer(lambda: shutil.rmtree(tmp_path))  # gigabytes, which pytest would keep
    venv.create(tmp_path / "newest")
    python = tmp_path / "newest" / "bin" / "python"
    pip = [*PIP, "--python", str(python), "install", "--no-compile"]
    needed = [each for each in requires(extras.DISTRIBUTION) or [] if "extra ==" not in each]
    others = [each for each in needed if not each.startswith("torch")]
    assert len(others) == len(needed) - 1
    installed = subprocess.run([*pip, "torch", *others], check=False, timeout=NEWEST_SECONDS)
    if installed.returncode and subprocess.run([*pip, "--dry-run", "six"], check=False).returncode:
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0
    newest = subprocess.check_output(
        [python, "-c", "import torch; print(torch.__version__)"], text=True
    ).strip()
    if newest.split("+")[0] == torch.__version__.split("+")[0]:
        pytest.skip(f"torch {newest} is the newest, with which the other tests run")
    subprocess.run(
        [*pip, "--no-index", "--no-deps", build(tmp_path, path=os.environ["PATH"])], check=True
    )
    picture = tmp_path / "seven.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)).save(picture)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}

    def digest(scanline, command, backend):
        out = tmp_path / "painted.npy"
        arguments = command.format(backend=backend, out=out, picture=picture).split()
        subprocess.run([*scanline, *arguments], cwd=tmp_path, env=environment, check=True)
        return hashlib.sha256(out.read_bytes()).hexdigest()

    for backend in ("cpu", "eager"):
        for command in PAINTED:
            expected = digest([SCANLINE], command, backend)
            assert digest([python.with_name("scanline")], command, backend) == expected, (
                newest,
                backend,
                command,
            )
