"""The client that openapi-python-client (tried: 0.29.1) generates from
/openapi.json paints, uploads included.
"""

import importlib
import shutil
import subprocess
import sys
from urllib.parse import urljoin

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.model.tasks.offline import paint
from tests.support.server.json_requests import FILES, IMAGE, MASKED
from tests.support.server.openai_clients import decoded

COMMAND = shutil.which("openapi-python-client")
NAME = "scanline_client"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMMAND is None, reason="openapi-python-client is missing"),
]


def run(*command, folder):
    ran = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def folder(server, tmp_path_factory):
    """A folder with the package, whose modules are imported as its users do."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_bytes(httpx.get(f"{server.url}/openapi.json").content)
    options = ("--path", "openapi.json", "--output-path", NAME, "--meta", "none")
    output = run(COMMAND, "generate", *options, folder=folder)
    assert "Unable to parse" not in output, output
    assert "WARNING" not in output, output
    sys.path.insert(0, str(folder))
    return folder


def test_every_module_is_imported_and_typed(folder):
    for file in (folder / NAME).rglob("*.py"):
        importlib.import_module(".".join(file.relative_to(folder).with_suffix("").parts))
    lines = run(sys.executable, "-m", "mypy", "--config-file=", NAME, folder=folder).splitlines()
    errors = [line for line in lines if " error: " in line]
    # the same for any server
    assert [line for line in errors if not line.startswith(f"{NAME}/client.py")] == []
    assert "checked" in lines[-1], lines


def test_it_paints_and_uploads(folder, server, grey):
    def module(name):
        return importlib.import_module(f"{NAME}.{name}")

    models = module("models")
    types = module("types")
    images = "api.images"
    place = httpx.get(f"{server.url}/openapi.json").json()["servers"][0]["url"]
    with module("client").Client(urljoin(f"{server.url}/openapi.json", place)) as client:
        generate = module(f"{images}.generate_images").sync
        answer = generate(client=client, body=models.GenerationRequest(n=2, seed=7))
        alone = paint(grey, 2, seed=7).images.reshape(2, 7, 5)
        assert_array_equal(decoded([one.b64_json for one in answer.data]), alone)
        files = [types.File(FILES["image"], file_name=name) for name in ("a.png", "b.png")]
        edited = module(f"{images}.edit_images").sync(
            client=client, body=models.EditForm(image=files, keep_rows=4)
        )
        assert_array_equal(
            decoded([one.b64_json for one in edited.data])[:, :4], np.stack([IMAGE[:4]] * 2)
        )
        score = module(f"{images}.score_images").sync
        whole = score(client=client, body=models.LikelihoodRequest(image=MASKED["image"]))
        part = score(
            client=client, body=models.LikelihoodForm(image=files[:1], keep_rows=4, seed=1)
        )
        assert isinstance(whole, models.LikelihoodsAnswer)
        assert isinstance(part, models.EvidenceAnswer)
        assert part.data[0].known_bytes == 20
        refused = generate(client=client, body=models.GenerationRequest(n=0))
        assert (refused.error.param, refused.error.code) == ("n", "invalid_value")
