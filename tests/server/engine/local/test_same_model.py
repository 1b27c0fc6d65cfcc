"""A server's copy of a model's files, with which a restarted engine paints the
model that was served before, or not.
"""

import asyncio
import fcntl
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import CLASS_HEAD, EVALUATION, GENERATION, ModelDirectoryError
from scanline.model.sampling.base.messages import Pixels
from scanline.model.tasks.offline import paint
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.worker.model_copy import ModelCopy, copy_weights
from scanline.server.engine.worker.process import EngineOptions
from tests.support import small_models
from tests.support.engine.engines import ENDLESS, RecordingClient, with_deadline
from tests.support.saved_models import assert_same_weights
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.waiting import PATIENCE, wait_for

HOLDING = """
import sys, time
from pathlib import Path
from scanline.server.engine.worker.model_copy import ModelCopy
copy = ModelCopy(Path(sys.argv[1]))
print(copy.directory, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_copy_is_the_same_model_and_is_removed(grey_directory, grey, temporary):
    copy = ModelCopy(grey_directory)
    assert copy.directory.name == grey_directory.name
    copy_weights(grey_directory, copy.directory)
    assert_same_weights(grey.state_dict(), load_model(copy.directory).state_dict())
    copy.remove()
    assert list(temporary.iterdir()) == []


def test_a_model_that_changes_then_is_refused(tmp_path, grey_directory, colour_directory):
    model = shutil.copytree(grey_directory, tmp_path / "model")
    copy = ModelCopy(model)
    (model / "config.json").write_bytes((colour_directory / "config.json").read_bytes())
    with pytest.raises(ModelDirectoryError, match="was changed while the model was read"):
        copy_weights(model, copy.directory)


@pytest.mark.parametrize("name", [CLASS_HEAD, EVALUATION, GENERATION])
@pytest.mark.parametrize("before", [None, b"{}"])
def test_what_goes_with_the_weights_may_not_change_either(tmp_path, grey_directory, name, before):
    model = shutil.copytree(grey_directory, tmp_path / "model")
    if before is not None:
        (model / name).write_bytes(before)
    copy = ModelCopy(model)
    (model / name).write_bytes(b"{ }")
    with pytest.raises(ModelDirectoryError, match=f"{name} was changed while the model was read"):
        copy_weights(model, copy.directory)


def test_only_the_copy_of_a_killed_server_is_removed(grey_directory, temporary):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, grey_directory], stdout=subprocess.PIPE, text=True
    ) as server:
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


def test_a_place_that_cannot_be_written(grey_directory, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"cannot be copied to .*: No such file or directory"):
        ModelCopy(grey_directory)


def test_weights_for_which_there_is_no_room_name_the_full_disk(grey_directory, temporary):
    copy = ModelCopy(grey_directory)
    (copy.directory / "model.safetensors").symlink_to("/dev/full")
    expected = f"{grey_directory}/model.safetensors cannot be copied to {temporary}: No space left on device"
    with pytest.raises(ModelDirectoryError, match=re.escape(expected)):
        copy_weights(grey_directory, copy.directory)


def test_nothing_is_left_of_a_copy_that_fails(tmp_path, temporary):
    (tmp_path / "model" / "config.json").mkdir(parents=True)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="cannot be copied"):
        ModelCopy(tmp_path / "model")
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


IMAGES = 200


@dataclass(frozen=True)
class ChangingOptions(EngineOptions):
    """An engine that has another digest once a file is there, as on a machine whose GPU is lost."""

    changed: Path = Path("none")

    def generator(self):
        generator = super().generator()
        if self.changed.exists():
            generator.__dict__["digest"] = "0" * 32
        return generator


@pytest.fixture
def directory(tmp_path, grey):
    save_model(grey, tmp_path / "changing")
    return tmp_path / "changing"


def other_model(directory):
    """Save other weights into the directory, as `scanline train --out` does."""
    save_model(small_models.model(small_models.GREY, seed=5), directory)


@pytest.mark.parametrize(
    "change", [other_model, shutil.rmtree], ids=["other weights", "nothing left"]
)
async def test_files_that_change_change_no_image_and_no_request_to_come(directory, grey, change):
    """The engine is killed when the first bytes of a job are here, after
    its model directory was changed.
    """
    engine = await RecordingClient(EngineOptions(directory, "cpu", slots=4, threads=1)).started()
    with engine.paint(IMAGES, seed=1, stream=True) as first:
        await engine.wait_for(Pixels)
        change(directory)
        engine.signal(signal.SIGKILL)
        await with_deadline(first.wait())
    with engine.paint(3, seed=2) as second:
        await with_deadline(second.wait())
    await engine.close()
    assert engine.restarts == 1
    assert (engine.options.backend, engine.process.options.backend) == (
        "auto",
        engine.ready.backend_name,
    )
    assert_array_equal(first.task.images, paint(grey, IMAGES, seed=1).images)
    assert_array_equal(second.task.images, paint(grey, 3, seed=2).images)
    assert not engine.directory.exists()  # the copy goes with the engine


def remove_files(temporary):
    """As a machine cleans its temporary directory: sockets in use stay."""
    for path in temporary.rglob("*"):
        if path.is_file():
            path.unlink()


def remove_all(temporary):
    """As above, but also sockets: that of the fork server, and the directory of the copy."""
    shutil.rmtree(temporary)
    temporary.mkdir()


@pytest.mark.parametrize("clean", [remove_files, remove_all])
async def test_an_engine_restarts_where_temporary_files_were_removed(
    directory,
    grey,
    temporary,
    clean,
    monkeypatch,
):
    monkeypatch.setattr(forkserver._forkserver, "_forkserver_address", None)
    monkeypatch.setattr(forkserver._forkserver, "_forkserver_pid", None)
    monkeypatch.delitem(multiprocessing.current_process()._config, "tempdir", raising=False)
    engine = await RecordingClient(EngineOptions(directory, "cpu", slots=4, threads=1)).started()
    # Until its files are open, a copy cannot be written again.
    count = len(list(engine.directory.iterdir()))
    await asyncio.to_thread(wait_for, lambda: len(engine.copy.files) == count, "the copy")
    shutil.rmtree(directory)
    clean(temporary)
    engine.signal(signal.SIGKILL)
    with engine.paint(3, seed=2) as job:
        await with_deadline(job.wait())
    await engine.close()
    assert_array_equal(job.task.images, paint(grey, 3, seed=2).images)


def test_files_of_a_copy_never_look_old(grey_directory, temporary):
    copy = ModelCopy(grey_directory)
    config = copy.directory / "config.json"
    os.utime(config, (0, 0))
    copy.keep()
    assert config.stat().st_mtime == pytest.approx(time.time(), abs=PATIENCE)
    # systemd-tmpfiles leaves out what is below a directory that another process has locked
    root = os.open(copy.directory.parent, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(root)
    copy.remove()
    copy.keep()
    assert list(temporary.iterdir()) == []


async def test_an_engine_with_another_digest_fails_the_jobs_and_is_not_served(
    directory, tmp_path, caplog
):
    marker = tmp_path / "marker"
    engine = await RecordingClient(
        ChangingOptions(directory, "cpu", slots=4, threads=1, changed=marker)
    ).started()
    with engine.paint(ENDLESS, seed=0, stream=True) as job:
        await engine.wait_for(Pixels)
        marker.touch()
        engine.signal(signal.SIGKILL)
        with pytest.raises(EngineFailedError) as caught:
            await with_deadline(job.wait())
    await asyncio.wait_for(engine.failed.wait(), PATIENCE)
    await with_deadline(asyncio.shield(engine.supervisor))
    await engine.close()
    assert caught.value.code == "model_changed"
    assert ONE_SENTENCE.fullmatch(str(caught.value))
    assert engine.restarts == 1
    (record,) = [
        record for record in caplog.records if "the engine is not served" in record.message
    ]
    assert record.levelname == "CRITICAL"


async def test_jobs_carry_the_digest_of_the_engine(faulty_engine):
    with faulty_engine.paint(1, seed=0) as job:
        await with_deadline(job.wait())
    assert job.request.digest == faulty_engine.ready.digest != ""
