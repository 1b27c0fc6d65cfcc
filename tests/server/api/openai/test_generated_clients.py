"""Clients that openapi-python-client and openapi-typescript generate from /openapi.json: they import, their types fit,
and they paint, uploads included.

The first needs the command `openapi-python-client` (tried: 0.29.1), the second `npm ci --prefix tests/javascript`.
"""

import base64
import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import decode, encode, noise
from tests.support.server.running_server import PATIENCE, Server

JAVASCRIPT = Path(__file__).parents[3] / "javascript"
IMAGE = noise(7, 5)

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path, status: int = 0) -> str:
    """Run a command and return its output, both streams."""
    __tracebackhide__ = True
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == status, ran.stdout
    return ran.stdout


def pictures(texts: list[str]) -> np.ndarray:
    return np.stack([decode(base64.b64decode(text)) for text in texts])


@pytest.fixture(scope="module")
def folder(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the server's description."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_bytes(httpx.get(f"{server.url}/openapi.json").content)
    return folder


@pytest.fixture(scope="module")
def generated(folder: Path) -> str:
    """The name of the Python package, whose modules are imported as its users do."""
    command = shutil.which("openapi-python-client")
    if command is None:
        pytest.skip("openapi-python-client is missing")
    description, package = folder / "openapi.json", folder / "scanline_client"
    output = run(command, "generate", "--path", description, "--output-path", package, "--meta", "none", cwd=folder)
    assert "Unable to parse" not in output, output
    assert "WARNING" not in output, output
    sys.path.insert(0, str(folder))
    return package.name


def test_every_python_module_is_imported_and_typed(generated: str, folder: Path) -> None:
    for file in (folder / generated).rglob("*.py"):
        importlib.import_module(".".join(file.relative_to(folder).with_suffix("").parts))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", generated],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in checked.stdout.splitlines() if " error: " in line]
    assert [line for line in errors if not line.startswith(f"{generated}/client.py")] == []  # the same for any server


def test_python_paints_and_uploads(generated: str, server: Server, grey: Transformer) -> None:
    def module(name: str) -> ModuleType:
        return importlib.import_module(f"{generated}.{name}")

    models, types, images = module("models"), module("types"), "api.images"
    with module("client").Client(server.url) as client:
        request = models.GenerationRequest(n=2, seed=7)
        answer = module(f"{images}.generate_images").sync(client=client, body=request)
        alone = paint(grey, 2, seed=7).images.reshape(2, 7, 5)
        np.testing.assert_array_equal(pictures([one.b64_json for one in answer.data]), alone)
        files = [types.File(encode(IMAGE), file_name=name) for name in ("a.png", "b.png")]
        form = models.EditForm(image=files, keep_rows=4)
        edited = module(f"{images}.edit_images").sync(client=client, body=form)
        found = pictures([one.b64_json for one in edited.data])
        np.testing.assert_array_equal(found[:, :4], np.stack([IMAGE[:4]] * 2))
        text = base64.b64encode(encode(IMAGE)).decode()
        score = module(f"{images}.score_images").sync
        whole = score(client=client, body=models.LikelihoodRequest(image=text))
        part = score(client=client, body=models.LikelihoodForm(image=files[:1], keep_rows=4, seed=1))
        assert isinstance(whole, models.LikelihoodsAnswer)
        assert isinstance(part, models.EvidenceAnswer)
        assert part.data[0].known_bytes == 20
        refused = module(f"{images}.generate_images").sync(client=client, body=models.GenerationRequest(n=0))
        assert (refused.error.param, refused.error.code) == ("n", "invalid_value")


@pytest.mark.skipif(
    not shutil.which("node") or not (JAVASCRIPT / "node_modules" / "openapi-typescript").exists(),
    reason="node or the packages are missing: npm ci --prefix tests/javascript",
)
def test_typescript_is_typed_and_paints_and_uploads(folder: Path, server: Server, grey: Transformer) -> None:
    modules = folder / "node_modules"
    modules.symlink_to(JAVASCRIPT / "node_modules")
    shutil.copy(JAVASCRIPT / "generated.ts", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    run("node", modules / "openapi-typescript/bin/cli.js", "openapi.json", "-o", "schema.d.ts", cwd=folder)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    run("node", modules / "typescript/bin/tsc", *options, "generated.ts", cwd=folder)
    output = json.loads(run("node", "generated.js", server.url, base64.b64encode(encode(IMAGE)).decode(), cwd=folder))
    np.testing.assert_array_equal(pictures(output["painted"]), paint(grey, 2, seed=7).images.reshape(2, 7, 5))
    np.testing.assert_array_equal(pictures(output["edited"])[0, :4], IMAGE[:4])
    assert output["message"] == "n must be at least 1."
