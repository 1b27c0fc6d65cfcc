"""The layers server -> model -> kernels: no import goes upward or in a circle, and
only the server imports the web.
"""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WEB = {"fastapi", "starlette", "uvicorn", "pydantic", "pydantic_settings", "websockets", "httpx"}
NOT_IMPORTED = {
    "kernels": {"model", "server"} | WEB,
    "model": {"server"} | WEB,
    "server": set[str](),
}


@cache
def imports(path):
    """The full name of every import in a file, including those inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{name.name}" for name in node.names]
    return found


@pytest.mark.parametrize("floor", NOT_IMPORTED)
def test_no_import_goes_upward_to_the_web_or_to_tests(floor):
    forbidden = NOT_IMPORTED[floor] | {"tests", "benchmarks"}
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    found = [(path, name) for path in files for name in imports(path)]
    assert [
        both for both in found if both[1].removeprefix("scanline.").split(".")[0] in forbidden
    ] == []


WRITES = {"write_bytes", "write_text", "copy2", "copyfile", "copytree", "save_file", "touch"}
SAVES = {"save", "savefig"}  # to memory; or a method of ours that ends in write_file
OURS = {"contact_sheet", "curve", "run"}
MODES = re.compile(r"[rbt]*[wax+][rbt+]*")
OTHER_WRITERS = {
    "model/base/atomic.py": "it is the one",
    "server/cli/__init__.py": "opens descriptors, of the standard streams",
    "server/engine/worker/model_copy.py": "fills a folder that it has just made, for this user alone",
    "server/process/tls.py": "fills memory, or a new file of the system's temporary directory",
}


def opens_to_write(call, in_memory):
    receiver, _, name = ast.unparse(call.func).rpartition(".")
    if name in WRITES or (receiver == "shutil" and name in ("copy", "move")):
        return True
    if name in ("open", "fdopen"):
        texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
        makes = receiver == "os" and name == "open" and "O_RDONLY" not in ast.unparse(call)
        return makes or any(isinstance(text, str) and MODES.fullmatch(text) for text in texts)
    target = [ast.unparse(argument) for argument in call.args][receiver == "torch" :]
    return (
        name in SAVES
        and receiver not in ("", *OURS)
        and bool(target)
        and in_memory.isdisjoint(target)
    )


def writes(path):
    """The calls in a file that open a file to write."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    made = [
        node
        for node in nodes
        if isinstance(node, ast.Assign | ast.NamedExpr) and "BytesIO" in ast.unparse(node)
    ]
    in_memory = {ast.unparse(node).partition(" ")[0].strip("(") for node in made} | {
        ast.unparse(node) for node in made
    }
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if opens_to_write(call, in_memory)]


def test_one_module_opens_files_to_write():
    files = [path for floor in NOT_IMPORTED for path in sorted((ROOT / floor).rglob("*.py"))]
    found = {
        str(path.relative_to(ROOT)): writes(path)
        for path in files
        if "node_modules" not in path.parts
    }
    assert {
        path: calls for path, calls in found.items() if calls and path not in OTHER_WRITERS
    } == {}
    assert {path for path, calls in found.items() if calls} == OTHER_WRITERS.keys()


def test_a_file_that_is_opened_to_write_is_found(tmp_path):
    lines = [
        "path.write_bytes(b'')",
        "path.open('w')",
        "open(name, mode='xb')",
        "os.open(name, os.O_CREAT)",
        "picture.save(path)",
        "np.save('a.npy', a)",
        "torch.save(a, path)",
        "shutil.copy2(a, b)",
        "f.savefig(name)",
        "save_file(tensors, name)",
    ]
    fine = [
        "out = io.BytesIO()",
        "picture.save(out, 'PNG')",
        "torch.save(a, out)",
        "path.open('rb')",
        "open(name)",
    ]
    (tmp_path / "a.py").write_text("\n".join([*lines, *fine]))
    assert len(writes(tmp_path / "a.py")) == len(lines)


def imported_files():
    """The files of the three floors that each of their files imports."""
    files = [path for floor in NOT_IMPORTED for path in (ROOT / floor).rglob("*.py")]
    modules = {}
    for path in files:
        inner = path.relative_to(ROOT).with_suffix("")
        modules[".".join(inner.parts).removesuffix(".__init__")] = path
    graph = {}
    for path in files:
        names = [name.removeprefix("scanline.") for name in imports(path)]
        others = {modules.get(name, modules.get(name.rpartition(".")[0])) for name in names}
        graph[path] = {other for other in others if other not in (path, None)}
    return graph


def test_no_modules_import_each_other_in_a_circle():
    TopologicalSorter(imported_files()).prepare()  # raises CycleError


def test_folders_import_in_one_direction_at_every_depth():
    """A folder is the files that lie in it, without those of its own folders."""
    folders = {}
    for path, others in imported_files().items():
        above = {other.parent for other in others} - {path.parent}
        folders.setdefault(path.parent, set()).update(above)
    assert len(folders) > 20
    TopologicalSorter(folders).prepare()


def test_files_and_folders_of_the_page_import_in_one_direction():
    files = {}
    folders = {}
    for path in (ROOT / "server/web/src").rglob("*.ts"):
        names = re.findall(r"""(?:from|import)\s*\(?"(\.[^"?]+)\"""", path.read_text())
        modules = [(path.parent / f"{name}.ts").resolve() for name in names]
        files[path.resolve()] = {module for module in modules if module.is_file()}
    for path, others in files.items():
        above = {other.parent for other in others} - {path.parent}
        folders.setdefault(path.parent, set()).update(above)
    assert sum(len(others) for others in files.values()) > 50  # the imports are read
    TopologicalSorter(files).prepare()
    TopologicalSorter(folders).prepare()


def test_the_tests_of_kernels_and_model_need_no_web_package():
    """A bare GPU machine, with the dependencies of kernels and
    model only, runs these two folders.
    """
    queue = [*(ROOT / "tests" / "kernels").rglob("*.py"), *(ROOT / "tests" / "model").rglob("*.py")]
    queue.append(ROOT / "tests" / "conftest.py")
    assert len(queue) > 1
    seen = set(queue)
    wrong = []
    while queue:
        path = queue.pop()
        for name in imports(path):
            package, _, rest = name.removeprefix("scanline.").partition(".")
            if package in WEB | {"server"}:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
            elif package == "tests":
                files = [
                    ROOT / f"tests/{inner.replace('.', '/')}.py"
                    for inner in (rest, rest.rpartition(".")[0])
                ]
                helpers = [file for file in files if file.is_file() and file not in seen]
                queue += helpers
                seen.update(helpers)
    assert wrong == []
