"""A save that a full disk or a kill cuts short leaves the old file whole, and still readable."""

import os
import signal
from pathlib import Path

import pytest

from scanline.model.atomic import write_atomically
from scanline.model.formats import checkpoint
from scanline.model.formats.checkpoint import load_model, save_model
from tests.model.formats.test_checkpoint import assert_same_weights, files
from tests.support import small_models


def full_disk(tensors: object, path: Path) -> None:
    path.write_bytes(b"half of it")
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(small_models.model(small_models.config()), tmp_path)
    before = load_model(tmp_path)
    monkeypatch.setattr(checkpoint, "_write_tensors", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_model(small_models.model(small_models.config(), seed=1), tmp_path)
    assert_same_weights(before.state_dict(), load_model(tmp_path).state_dict())


def test_a_full_disk_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_write_tensors", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_model(small_models.model(small_models.config()), tmp_path)
    assert files(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write_and_die(temporary: Path) -> None:
        temporary.write_text("half of the n")
        os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        write_atomically(path, write_and_die)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert path.read_text() == "old"
