"""scanline models: the shipped models as JSON and as a table."""

import json

from scanline.model import zoo
from scanline.model.formats import model_dir
from tests.support.commands import done


def test_the_shipped_models_are_listed_as_json_and_as_a_table() -> None:
    listed = json.loads(done("models", "--json"))["data"]
    assert [model["id"] for model in listed] == zoo.names()
    for model in listed:
        assert model["bits_per_dim"] == model_dir.tested_bits_per_dim(zoo.find(model["id"]))
        assert model["weight_bytes"] == model_dir.weight_bytes(zoo.find(model["id"]))
        assert model["classes"] == list(model_dir.load_config(zoo.find(model["id"])).class_names)
    table = done("models")
    assert all(name in table for name in ("model", "bits/dim", *zoo.names()))
