"""The shipped models: found by name, as their cards describe them, and a wrong name lists them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scanline.model import zoo
from scanline.model.evaluation.likelihood import bits
from scanline.model.formats import model_dir
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import ModelDirectoryError
from tests.support import small_models


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf of two shipped models, and an empty directory to stand in."""
    monkeypatch.setattr(zoo, "HERE", tmp_path / "zoo")
    for name in ("another", zoo.DEFAULT):
        save_model(small_models.model(small_models.config()), tmp_path / "zoo" / name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "zoo"


def test_a_model_is_found_by_its_shipped_name_or_by_the_path_of_a_directory(shelf: Path, tmp_path: Path) -> None:
    assert zoo.names() == [zoo.DEFAULT, "another"]
    assert zoo.find("another") == shelf / "another"
    save_model(small_models.model(small_models.config()), tmp_path / "here" / "another")
    assert zoo.find("another") == Path("another")  # trained under a shipped model's name
    (tmp_path / "mine").mkdir()
    assert zoo.find(str(tmp_path / "mine")) == tmp_path / "mine"
    with pytest.raises(ModelDirectoryError, match=r"config\.json is missing"):
        load_model(tmp_path / "mine")


@pytest.mark.parametrize("name", ["mnits", "no/such/path", "/no/such/path"])
def test_an_unknown_name_lists_the_shipped_ones(shelf: Path, name: str) -> None:
    sentence = f"there is no model '{name}': neither shipped (mnist-small, another) nor a directory"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        zoo.find(name)


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_model_is_the_one_that_its_card_describes_and_has_learned_its_data(name: str) -> None:
    """It needs about as many bits for the samples on its card as for test images; untrained weights need 8."""
    directory = zoo.find(name)
    model, card, tested = (
        load_model(directory),
        (directory / "README.md").read_text(),
        model_dir.tested_bits_per_dim(directory),
    )
    assert f"{model.parameter_count:,} parameters" in card
    assert f"state {model.config.state_bytes_per_image:,} bytes an image" in card
    assert f"float16, {model_dir.weight_bytes(directory) / 1e6:.1f} MB" in card
    assert f"**{tested:.3f} +- " in card
    height, width = model.config.height, model.config.width
    row = np.asarray(Image.open(directory / "samples.png"))[:height]
    samples = np.stack([row[:, left : left + width].reshape(-1) for left in range(0, 4 * width, width)])
    assert bits(model, torch.from_numpy(samples)).mean().item() == pytest.approx(tested, abs=1)
