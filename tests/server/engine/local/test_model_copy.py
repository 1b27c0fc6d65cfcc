"""A server's copy of a model's files: what it has, and who removes it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import ModelDirectoryError
from scanline.model.network.transformer import Transformer
from scanline.server.engine.local.model_copy import ModelCopy, copy_weights
from tests.support.saved_models import assert_same_weights

HOLDING = """
import sys, time
from pathlib import Path
from scanline.server.engine.local.model_copy import ModelCopy
copy = ModelCopy(Path(sys.argv[1]))
print(copy.directory, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are made."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_copy_is_the_same_model_and_is_removed(grey_directory: Path, grey: Transformer, temporary: Path) -> None:
    copy = ModelCopy(grey_directory)
    assert copy.directory.name == grey_directory.name
    copy_weights(grey_directory, copy.directory)
    assert_same_weights(grey.state_dict(), load_model(copy.directory).state_dict())
    copy.remove()
    assert list(temporary.iterdir()) == []


def test_a_model_that_changes_while_it_is_copied_is_refused(
    tmp_path: Path, grey_directory: Path, colour_directory: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((grey_directory / name).read_bytes())
    copy = ModelCopy(model)
    (model / "config.json").write_bytes((colour_directory / "config.json").read_bytes())
    with pytest.raises(ModelDirectoryError, match="was changed while the model was read"):
        copy_weights(model, copy.directory)


def test_the_copy_of_a_killed_server_is_removed_and_that_of_a_running_one_is_not(
    grey_directory: Path, temporary: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, grey_directory], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        held = Path(server.stdout.readline().strip())
        try:
            mine = ModelCopy(grey_directory)
            assert held.is_dir()
        finally:
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
    another = ModelCopy(grey_directory)
    assert not held.exists()
    assert mine.directory.is_dir()
    assert sorted(temporary.iterdir()) == sorted([mine.directory.parent, another.directory.parent])


def test_a_place_that_cannot_be_written_is_an_error_of_one_sentence(
    grey_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"cannot be copied to .*: No such file or directory"):
        ModelCopy(grey_directory)


def test_weights_for_which_there_is_no_room_name_the_full_disk(grey_directory: Path, temporary: Path) -> None:
    copy = ModelCopy(grey_directory)
    (copy.directory / "model.safetensors").symlink_to("/dev/full")
    expected = f"{grey_directory}/model.safetensors cannot be copied to {temporary}: No space left on device"
    with pytest.raises(ModelDirectoryError, match=re.escape(expected)):
        copy_weights(grey_directory, copy.directory)


def test_nothing_is_left_of_a_copy_that_fails(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "model" / "config.json").mkdir(parents=True)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="cannot be copied"):
        ModelCopy(tmp_path / "model")
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors
