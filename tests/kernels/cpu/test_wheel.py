"""The wheel serves every Python 3: on one platform where the library was compiled, on any where it was not."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scanline.kernels.cpu.bindings import LIBRARY

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which("c++")


def wheel(folder: Path, path: str) -> Path:
    """Built from a copy of the sources, with the programs of `path`."""
    left_out = shutil.ignore_patterns(
        ".*", "build", "node_modules", "tests", "benchmarks", "*.so", "__pycache__", "data", "runs"
    )
    shutil.copytree(ROOT, folder / "source", ignore=left_out)
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", folder]
    subprocess.run(command, cwd=folder / "source", env={**os.environ, "PATH": path}, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def names(built: Path) -> set[str]:
    return set(zipfile.ZipFile(built).namelist())


def test_without_a_compiler_it_is_one_for_any_platform(tmp_path: Path) -> None:
    built = wheel(tmp_path, path=str(tmp_path))
    assert built.name.endswith("-py3-none-any.whl")
    found = names(built)
    assert {name.partition("/")[0] for name in found} == {
        "scanline",
        built.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }
    assert {"scanline/__init__.py", "scanline/py.typed", "scanline/server/web/dist/index.html"} <= found
    assert "scanline/model/zoo/mnist-small/model.safetensors" in found
    assert not any(name.endswith(".so") for name in found)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_with_a_compiler_it_holds_the_library_and_serves_every_python(tmp_path: Path) -> None:
    built = wheel(tmp_path, path=os.environ["PATH"])
    assert "-py3-none-" in built.name
    assert not built.name.endswith("-any.whl")
    assert [name for name in names(built) if name.endswith(".so")] == [f"scanline/kernels/cpu/{LIBRARY.name}"]
