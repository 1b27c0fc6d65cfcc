"""GET /v1/models/{id}/weights: what a browser paints with, made once for all who wait."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from scanline.kernels.cpu.bindings import WEIGHT_TYPES
from scanline.model.backends.cpu import kernel_tensors
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kernel_file import kernel_file
from scanline.server.api import weights_export
from scanline.server.api.routes.weights import _content_disposition
from scanline.server.api.weights_export import ExportError, Exports
from tests.support.server.error_answers import assert_refused
from tests.support.server.in_process_server import client_of_app
from tests.support.waiting import PATIENCE

URL = "/v1/models/grey/weights"


def test_it_has_what_a_network_is_made_of(client, grey):
    response = client.get(URL)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == 'attachment; filename="grey.safetensors"'
    assert response.content == kernel_file(grey, "exact")
    stored = load(response.content)
    tensors = [stored[name] for name in sorted(stored)]
    expected = kernel_tensors(grey)
    assert len(tensors) == len(expected)
    for tensor, other in zip(tensors, expected, strict=True):
        assert torch.equal(tensor.float(), other)
    assert_refused(client.get("/v1/models/white/weights"), 404, "model", "model_not_found")


def described(model, precision):
    """What the file of a model says besides its tensors."""
    file = kernel_file(model, precision)
    size = int.from_bytes(file[:8], "little")
    head = json.loads(file[8 : 8 + size])
    return json.loads(head["__metadata__"]["scanline"])


def test_it_says_at_which_precision_and_whose_codes(grey):
    exact = described(grey, "exact")
    int8 = described(grey, "int8")
    assert described(grey, "bfloat16-state") == exact  # which no processor has
    assert (exact["precision"], int8["precision"]) == ("exact", "int8")
    assert (exact["weights"], int8["weights"]) == (WEIGHT_TYPES["float32"], WEIGHT_TYPES["int8"])
    for said in (exact, int8):
        generator = Generator(grey, 1, precision=said["precision"], backend="cpu")
        assert said["coding"] == generator.codings[0]
        assert said["digest"] == generator.digest
        generator.close()


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


def test_a_file_may_be_named_in_any_script():
    assert (
        _content_disposition("серый.safetensors")
        == "attachment; filename*=utf-8''%D1%81%D0%B5%D1%80%D1%8B%D0%B9.safetensors"
    )


NOTE = """
import sys
from pathlib import Path
file = Path(sys.argv[1]) / "runs"
file.open("a").write("run\\n")
print(len(file.read_text().splitlines()), end="")
"""  # writes a line for each of its runs, and the number of runs as its output


def exports(program, seconds=PATIENCE):
    """Exports by a Python program, whose argument is the directory."""
    return Exports((sys.executable, "-c", program), seconds)


def runs(directory):
    return len((directory / "runs").read_text().splitlines())


def exported(found, directory, digest="first"):
    return asyncio.run(found.get(("grey", digest), directory, "exact"))


def test_a_model_is_exported_once_and_again_when_another_is_loaded(tmp_path):
    async def act():
        found = exports(NOTE)
        return await asyncio.gather(
            *(found.get(("grey", digest), tmp_path, "exact") for digest in ("one", "one", "other"))
        )

    first, again, other = asyncio.run(act())
    assert first is again
    assert (first.file, other.file) == (b"1", b"2")
    assert first.etag != other.etag
    assert runs(tmp_path) == 2


def test_the_files_in_memory_are_bounded(tmp_path, monkeypatch):
    found = exports("print('a' * 400_000, end='')")
    monkeypatch.setattr(weights_export, "MAX_KEPT_BYTES", 1_000_000)
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
        exporting = asyncio.create_task(exports(program).get(("grey", "first"), tmp_path, "exact"))
        while not begun.exists() and not exporting.done():
            await asyncio.sleep(0.01)
        go.touch()
        assert (await exporting).file == b""

    asyncio.run(act())
