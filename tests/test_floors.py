"""The layers server -> model -> kernels: no import goes upward, and nothing below the server imports a web package."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WEB = {"fastapi", "starlette", "uvicorn", "pydantic", "pydantic_settings", "websockets", "httpx"}
# The rooms of a floor, each of which imports only those before it; files beside them are rooms, too.
SERVER = ["runtime", "settings", "environment", "engine", "models", "api", "process", "cluster", "cli", "__main__"]
MODEL = [
    *("config", "state", "network", "precision", "atomic", "inputs", "class_names", "defaults", "images"),
    *(
        "likelihood",
        "extras",
        "resources",
        "formats",
        "hub",
        "zoo",
        "device",
        "backends",
        "sampling",
        "datasets",
        "tasks",
    ),
    *("evaluation", "machine", "training", "bench", "compile_kernels", "progress", "inference"),
]
NOT_IMPORTED = {"kernels": {"model", "server"} | WEB, "model": {"server"} | WEB, "server": set[str]()}


@cache
def imports(path: Path) -> list[str]:
    """The full name of every import in a file, including those inside functions."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{name.name}" for name in node.names]
    return found


def files_importing(floor: str, packages: set[str]) -> list[str]:
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    found = [(path.relative_to(ROOT), name) for path in files for name in imports(path)]
    return [
        f"{path} imports {name}" for path, name in found if name.removeprefix("scanline.").split(".")[0] in packages
    ]


@pytest.mark.parametrize("floor", ["kernels", "model", "server"])
def test_no_import_goes_upward_to_the_web_or_to_tests(floor: str) -> None:
    assert files_importing(floor, NOT_IMPORTED[floor] | {"tests", "benchmarks"}) == []


@pytest.mark.parametrize(("floor", "order"), [("server", SERVER), ("model", MODEL)])
def test_the_rooms_of_a_floor_import_in_one_direction(floor: str, order: list[str]) -> None:
    wrong = []
    for path in sorted((ROOT / floor).rglob("*.py")):
        room = path.relative_to(ROOT / floor).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in order, f"{path}: a room without a place in the order"
        for name in imports(path):
            within, _, rest = name.removeprefix("scanline.").partition(".")
            other = rest.partition(".")[0]
            if within == floor and other in order and order.index(other) > order.index(room):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


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
