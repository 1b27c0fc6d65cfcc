"""The shipped models, found by name, as their cards describe them; and files that a user names."""

import os
import re
import stat
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from PIL import Image

from scanline.model import zoo
from scanline.model.base.named_files import is_stream, write_output
from scanline.model.evaluation.likelihood import bits
from scanline.model.formats import model_dir
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import ModelDirectoryError
from tests.support import small_models


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A shelf of two shipped models, and an empty directory to stand in."""
    monkeypatch.setattr(zoo, "HERE", tmp_path / "zoo")
    for name in ("another", zoo.DEFAULT):
        save_model(small_models.model(small_models.config()), tmp_path / "zoo" / name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "zoo"


def test_a_model_is_found_by_its_shipped_name_or_by_the_path_of_a_directory(shelf, tmp_path):
    assert zoo.names() == [zoo.DEFAULT, "another"]
    assert zoo.find("another") == shelf / "another"
    save_model(small_models.model(small_models.config()), tmp_path / "here" / "another")
    assert zoo.find("another") == Path("another")  # trained under a shipped model's name
    (tmp_path / "mine").mkdir()
    assert zoo.find(str(tmp_path / "mine")) == tmp_path / "mine"
    with pytest.raises(ModelDirectoryError, match=r"config\.json is missing"):
        load_model(tmp_path / "mine")


@pytest.mark.parametrize("name", ["mnits", "no/such/path", "/no/such/path"])
def test_an_unknown_name_lists_the_shipped_ones(shelf, name):
    sentence = f"there is no model '{name}': neither shipped (mnist-small, another) nor a directory"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        zoo.find(name)


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_model_is_the_one_that_its_card_describes_and_has_learned_its_data(
    name,
):
    """It needs about as many bits for the samples on its card as for test
    images; untrained weights need 8.
    """
    directory = zoo.find(name)
    model = load_model(directory)
    card = (directory / "README.md").read_text()
    tested = model_dir.tested_bits_per_dim(directory)
    assert f"{model.parameter_count:,} parameters" in card
    assert f"state {model.config.state_bytes_per_image:,} bytes an image" in card
    assert f"float16, {model_dir.weight_bytes(directory) / 1e6:.1f} MB" in card
    assert f"**{tested:.3f} +- " in card
    height = model.config.height
    width = model.config.width
    row = np.asarray(Image.open(directory / "samples.png"))[:height]
    samples = np.stack(
        [row[:, left : left + width].reshape(-1) for left in range(0, 4 * width, width)]
    )
    assert bits(model, torch.from_numpy(samples)).mean().item() == pytest.approx(tested, abs=1)


def test_the_target_of_a_link_is_replaced_and_keeps_its_mode(tmp_path):
    target = tmp_path / "target"
    link = tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to("target")
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    read = []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, b"new")
    reader.join()
    assert read == [b"new"]
    assert is_stream(pipe)


def test_a_new_file_has_the_mode_of_any_and_a_long_name(tmp_path):
    (tmp_path / "other").touch()
    new = tmp_path / ("n" * 255)
    write_output(new, b"new")
    assert new.read_bytes() == b"new"
    assert new.stat().st_mode == (tmp_path / "other").stat().st_mode
