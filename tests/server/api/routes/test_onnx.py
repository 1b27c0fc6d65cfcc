"""GET /v1/models/{id}/onnx: the same file as `scanline export --onnx` writes."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import httpx
import onnx
import pytest
from starlette.testclient import TestClient

from scanline.model import zoo
from scanline.model.extras import MissingExtraError, install_command
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.onnx_step import export_step
from scanline.model.network.transformer import Transformer
from scanline.server.api.onnx_export import Exports
from scanline.server.api.routes.onnx import _content_disposition
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.commands import done
from tests.support.server.error_answers import assert_refused


def test_the_model_is_served_as_onnx(client: httpx.Client, grey: Transformer) -> None:
    response = client.get("/v1/models/grey/onnx")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == 'attachment; filename="grey.onnx"'
    assert onnx.load_from_string(response.content) == export_step(grey)
    assert_refused(client.get("/v1/models/white/onnx"), 404, "model", "model_not_found")


def test_its_size_and_tag_save_a_download(client: httpx.Client) -> None:
    head = client.head("/v1/models/grey/onnx")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(client.get("/v1/models/grey/onnx").content)
    tag = client.get("/v1/models/grey/onnx").headers["etag"]
    again = client.get("/v1/models/grey/onnx", headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get("/v1/models/grey/onnx", headers={"if-none-match": '"another"'}).status_code == 200


def test_a_model_that_is_not_loaded_yet_is_refused(grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),))
    response = TestClient(build(settings, served_models(settings))).get("/v1/models/grey/onnx")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
    assert response.headers["retry-after"] == "2"


def test_without_the_extra_onnx_the_server_says_what_to_install(
    grey_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(models=(str(grey_directory),))
    models = served_models(settings)
    models.default.engine.ready = SimpleNamespace(digest="a")  # no image is painted here, so that no engine starts
    monkeypatch.setattr(Exports, "_export", AsyncMock(side_effect=MissingExtraError("ONNX export", "onnx")))
    response = TestClient(build(settings, models)).get("/v1/models/grey/onnx")
    message = f"This server cannot export models until its operator installs more: {install_command('onnx')}."
    error = {"message": message, "type": "server_error", "param": None, "code": "onnx_not_installed"}
    assert (response.status_code, response.json()) == (501, {"error": error})


def test_a_file_may_be_named_in_any_script() -> None:
    assert _content_disposition("серый.onnx") == "attachment; filename*=utf-8''%D1%81%D0%B5%D1%80%D1%8B%D0%B9.onnx"


def test_the_command_writes_the_same_file(client: httpx.Client, grey_directory: Path, tmp_path: Path) -> None:
    found = done("export", grey_directory, tmp_path / "step.onnx")
    assert found.startswith(f"{tmp_path / 'step.onnx'}: one step of ")
    assert onnx.load(tmp_path / "step.onnx") == onnx.load_from_string(client.get("/v1/models/grey/onnx").content)


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_model_is_exported_without_loss(name: str) -> None:
    model = load_model(zoo.find(name))
    assert export_step(model) == export_step(model, "float16")
