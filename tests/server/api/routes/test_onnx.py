"""GET /v1/models/{id}/onnx: the same file as `scanline export --onnx`
writes, made once for all who wait.
"""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import onnx
import pytest
from starlette.testclient import TestClient

from scanline.model.base.extras import MissingExtraError, install_command
from scanline.model.formats.onnx_step import export_step
from scanline.server.api import onnx_export
from scanline.server.api.onnx_export import Exported, ExportError, Exports
from scanline.server.api.routes.onnx import _content_disposition
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.commands import done
from tests.support.server.error_answers import assert_refused
from tests.support.server.in_process_server import client_of_app
from tests.support.waiting import PATIENCE

URL = "/v1/models/grey/onnx"


def test_it_is_the_commands_file(client, grey, grey_directory, tmp_path):
    response = client.get(URL)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == 'attachment; filename="grey.onnx"'
    assert onnx.load_from_string(response.content) == export_step(grey)
    assert done("export", grey_directory, tmp_path / "step.onnx").startswith(
        f"{tmp_path / 'step.onnx'}: one step of "
    )
    assert onnx.load(tmp_path / "step.onnx") == onnx.load_from_string(response.content)
    assert_refused(client.get("/v1/models/white/onnx"), 404, "model", "model_not_found")


def test_its_size_and_tag_save_a_download(client):
    head = client.head(URL)
    get = client.get(URL)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(get.content)
    tag = get.headers["etag"]
    again = client.get(URL, headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(URL, headers={"if-none-match": '"another"'}).status_code == 200


def test_a_model_that_is_not_loaded_yet_is_refused(grey_directory):
    response = client_of_app(grey_directory).get(URL)
    assert_refused(response, 503, None, "not_ready")
    assert response.headers["retry-after"] == "2"


def test_without_the_extra_it_says_what_to_install(grey_directory, monkeypatch):
    settings = Settings(models=(str(grey_directory),))
    models = served_models(settings)
    models.default.engine.ready = SimpleNamespace(
        digest="a", class_head=()
    )  # no image is painted here, so that no engine starts
    monkeypatch.setattr(
        Exports, "_export", AsyncMock(side_effect=MissingExtraError("ONNX export", "onnx"))
    )
    response = TestClient(build(settings, models)).get(URL)
    message = f"This server cannot export models until its operator installs more: {install_command('onnx')}."
    error = {
        "message": message,
        "type": "server_error",
        "param": None,
        "code": "onnx_not_installed",
    }
    assert (response.status_code, response.json()) == (501, {"error": error})


def test_a_file_may_be_named_in_any_script():
    assert (
        _content_disposition("серый.onnx")
        == "attachment; filename*=utf-8''%D1%81%D0%B5%D1%80%D1%8B%D0%B9.onnx"
    )


NOTE = """
import sys
from pathlib import Path
file = Path(sys.argv[1]) / "runs"
file.open("a").write("run\\n")
print(len(file.read_text().splitlines()), end="")
"""  # writes a line for each of its runs, and the number of runs as its output


def exports(program: str, seconds: float = PATIENCE) -> Exports:
    """Exports by a Python program, whose argument is the directory."""
    return Exports((sys.executable, "-c", program), seconds)


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


def exported(found: Exports, directory: Path, digest: str = "first") -> Exported:
    return asyncio.run(found.get(("grey", digest), directory))


def test_a_model_is_exported_once_and_again_when_another_is_loaded(tmp_path):
    async def act():
        found = exports(NOTE)
        return await asyncio.gather(
            *(found.get(("grey", digest), tmp_path) for digest in ("one", "one", "other"))
        )

    first, again, other = asyncio.run(act())
    assert first is again
    assert (first.file, other.file) == (b"1", b"2")
    assert first.etag != other.etag
    assert runs(tmp_path) == 2


def test_the_files_in_memory_are_bounded(tmp_path, monkeypatch):
    found = exports("print('a' * 400_000, end='')")
    monkeypatch.setattr(onnx_export, "MAX_KEPT_BYTES", 1_000_000)
    for digest in ("a", "b", "a", "c", "d"):
        exported(found, tmp_path, digest)
    assert [digest for _, digest in found.kept] == ["c", "d"]


def test_an_export_that_takes_too_long_is_killed(tmp_path):
    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(ExportError, match="more than 3 seconds"):
        exported(exports(program, seconds=3), tmp_path)
    if (tmp_path / "pid").exists():  # on a very busy machine it did not get so far
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_failed_export_is_not_tried_again_at_once(tmp_path):
    found = exports(f"{NOTE}sys.exit(1)")
    for _ in range(3):
        with pytest.raises(ExportError, match="The export failed"):
            exported(found, tmp_path)
    assert runs(tmp_path) == 1
    # a minute later
    found.failed = {name: (0.0, error) for name, (_, error) in found.failed.items()}
    with pytest.raises(ExportError):
        exported(found, tmp_path)
    assert runs(tmp_path) == 2


def test_an_export_does_not_hold_the_event_loop(tmp_path):
    """The program runs until this loop has noticed that it does."""
    begun = tmp_path / "begun"
    go = tmp_path / "go"
    program = f"import os, time; open({str(begun)!r}, 'w')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"

    async def act():
        exporting = asyncio.create_task(exports(program).get(("grey", "first"), tmp_path))
        while not begun.exists() and not exporting.done():
            await asyncio.sleep(0.01)
        go.touch()
        assert (await exporting).file == b""

    asyncio.run(act())


def test_without_the_extra_onnx_no_child_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "find_spec", {}.get)
    with pytest.raises(MissingExtraError):
        exported(exports(NOTE), tmp_path)
    assert not (tmp_path / "runs").exists()
