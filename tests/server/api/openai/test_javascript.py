"""The official JavaScript client and a generated TypeScript one, run by node, after `npm ci
--prefix tests/javascript`: `pytest -m javascript`, and `pytest -m slow` for the second, which
is generated from /openapi.json."""

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.model.tasks.offline import paint
from tests.support.server.json_requests import FILES, HOLE, IMAGE, MASKED
from tests.support.server.openai_clients import decoded
from tests.support.server.running_server import PATIENCE

JAVASCRIPT = Path(__file__).parents[3] / "javascript"
MODULES = JAVASCRIPT / "node_modules"

pytestmark = pytest.mark.skipif(
    not shutil.which("node")
    or not all((MODULES / name).exists() for name in ("openai", "openapi-typescript")),
    reason="node or the packages are missing: npm ci --prefix tests/javascript",
)


def node(*arguments, folder):
    command = ["node", *map(str, arguments)]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def output(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return json.loads(
        node("client.js", f"{server.url}/v1", folder / "image", folder / "mask", folder=JAVASCRIPT)
    )


@pytest.mark.javascript
def test_models_and_images_are_those_of_the_server(output, grey):
    assert output["ids"] == ["grey"]
    assert (output["model"]["id"], output["model"]["height"], output["model"]["width"]) == (
        "grey",
        7,
        5,
    )
    alone = paint(grey, 3, seed=7, temperature=0.9).images.reshape(3, 7, 5)
    assert_array_equal(decoded(output["generated"]), alone)
    assert (output["seed"], output["seedHeader"]) == (7, "7")
    assert output["requestId"]


@pytest.mark.javascript
def test_a_stream_is_received_event_by_event(output):
    assert [event["type"] for event in output["streamed"]].count(
        "image_generation.partial_image"
    ) == 9
    whole = {
        event["index"]: event["b64_json"]
        for event in output["streamed"]
        if event["type"].endswith("completed")
    }
    assert [whole[index] for index in range(3)] == output["generated"]
    partial, completed = output["editedStream"]
    assert (partial["type"], completed["type"]) == (
        "image_edit.partial_image",
        "image_edit.completed",
    )
    assert [completed["b64_json"]] == output["edited"]


@pytest.mark.javascript
def test_images_are_edited(output):
    assert_array_equal(decoded(output["edited"])[0, :4], IMAGE[:4])
    assert output["editedFromDisk"] == output["edited"]
    assert_array_equal(decoded(output["editedList"])[:, :4], np.stack([IMAGE, IMAGE])[:, :4])
    assert_array_equal(decoded(output["masked"])[0][HOLE == 255], IMAGE[HOLE == 255])


REFUSED = {  # by its name in the output: the class, status, parameter and code of an error
    "wrong": ["BadRequestError", 400, "n", "invalid_value"],
    "misspelt": ["BadRequestError", 400, "keep_row", "unknown_parameter"],
    "unknown": ["NotFoundError", 404, "model", "model_not_found"],
    "wrongStream": ["BadRequestError", 400, "partial_images", "invalid_value"],
}


@pytest.mark.javascript
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_its_error(output, name):
    refused = output[name]
    assert [refused[part] for part in ("kind", "status", "param", "code")] == REFUSED[name]
    assert refused["param"] in refused["message"]
    assert refused["type"] == "invalid_request_error"
    assert refused["requestID"]


@pytest.mark.slow
def test_typescript_is_typed_and_paints_and_uploads(server, grey, tmp_path):
    (tmp_path / "openapi.json").write_bytes(httpx.get(f"{server.url}/openapi.json").content)
    (tmp_path / "node_modules").symlink_to(MODULES)
    shutil.copy(JAVASCRIPT / "generated.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    node(
        MODULES / "openapi-typescript/bin/cli.js",
        "openapi.json",
        "-o",
        "schema.d.ts",
        folder=tmp_path,
    )
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    node(MODULES / "typescript/bin/tsc", *options, "generated.ts", folder=tmp_path)
    output = json.loads(node("generated.js", server.url, MASKED["image"], folder=tmp_path))
    assert_array_equal(decoded(output["painted"]), paint(grey, 2, seed=7).images.reshape(2, 7, 5))
    assert_array_equal(decoded(output["edited"])[0, :4], IMAGE[:4])
    assert output["message"] == "n must be at least 1."
