"""A save that is killed (SIGKILL, in a fork) at any move leaves the
old model or the new one, whole.
"""

import os
import shutil
import signal
import sys

import pytest
import torch

from scanline.model.base.atomic import write_file
from scanline.model.formats import checkpoint
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import weight_files
from tests.support import small_models
from tests.support.saved_models import assert_same_weights, files
from tests.support.sweeps import and_slow

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

LARGE = small_models.config()
TINY = small_models.config(heads=1, key_width=2, value_width=2, feed_forward=4)
OTHER = small_models.config(layers=1, heads=1, value_width=2)
# label: the old model's configuration and dtype, the new one's; LARGE in float32 has three shards
CHANGES = {
    "one file to shards": (TINY, torch.float16, LARGE, torch.float32),
    "shards to one file": (LARGE, torch.float32, TINY, torch.float16),
    "shards of another model": (LARGE, torch.float32, small_models.config(layers=3), torch.float32),
    "one file of another model": (TINY, torch.float16, OTHER, torch.float16),
    "one file": (TINY, torch.float16, TINY, torch.float16),
    "shards": (LARGE, torch.float32, LARGE, torch.float32),
}
STEPS = 60  # more than any save has


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 10_000)


def in_child(work):
    """Runs `work` in a forked process; its exit code, negative for a signal."""
    if not (child := os.fork()):
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step):
    """From here on, this process dies just before its `step`-th change of a directory."""
    left = step

    def watch(event, arguments):
        nonlocal left
        if event in ("os.rename", "os.remove"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def full_disk(descriptor):
    os.truncate(descriptor, 10)
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_model_and_nothing_else(tmp_path, monkeypatch):
    save_model(small_models.model(TINY), tmp_path / "old")
    before = load_model(tmp_path / "old")
    monkeypatch.setattr(os, "fsync", full_disk)
    for directory, left in (("old", ["config.json", "model.safetensors"]), ("new", [])):
        with pytest.raises(OSError, match="No space left"):
            save_model(small_models.model(TINY, seed=1), tmp_path / directory)
        assert files(tmp_path / directory) == left
    assert_same_weights(before.state_dict(), load_model(tmp_path / "old").state_dict())


def test_what_is_moved_into_place_is_on_the_disk(tmp_path, monkeypatch):
    fsync = os.fsync
    move = os.replace
    done = []

    def synced(descriptor):
        status = os.fstat(descriptor)
        done.append(("synced", status.st_ino, status.st_size))
        fsync(descriptor)

    def moved(source, target):
        status = source.stat()
        done.append(("moved", status.st_ino, status.st_size))
        move(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    path = tmp_path / "file"
    write_file(path, "new")
    inode = path.stat().st_ino
    assert done == [("synced", inode, 3), ("moved", inode, 3)]


def is_same(model, found, dtype):
    expected = {name: tensor.to(dtype).float() for name, tensor in model.state_dict().items()}
    return model.config == found.config and all(
        torch.equal(expected[name], tensor) for name, tensor in found.state_dict().items()
    )


@pytest.mark.parametrize("change", and_slow(list(CHANGES)[:2], *list(CHANGES)[2:]))
def test_killed_at_any_step(tmp_path, change):
    old_config, old_dtype, new_config, new_dtype = CHANGES[change]
    old = small_models.model(old_config)
    new = small_models.model(new_config, seed=1)
    save_model(old, tmp_path / "old", old_dtype)
    seen = []
    for step in range(STEPS):
        directory = tmp_path / str(step)
        shutil.copytree(tmp_path / "old", directory)

        def save_and_die(directory=directory, step=step):
            killed_at(step)
            save_model(new, directory, new_dtype)

        status = in_child(save_and_die)
        found = load_model(directory)
        is_new = is_same(new, found, new_dtype)
        assert is_new or is_same(old, found, old_dtype), f"neither after {step} steps"
        seen.append(is_new)
        save_model(new, directory, new_dtype)
        assert is_same(new, load_model(directory), new_dtype)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert status == 0
    assert not seen[0]
    assert seen == sorted(seen), "one step, and no other, makes the old model the new one"


def test_no_shard_of_an_old_save_stays_but_all_other_files_do(tmp_path):
    others = {"README.md", "model-card.safetensors", "loss.csv", "config.json"}
    for name in others:
        (tmp_path / name).write_text("ours")
    for seed in (0, 1):
        save_model(small_models.model(LARGE, seed), tmp_path, torch.float32)
    assert set(files(tmp_path)) == {
        *others,
        "model.safetensors.index.json",
        *weight_files(tmp_path),
    }
    save_model(small_models.model(TINY), tmp_path)
    assert set(files(tmp_path)) == {*others, "model.safetensors"}
