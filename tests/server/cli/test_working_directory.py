"""No command runs code of the working directory, which may hold anybody's files:
neither in its own process nor in one that it starts. Each module of the folder of traps
leaves a file if it is imported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import blobs
from tests.support.commands import in_a_process
from tests.support.server.running_server import Server
from tests.test_floors import ROOT

# Of this package, of its libraries, and of Python itself: what a process that starts
# imports, before and after its path is set.
TRAPS = (
    "scanline torch numpy PIL safetensors uvicorn fastapi rich matplotlib ray"
    " encodings random multiprocessing json tempfile signal socket struct sitecustomize"
)
STARTS = re.compile(r"get_context\(|sys\.executable|create_subprocess|os\.(exec|spawn)")


@pytest.fixture
def traps(tmp_path, monkeypatch):
    """The working directory; the names of modules that ran are in `ran`."""
    ran = tmp_path / "ran"
    ran.mkdir()
    folder = tmp_path / "traps"
    for number, name in enumerate(TRAPS.split()):
        path = folder / name / "__init__.py" if number % 2 else folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(ran / name)!r}, 'w').close()\n")
    engine = folder / "scanline/server/engine/worker"
    engine.mkdir(parents=True)
    for package in (engine, *engine.parents[:3]):
        (package / "__init__.py").write_text(f"open({str(ran / 'engine')!r}, 'w').close()\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return ran


def test_the_traps_run_where_python_is_started_as_multiprocessing_starts_it(traps):
    subprocess.run([sys.executable, "-c", "import random, scanline"], check=True)
    assert sorted(path.name for path in traps.iterdir()) == ["engine", "random"]


def test_a_clone_in_the_working_directory_hides_no_module(tmp_path):
    (tmp_path / "scanline" / "model").mkdir(parents=True)
    program = "import scanline; print(scanline.load.__module__)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "scanline\n"


def test_a_server_runs_none_in_its_engines_api_processes_and_exports(traps, grey_directory):
    server = Server(grey_directory, "--api-processes", "2", forked=False)
    try:
        server.wait_until_ready()
        with server.client() as client:
            assert client.post("/v1/images/generations", json={"n": 1}).status_code == 200
            assert client.get(f"/v1/models/{grey_directory.name}/weights").status_code == 200
            os.kill(server.engine, 9)
            server.wait_for_engine(after=server.engine)
    finally:
        server.stop()
    assert list(traps.iterdir()) == []


COMMANDS = {  # training starts processes of its own
    "sample": "-n 2 --out a.npy --model grey",
    "bench": "--batches 1 --seconds 0.01 --skip latency,bulk,reading --model grey",
    "train": "--data data --out out --updates 2 --batch 2 --processes 2 --no-compile --from none --layers 1",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_other_command_runs_one(traps, grey_directory, command):
    Path("grey").symlink_to(grey_directory)
    Path("data").mkdir()
    blobs.write(Path("data"))
    ran = in_a_process(command, *COMMANDS[command].split())
    assert ran.status == 0, ran.err
    assert list(traps.iterdir()) == []


def test_every_module_that_starts_python_gives_it_a_safe_path():
    unsafe = []
    for path in sorted([*ROOT.glob("model/**/*.py"), *ROOT.glob("server/**/*.py")]):
        code = path.read_text()
        if STARTS.search(code) and "safe_path" not in code:
            unsafe.append(str(path.relative_to(ROOT)))
    assert unsafe == []
