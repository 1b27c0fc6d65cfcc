"""The export in a child process: its time limit, what is kept of it, and that the server itself stays small."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from scanline.model.extras import MissingExtraError
from scanline.server.api import onnx_export
from scanline.server.api.onnx_export import ExportError, Exports
from tests.support.waiting import PATIENCE

ONE, OTHER = ("grey", "first"), ("grey", "second")


def exports(program: str, seconds: float = PATIENCE) -> Exports:
    """Exports by a Python program, whose argument is the directory."""
    return Exports((sys.executable, "-c", program), seconds)


def note() -> str:
    """A program that writes a line for each of its runs, and the number of runs as its output."""
    lines = "import sys; from pathlib import Path; file = Path(sys.argv[1]) / 'runs'; "
    return lines + "file.open('a').write('run\\n'); print(len(file.read_text().splitlines()), end='')"


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


def test_a_model_is_exported_once_and_again_when_another_is_loaded(tmp_path: Path) -> None:
    async def act() -> None:
        found = exports(note())
        first, again = await asyncio.gather(found.get(ONE, tmp_path), found.get(ONE, tmp_path))
        other = await found.get(OTHER, tmp_path)
        assert first is again
        assert (first.file, other.file) == (b"1", b"2")
        assert first.etag != other.etag
        assert runs(tmp_path) == 2

    asyncio.run(act())


def test_the_files_in_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        found = exports("print('a' * 400_000, end='')")
        monkeypatch.setattr(onnx_export, "MAX_KEPT_BYTES", 1_000_000)
        for digest in ("a", "b", "a", "c", "d"):
            await found.get(("grey", digest), tmp_path)
        assert [digest for _, digest in found.kept] == ["c", "d"]

    asyncio.run(act())


def test_an_export_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    async def act() -> None:
        program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        found = exports(program, seconds=3)
        with pytest.raises(ExportError, match="more than 3 seconds"):
            await found.get(ONE, tmp_path)

    asyncio.run(act())
    if (tmp_path / "pid").exists():  # on a very busy machine it did not get so far
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_failed_export_is_not_tried_again_at_once(tmp_path: Path) -> None:
    async def act() -> None:
        found = exports(note() + "; sys.exit(1)")
        for _ in range(3):
            with pytest.raises(ExportError, match="The export failed"):
                await found.get(ONE, tmp_path)
        assert runs(tmp_path) == 1
        found.failed[ONE] = (0.0, found.failed[ONE][1])  # a minute later
        with pytest.raises(ExportError):
            await found.get(ONE, tmp_path)
        assert runs(tmp_path) == 2

    asyncio.run(act())


def test_an_export_does_not_hold_the_event_loop(tmp_path: Path) -> None:
    """The program runs until this loop has noticed that it does."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    program = f"import os, time; open({str(begun)!r}, 'w')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"

    async def act() -> None:
        exporting = asyncio.create_task(exports(program).get(ONE, tmp_path))
        while not begun.exists() and not exporting.done():
            await asyncio.sleep(0.01)
        go.touch()
        assert (await exporting).file == b""

    asyncio.run(act())


def test_without_the_extra_onnx_the_child_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError):
        asyncio.run(exports(f"import sys; sys.exit({onnx_export.NOT_INSTALLED})").get(ONE, tmp_path))


@pytest.mark.slow
def test_the_child_itself_says_so(grey_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnx.py").write_text("raise ModuleNotFoundError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(MissingExtraError):
        asyncio.run(Exports().get(ONE, grey_directory))
