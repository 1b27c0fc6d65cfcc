"""scanline models, push, import and export: the Hugging Face Hub, the authors'
checkpoints.
"""

import json

import numpy as np
import pytest
import torch

from scanline.model import zoo
from scanline.model.formats import model_dir
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.fast_transformers import EXPRESSIBLE, to_state
from scanline.server.models.registry import served_models
from scanline.server.settings import Settings
from tests.support import small_models
from tests.support.commands import done, scanline
from tests.support.local_hub import TOKEN, local_hub, use

THEIRS = {  # a model that the authors' code can express
    "height": 28,
    "width": 28,
    "layers": 1,
    "key_width": 32,
    "value_width": 32,
    **EXPRESSIBLE,
    "first_byte_histogram": small_models.HISTOGRAM,
}


@pytest.fixture
def state():
    return to_state(small_models.model(small_models.config(**THEIRS)))


def test_an_imported_model_paints_and_goes_back(state, tmp_path):
    files = tmp_path / "weights.pth", tmp_path / "again.pth"
    torch.save({"model_state": state, "optimizer_state": {}, "iteration": 7}, files[0])
    result = done("import", files[0], tmp_path / "theirs")
    assert "28x28, 1 layers of 2 heads of 32, 3 components, scales read as exp" in result
    done("sample", "--model", tmp_path / "theirs", "-n", "2", "--out", tmp_path / "two.npy")
    painted = np.load(tmp_path / "two.npy")
    assert painted.shape == (2, 28, 28)
    assert not painted[:, 0, 0].any()
    done("export", tmp_path / "theirs", files[1])
    first, again = (torch.load(file, weights_only=True)["model_state"] for file in files)
    assert all(
        torch.equal(first[name], again[name]) for name in first if name != "pos_embedding.pe"
    )


def test_the_shipped_models_are_listed_as_json_and_as_a_table():
    listed = json.loads(done("models", "--json"))["data"]
    assert [model["id"] for model in listed] == zoo.names()
    for model in listed:
        assert model["bits_per_dim"] == model_dir.tested_bits_per_dim(zoo.find(model["id"]))
        assert model["weight_bytes"] == model_dir.weight_bytes(zoo.find(model["id"]))
        assert model["classes"] == list(model_dir.load_config(zoo.find(model["id"])).class_names)
    table = done("models")
    assert all(name in table for name in ("model", "bits/dim", *zoo.names()))


def test_a_pushed_model_is_found_and_served(tmp_path, monkeypatch):
    directory = tmp_path / "own"
    save_model(small_models.model(small_models.config()), directory)
    with local_hub() as hub:
        use(hub, tmp_path / "cache", monkeypatch)
        ran = scanline("push", directory, "org/digits")
        sentence = f"scanline: org/digits: {hub.url} wants a token; log in by `hf auth login` or set HF_TOKEN"
        assert (ran.status, ran.err.splitlines()[-1]) == (2, sentence)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        ran = scanline("push", directory, "org/digits", "--private", "--message", "The first")
        commit = hub.repositories["org/digits"].branches["main"]
        lines = [
            f"{hub.url}/org/digits/commit/{commit}",
            "serve it: scanline serve --model org/digits",
        ]
        assert (ran.status, ran.out.splitlines()) == (0, lines)
        command = f"`scanline evaluate {directory} --data DIR --save`"
        warning = (
            f"{directory} has no evaluation.json; {command} measures its bits/dim for the card"
        )
        assert ran.err == f"scanline: warning: {warning}\n"
        (model,) = served_models(Settings(models=(f"org/digits@{commit}",))).all.values()
        assert (model.names, model.engine.options.directory.name) == (("digits",), commit)
