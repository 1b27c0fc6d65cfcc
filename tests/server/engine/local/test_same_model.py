"""A restarted engine paints with the model that was served before, or not at all."""

import asyncio
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Pixels
from scanline.model.tasks.offline import paint
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.worker.process import EngineOptions
from tests.support import small_models
from tests.support.engine.engines import ENDLESS, RecordingClient, with_deadline
from tests.support.engine.jobs import PaintJob
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.tiny import GREY
from tests.support.waiting import PATIENCE

IMAGES = 200


@dataclass(frozen=True)
class ChangingOptions(EngineOptions):
    """An engine that has another digest once a file is there, as on a machine whose GPU is lost."""

    changed: Path = Path("none")

    def generator(self) -> Generator:
        generator = super().generator()
        if self.changed.exists():
            generator.__dict__["digest"] = "0" * 32
        return generator


@pytest.fixture
def directory(tmp_path: Path, grey: Transformer) -> Path:
    """A model directory of this test's own."""
    save_model(grey, tmp_path / "changing")
    return tmp_path / "changing"


def other_model(directory: Path) -> None:
    """Save other weights into the directory, as `scanline train --out` does."""
    save_model(small_models.model(GREY, seed=5), directory)


@pytest.mark.parametrize("change", [other_model, shutil.rmtree], ids=["other weights", "nothing left"])
def test_files_that_change_change_no_image_and_no_request_to_come(
    runner: asyncio.Runner, directory: Path, grey: Transformer, change: Callable[[Path], None]
) -> None:
    """The engine is killed when the first bytes of a job are here, after its model directory was changed."""

    async def painted() -> tuple[PaintJob, PaintJob, RecordingClient]:
        engine = await RecordingClient(EngineOptions(directory, "cpu", slots=4, threads=1)).started()
        with engine.paint(IMAGES, seed=1, stream=True) as first:
            await engine.wait_for(Pixels)
            change(directory)
            engine.signal(signal.SIGKILL)
            await with_deadline(first.wait())
        with engine.paint(3, seed=2) as second:
            await with_deadline(second.wait())
        await engine.close()
        return first, second, engine

    first, second, engine = runner.run(painted())
    assert engine.restarts == 1
    assert engine.ready is not None
    assert engine.process is not None
    assert (engine.options.backend, engine.process.options.backend) == ("auto", engine.ready.backend_name)
    np.testing.assert_array_equal(first.task.images, paint(grey, IMAGES, seed=1).images)
    np.testing.assert_array_equal(second.task.images, paint(grey, 3, seed=2).images)
    assert not engine.directory.exists()  # the copy goes with the engine


def test_an_engine_with_another_digest_fails_the_jobs_and_is_not_served(
    runner: asyncio.Runner, directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    marker = tmp_path / "marker"

    async def failed() -> tuple[EngineFailedError, EngineClient]:
        options = ChangingOptions(directory, "cpu", slots=4, threads=1, changed=marker)
        engine = await RecordingClient(options).started()
        with engine.paint(ENDLESS, seed=0, stream=True) as job:
            await engine.wait_for(Pixels)
            marker.touch()
            engine.signal(signal.SIGKILL)
            with pytest.raises(EngineFailedError) as caught:
                await with_deadline(job.wait())
        await asyncio.wait_for(engine.failed.wait(), PATIENCE)
        await with_deadline(asyncio.shield(engine.supervisor))
        await engine.close()
        return caught.value, engine

    error, engine = runner.run(failed())
    assert error.code == "model_changed"
    assert ONE_SENTENCE.fullmatch(str(error))
    assert engine.restarts == 1
    assert [record.levelname for record in caplog.records if "the engine is not served" in record.message] == [
        "CRITICAL"
    ]


def test_jobs_carry_the_digest_of_the_engine(runner: asyncio.Runner, faulty_engine: RecordingClient) -> None:
    assert faulty_engine.ready is not None

    async def digest() -> str:
        with faulty_engine.paint(1, seed=0) as job:
            await with_deadline(job.wait())
        return job.request.digest

    assert runner.run(digest()) == faulty_engine.ready.digest != ""
