"""A folder of guided images, which take two slots each, painted by the replicas of a cluster."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.defaults import Defaults
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import GenerateRequest, Ready
from scanline.model.tasks.offline import paint_request
from scanline.server.cluster.folder import FolderTask, Recipe, folder_task
from scanline.server.engine.job import Job
from scanline.server.engine.remote.over_ray import ReplicaPool
from scanline.server.engine.remote.status import EngineStatus
from scanline.server.engine.worker.process import EngineOptions
from tests.support import shapes
from tests.support.cluster.local_replicas import LocalReplicas, local_pool

RECIPE = Recipe("guided", 40, 7, 1.0, "star", 2.5)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED)


def test_a_folder_has_the_guided_images_of_one_machine(directory: Path, tmp_path: Path) -> None:
    missing = (1, 8, 30)

    async def run() -> tuple[Job, FolderTask]:
        async with local_pool(directory) as (_, pool):
            task = folder_task(RECIPE, missing, pool, ModelInfo(*await pool.model()), tmp_path, lambda done: None)
            folder = Job(replace(task.request, id=next(pool.request_ids)), task)
            with pool.reserve(folder.slots_left) as reservation, pool.run(folder, reservation):
                assert pool.reserved_images == 6
                await folder.wait()
            return folder, task

    folder, task = asyncio.run(run())
    assert (folder.images_left, len([*task.work()])) == (0, 3)
    expected = paint_request(load_model(directory, "cpu"), GenerateRequest(0, 40, 7, label=3, guidance=2.5))
    for index in missing:
        np.testing.assert_array_equal(Image.open(tmp_path / f"{index:02}.png"), expected.images[index].reshape(7, 5))


def test_a_folder_that_replicas_of_one_slot_cannot_guide_is_refused(tmp_path: Path) -> None:
    replicas, engine = (ReplicaPool(LocalReplicas(), 1, EngineOptions(Path("guided"))) for _ in range(2))  # type: ignore[arg-type]
    engine.ready = Ready(parameters=1, slots=1, device="cpu", state_bytes=1, backend="none")
    replicas.known = [EngineStatus.of(engine, shapes.GUIDED, Defaults())]
    with pytest.raises(InvalidInput, match="a guided image needs two"):
        folder_task(RECIPE, (0, 1), replicas, ModelInfo(shapes.GUIDED), tmp_path, lambda done: None)
