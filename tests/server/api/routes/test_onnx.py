"""The model as ONNX, over HTTP and from the command line: one file, the model's own step."""

import shutil
from pathlib import Path

import httpx
import onnx
import pytest
from starlette.testclient import TestClient

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.onnx_step import export_step
from scanline.model.network.transformer import Transformer
from scanline.server.app import build
from scanline.server.registry import served_models
from scanline.server.settings import Settings
from tests.support.commands import done, scanline
from tests.support.error_answers import assert_refused


def test_the_model_is_served_as_onnx(client: httpx.Client, grey: Transformer) -> None:
    response = client.get("/v1/models/grey/onnx")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == 'attachment; filename="grey.onnx"'
    assert onnx.load_from_string(response.content) == export_step(grey)


def test_a_model_may_be_named_in_any_script(grey_directory: Path, tmp_path: Path) -> None:
    settings = Settings(models=(str(shutil.copytree(grey_directory, tmp_path / "серый")),))
    client = TestClient(build(settings, served_models(settings)))
    found = client.get("/v1/models/серый/onnx").headers["content-disposition"]
    assert found == "attachment; filename*=utf-8''%D1%81%D0%B5%D1%80%D1%8B%D0%B9.onnx"


def test_its_size_is_in_the_model_card(client: httpx.Client) -> None:
    head = client.head("/v1/models/grey/onnx")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(client.get("/v1/models/grey/onnx").content)


def test_an_unchanged_file_is_not_sent_again(client: httpx.Client) -> None:
    tag = client.get("/v1/models/grey/onnx").headers["etag"]
    again = client.get("/v1/models/grey/onnx", headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get("/v1/models/grey/onnx", headers={"if-none-match": '"another"'}).status_code == 200


def test_an_unknown_model_is_not_found(client: httpx.Client) -> None:
    assert_refused(client.get("/v1/models/white/onnx"), 404, "model", "model_not_found")


def test_the_command_writes_the_same_file(client: httpx.Client, grey_directory: Path, tmp_path: Path) -> None:
    found = done("export", grey_directory, tmp_path / "step.onnx")
    assert found.startswith(f"{tmp_path / 'step.onnx'}: one step of ")
    assert onnx.load(tmp_path / "step.onnx") == onnx.load_from_string(client.get("/v1/models/grey/onnx").content)


def test_the_option_decides_whatever_the_file_is_called(grey_directory: Path, tmp_path: Path) -> None:
    done("export", grey_directory, tmp_path / "grey", "--onnx", "--weights", "int8")
    done("export", grey_directory, tmp_path / "grey.onnx", "--weights", "float32")
    sizes = [(tmp_path / name).stat().st_size for name in ("grey", "grey.onnx")]
    assert sizes[0] < sizes[1]
    onnx.checker.check_model(tmp_path / "grey", full_check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("out.onnx", "--weights", "int4"), "unknown weights 'int4'; known: float32, float16, int8"),
        (("out.pth", "--weights", "int8"), "--weights is for ONNX: add --onnx"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str, grey_directory: Path, tmp_path: Path) -> None:
    ran = scanline("export", grey_directory, tmp_path / arguments[0], *arguments[1:])
    assert (ran.status, ran.out, ran.err) == (2, "", f"scanline: {said}\n")
    assert not (tmp_path / arguments[0]).exists()


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_model_is_exported_without_loss(name: str) -> None:
    model = load_model(zoo.find(name))
    assert export_step(model) == export_step(model, "float16")
