"""The official JavaScript client, run by node: `npm ci --prefix tests/javascript`, then `pytest -m javascript`."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import decode, encode, noise
from tests.support.server.running_server import PATIENCE, Server

JAVASCRIPT = Path(__file__).parents[3] / "javascript"
IMAGE = noise(7, 5)
KNOWN = np.arange(35).reshape(7, 5) % 3 != 0

pytestmark = [
    pytest.mark.javascript,
    pytest.mark.skipif(
        not shutil.which("node") or not (JAVASCRIPT / "node_modules" / "openai").exists(),
        reason="node or the package is missing: npm ci --prefix tests/javascript",
    ),
]


@pytest.fixture(scope="module")
def output(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests/javascript/client.js prints about a server."""
    directory = tmp_path_factory.mktemp("pictures")
    (directory / "image.png").write_bytes(encode(IMAGE))
    (directory / "mask.png").write_bytes(encode(np.where(KNOWN, np.uint8(255), np.uint8(0))))
    command = ["node", "client.js", f"{server.url}/v1", directory / "image.png", directory / "mask.png"]
    ran = subprocess.run(command, cwd=JAVASCRIPT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def images(texts: list[str]) -> np.ndarray:
    return np.stack([decode(base64.b64decode(one)) for one in texts])


def test_models_are_listed_and_retrieved(output: dict[str, Any]) -> None:
    assert output["ids"] == ["grey"]
    assert (output["model"]["id"], output["model"]["height"], output["model"]["width"]) == ("grey", 7, 5)


def test_images_are_those_of_painting_without_a_server(output: dict[str, Any], grey: Transformer) -> None:
    alone = paint(grey, 3, seed=7, temperature=0.9).images.reshape(3, 7, 5)
    np.testing.assert_array_equal(images(output["generated"]), alone)
    assert (output["seed"], output["seedHeader"]) == (7, "7")
    assert output["requestId"]


def test_a_stream_is_received_event_by_event(output: dict[str, Any]) -> None:
    types = [event["type"] for event in output["streamed"]]
    assert types.count("image_generation.partial_image") == 9
    whole = {event["index"]: event["b64_json"] for event in output["streamed"] if event["type"].endswith("completed")}
    assert [whole[index] for index in range(3)] == output["generated"]
    partial, completed = output["editedStream"]
    assert (partial["type"], completed["type"]) == ("image_edit.partial_image", "image_edit.completed")
    assert [completed["b64_json"]] == output["edited"]


def test_images_are_edited(output: dict[str, Any]) -> None:
    np.testing.assert_array_equal(images(output["edited"])[0, :4], IMAGE[:4])
    assert output["editedFromDisk"] == output["edited"]
    np.testing.assert_array_equal(images(output["editedList"])[:, :4], np.stack([IMAGE, IMAGE])[:, :4])
    np.testing.assert_array_equal(images(output["masked"])[0][KNOWN], IMAGE[KNOWN])


@pytest.mark.parametrize(
    ("name", "kind", "status", "param", "code"),
    [
        ("wrong", "BadRequestError", 400, "n", "invalid_value"),
        ("misspelt", "BadRequestError", 400, "keep_row", "unknown_parameter"),
        ("unknown", "NotFoundError", 404, "model", "model_not_found"),
        ("wrongStream", "BadRequestError", 400, "partial_images", "invalid_value"),
    ],
)
def test_a_refusal_is_its_error(
    output: dict[str, Any], name: str, kind: str, status: int, param: str, code: str
) -> None:
    refused = output[name]
    assert (refused["kind"], refused["status"], refused["param"], refused["code"]) == (kind, status, param, code)
    assert param in refused["message"]
    assert refused["type"] == "invalid_request_error"
    assert refused["requestID"]
