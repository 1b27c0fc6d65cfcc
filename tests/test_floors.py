"""The floors of the house: server -> model -> kernels, never upward, and no web below the server."""

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


def imported(path: Path) -> Iterator[str]:
    """The package of every import in a file, those inside functions too; of our own, the floor: `model`."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            modules = [f"{node.module}.{name.name}" for name in node.names]
        for module in modules:
            yield module.removeprefix("scanline.").partition(".")[0]


def files_importing(floor: str, packages: set[str]) -> list[str]:
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    return [f"{path.relative_to(ROOT)} imports {name}" for path in files for name in imported(path) if name in packages]


@pytest.mark.parametrize("floor", ["kernels", "model"])
def test_nothing_is_imported_from_a_floor_above(floor: str) -> None:
    assert files_importing(floor, ABOVE[floor]) == []


@pytest.mark.parametrize("floor", ["kernels", "model"])
def test_nothing_of_the_web_is_imported_below_the_server(floor: str) -> None:
    assert files_importing(floor, WEB) == []


@pytest.mark.parametrize("floor", ["kernels", "model", "server"])
def test_the_application_does_not_import_its_tests_or_benchmarks(floor: str) -> None:
    assert files_importing(floor, {"tests", "benchmarks"}) == []


def is_imported(module: str, work: str) -> bool:
    """Whether a process that does this work and no more has that module."""
    code = f"{work}; import sys; sys.exit({module!r} in sys.modules)"
    return bool(subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode)


def test_the_process_that_speaks_http_has_no_torch() -> None:
    assert is_imported("scanline.server.running", "import scanline.server.running, scanline.server.registry")
    assert not is_imported("torch", "import scanline.server.running, scanline.server.registry")


@pytest.mark.skipif(torch.cuda.is_available(), reason="what runs on a GPU is kept from the compiler")
def test_an_engine_on_a_cpu_has_no_compiler() -> None:
    """Of 150 MB; a model is loaded, since shapes without numbers may want it too."""
    work = """
from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
import scanline.model.sampling.engine
load_model(zoo.find("mnist-small"))"""
    assert not is_imported("torch._dynamo", work)
