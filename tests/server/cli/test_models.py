"""scanline models, and the model that ships."""

import json

import pytest

from scanline.model import zoo
from scanline.model.formats import model_dir
from scanline.model.formats.checkpoint import load_model
from tests.support.commands import done


def test_a_program_reads_what_is_at_hand() -> None:
    assert [model["id"] for model in json.loads(done("models", "--json"))["data"]] == zoo.names()


def test_a_person_reads_what_is_at_hand() -> None:
    table = done("models")
    assert all(name in table for name in ("model", "bits/dim", *zoo.names()))


@pytest.mark.skipif(zoo.DEFAULT not in zoo.names(), reason="no model ships yet")
def test_the_default_model_paints_digits() -> None:
    model, measured = load_model(zoo.find(zoo.DEFAULT)), model_dir.tested_bits_per_dim(zoo.find(zoo.DEFAULT))
    assert model.config.size == "28x28"
    assert measured is not None
    assert measured < 1.0
