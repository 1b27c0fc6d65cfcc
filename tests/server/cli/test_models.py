"""scanline models, and push to the Hugging Face Hub."""

import json
from pathlib import Path

import pytest

from scanline.model import zoo
from scanline.model.formats import model_dir
from scanline.model.formats.checkpoint import save_model
from scanline.server.models.registry import served_models
from scanline.server.settings import Settings
from tests.support import small_models
from tests.support.commands import done, refused, scanline
from tests.support.local_hub import TOKEN, local_hub, use


def test_the_shipped_models_are_listed_as_json_and_as_a_table() -> None:
    listed = json.loads(done("models", "--json"))["data"]
    assert [model["id"] for model in listed] == zoo.names()
    for model in listed:
        assert model["bits_per_dim"] == model_dir.tested_bits_per_dim(zoo.find(model["id"]))
        assert model["weight_bytes"] == model_dir.weight_bytes(zoo.find(model["id"]))
        assert model["classes"] == list(model_dir.load_config(zoo.find(model["id"])).class_names)
    table = done("models")
    assert all(name in table for name in ("model", "bits/dim", *zoo.names()))


def test_a_pushed_model_is_named_on_the_command_line_and_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "own"
    save_model(small_models.model(small_models.config()), directory)
    with local_hub() as hub:
        use(hub, tmp_path / "cache", monkeypatch)
        sentence = f"org/digits: {hub.url} wants a token; log in by `hf auth login` or set HF_TOKEN\n"
        ran = scanline("push", directory, "org/digits")
        assert (ran.status, ran.err.splitlines(keepends=True)[-1]) == (2, f"scanline: {sentence}")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        ran = scanline("push", directory, "org/digits", "--private", "--message", "The first")
        commit = hub.repositories["org/digits"].branches["main"]
        assert (ran.status, ran.out.splitlines()) == (
            0,
            [f"{hub.url}/org/digits/commit/{commit}", "serve it: scanline serve --model org/digits"],
        )
        warning = (
            f"scanline: warning: {directory} has no evaluation.json; `scanline evaluate {directory} --data DIR --save`"
        )
        assert ran.err == f"{warning} measures its bits/dim for the card\n"

        sheet = tmp_path / "sheet.npy"
        painted = done("sample", "--model", "org/digits", "-n", 2, "--seed", 7, "--out", sheet, "--json")
        assert json.loads(painted)["n"] == 2
        (model,) = served_models(Settings(models=(f"org/digits@{commit}",))).all.values()
        assert (model.names, model.engine.options.directory.name) == (("digits",), commit)
        said = refused("sample", "--model", "org/digits@nope", "--out", sheet)
        assert said == f"{hub.url}/org/digits has no revision 'nope'"
