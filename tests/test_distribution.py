"""The distribution: wheels that serve every Python 3, and instructions that install no other project's package."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from scanline.kernels.cpu.bindings import LIBRARY
from scanline.model import extras

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("c++")
PIP = (sys.executable, "-m", "pip", "--quiet", "--retries=0", "--timeout=5")
ASKS_AN_INDEX = re.compile(r"install ['\"]?scanline|\bscanline(-server)?\[")  # for a package that is on none
OF_ITSELF = '"scanline-server[cluster,onnx,otel,parquet,speech,train]",'  # in pyproject.toml: the extra dev
GENERATED = ("server/web/dist/", "package-lock.json")


def build(folder: Path, path: str) -> Path:
    """Build a wheel from a copy of the sources, with the programs of `path`."""
    left_out = shutil.ignore_patterns(
        ".*", "build", "node_modules", "tests", "benchmarks", "*.so", "__pycache__", "data", "runs"
    )
    shutil.copytree(ROOT, folder / "source", ignore=left_out)
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", folder]
    subprocess.run(command, cwd=folder / "source", env={**os.environ, "PATH": path}, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built without a compiler."""
    folder = tmp_path_factory.mktemp("wheel")
    return build(folder, path=str(folder))


def names(built: Path) -> set[str]:
    return set(zipfile.ZipFile(built).namelist())


def test_without_a_compiler_it_is_one_for_any_platform(pure_wheel: Path) -> None:
    assert pure_wheel.name == f"scanline_server-{extras.version()}-py3-none-any.whl"
    found = names(pure_wheel)
    metadata = pure_wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    assert {name.partition("/")[0] for name in found} == {"scanline", metadata}
    assert {"scanline/__init__.py", "scanline/py.typed", "scanline/server/web/dist/index.html"} <= found
    assert "scanline/model/zoo/mnist-small/model.safetensors" in found
    assert not any(name.endswith(".so") for name in found)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_with_a_compiler_it_holds_the_library_and_serves_every_python(tmp_path: Path) -> None:
    built = build(tmp_path, path=os.environ["PATH"])
    assert "-py3-none-" in built.name
    assert not built.name.endswith("-any.whl")
    assert [name for name in names(built) if name.endswith(".so")] == [f"scanline/kernels/cpu/{LIBRARY.name}"]


def test_no_instruction_asks_an_index_for_our_package() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not listed:
        pytest.skip("this is no clone")
    wrong = []
    for name in listed.splitlines():
        if name.startswith(GENERATED) or name.endswith(GENERATED) or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_text(errors="ignore").replace(OF_ITSELF, "")
        wrong += [f"{name}: {match[0]}" for match in ASKS_AN_INDEX.finditer(text)]
    assert wrong == []


def test_an_instruction_names_what_the_extra_needs() -> None:
    error = extras.MissingExtraError("--cluster", "cluster")
    assert re.fullmatch(r"--cluster needs the extra cluster: pip install 'ray\[serve\][<>=.,\d]+'", str(error))


@pytest.mark.slow  # asks the package index
def test_an_extra_comes_from_an_index_and_scanline_from_the_wheel(pure_wheel: Path, tmp_path: Path) -> None:
    """The extra is `speech`, one package without dependencies; ours are left out, since torch is one of them."""
    if find_spec("pip") is None:
        pytest.skip("there is no pip")
    venv.create(tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    pip = [*PIP, "--python", str(python), "install", "--no-compile"]
    subprocess.run([*pip, "--no-index", "--no-deps", pure_wheel], check=True)

    def run(code: str) -> str:
        return subprocess.check_output([python, "-c", code], cwd=tmp_path, text=True).strip()

    instruction = run("from scanline.model.extras import install_command; print(install_command('speech'))")
    assert instruction.startswith("pip install ")
    installed = subprocess.run([*pip, *shlex.split(instruction)[2:]], check=False)
    if installed.returncode and subprocess.run([*pip, "--dry-run", "six"], check=False).returncode:
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0
    names = "from importlib.metadata import packages_distributions as names; print(names()['scanline'])"
    assert run(f"import espeakng_loader, scanline; {names}") == f"['{extras.DISTRIBUTION}']"
