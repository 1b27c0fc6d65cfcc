"""The layers server -> model -> kernels: no import goes upward, and nothing below the server imports a web package."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
ABOVE = {"kernels": {"model", "server"}, "model": {"server"}}
WEB = {"fastapi", "starlette", "uvicorn", "pydantic", "pydantic_settings", "websockets", "httpx"}


def imports(path: Path) -> Iterator[str]:
    """The full name of every import in a file, including those inside functions."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            modules = [f"{node.module}.{name.name}" for name in node.names]
        yield from modules


def imported(path: Path) -> Iterator[str]:
    """The top package of every import in a file, without `scanline.`."""
    for name in imports(path):
        yield name.removeprefix("scanline.").partition(".")[0]


def files_importing(floor: str, packages: set[str]) -> list[str]:
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    return [f"{path.relative_to(ROOT)} imports {name}" for path in files for name in imported(path) if name in packages]


@pytest.mark.parametrize("floor", ["kernels", "model"])
def test_no_import_goes_upward(floor: str) -> None:
    assert files_importing(floor, ABOVE[floor]) == []


@pytest.mark.parametrize("floor", ["kernels", "model"])
def test_no_web_package_is_imported_below_the_server(floor: str) -> None:
    assert files_importing(floor, WEB) == []


@pytest.mark.parametrize("floor", ["kernels", "model", "server"])
def test_the_application_does_not_import_its_tests_or_benchmarks(floor: str) -> None:
    assert files_importing(floor, {"tests", "benchmarks"}) == []


def test_the_tests_of_kernels_and_model_need_no_web_package() -> None:
    """A bare GPU machine, with the dependencies of kernels and model only, runs these two folders."""
    queue = [*(ROOT / "tests" / "kernels").rglob("*.py"), *(ROOT / "tests" / "model").rglob("*.py")]
    queue.append(ROOT / "tests" / "conftest.py")
    assert len(queue) > 1
    seen, wrong = set(queue), []
    while queue:
        path = queue.pop()
        for name in imports(path):
            package, _, rest = name.removeprefix("scanline.").partition(".")
            if package in WEB | {"server"}:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
            elif package == "tests":
                files = [ROOT / f"tests/{inner.replace('.', '/')}.py" for inner in (rest, rest.rpartition(".")[0])]
                helpers = [file for file in files if file.is_file() and file not in seen]
                queue += helpers
                seen.update(helpers)
    assert wrong == []


def is_imported(module: str, work: str) -> bool:
    """Whether a process that runs `work` and nothing else has imported that module."""
    code = f"{work}; import sys; sys.exit({module!r} in sys.modules)"
    return bool(subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode)


def test_the_http_process_does_not_import_torch() -> None:
    work = "import scanline.server.process.running, scanline.server.process.registry"
    assert is_imported("scanline.server.process.running", work)
    assert not is_imported("torch", work)


@pytest.mark.skipif(torch.cuda.is_available(), reason="what runs on a GPU is kept from the compiler")
def test_an_engine_on_a_cpu_does_not_import_the_compiler() -> None:
    """The compiler takes 150 MB; a model is loaded, since meta tensors may import it too."""
    work = """
from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
import scanline.model.sampling.engine
load_model(zoo.find("mnist-small"))"""
    assert not is_imported("torch._dynamo", work)
