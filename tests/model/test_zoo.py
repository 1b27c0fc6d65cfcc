"""The shipped models: found by name, whole, and a name that is wrong says which there are."""

import re
from pathlib import Path

import pytest

from scanline.model import zoo
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


def test_names_begin_with_the_default(shelf: Path) -> None:
    assert zoo.names() == [zoo.DEFAULT, "another"]


def test_a_shipped_model_by_its_name(shelf: Path) -> None:
    assert zoo.find("another") == shelf / "another"


def test_a_directory_by_its_path(shelf: Path, tmp_path: Path) -> None:
    save_model(small_models.model(small_models.config()), tmp_path / "mine")
    assert zoo.find(str(tmp_path / "mine")) == tmp_path / "mine"


def test_a_directory_without_a_model_is_for_its_loader_to_refuse(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = zoo.find(str(tmp_path / "empty"))
    with pytest.raises(ModelDirectoryError, match=r"config\.json is missing"):
        load_model(found)


@pytest.mark.parametrize("name", ["mnits", "no/such/path", "/no/such/path"])
def test_an_unknown_name_lists_the_shipped_ones(shelf: Path, name: str) -> None:
    sentence = f"there is no model '{name}': neither shipped (mnist-small, another) nor a directory"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        zoo.find(name)


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_model_loads(name: str) -> None:
    assert load_model(zoo.find(name)).parameter_count > 0
