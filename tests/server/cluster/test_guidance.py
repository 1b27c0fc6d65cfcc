"""Guided images on a cluster: those of one machine, counted as two slots, and in folders."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.defaults import Defaults
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.inputs import InvalidInput
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.messages import GenerateRequest, Ready
from scanline.model.tasks.offline import paint_request
from scanline.server.cluster.folder import Recipe, folder_task
from scanline.server.engine.job import Job
from scanline.server.engine.remote.over_ray import ReplicaPool
from scanline.server.engine.remote.status import EngineStatus
from scanline.server.engine.worker.process import EngineOptions
from tests.support import shapes
from tests.support.cluster.local_replicas import LocalReplicas, pool_of, replica_of
from tests.support.engine.jobs import PaintJob
from tests.support.pictures import noise

N, STAR = 40, 3
RECIPE = Recipe("guided", N, 7, 1.0, "star", 2.5)
IMAGE = noise(7, 5)
HOLE = np.ones((7, 5), np.bool_)
HOLE[2:5, 1:3] = False


@pytest.fixture(scope="module")
def guided_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED)


@pytest.fixture(scope="module")
def network(guided_directory: Path) -> Transformer:
    return load_model(guided_directory, "cpu")


def test_images_are_those_of_one_machine_and_counted_as_two_slots(
    guided_directory: Path, network: Transformer, tmp_path: Path
) -> None:
    async def run() -> tuple[PaintJob, Job, list[int]]:
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(replica_of(guided_directory)) for _ in range(2)]
            handle = LocalReplicas(*replicas)
            pool = await stack.enter_async_context(pool_of(handle, guided_directory))
            known, masks = (IMAGE.tobytes(),), (HOLE.tobytes(),)
            request = GenerateRequest(next(pool.request_ids), N, 7, known=known, masks=masks, label=STAR, guidance=2.5)
            with pool.reserve(2 * N) as reservation, pool.run(PaintJob(request), reservation) as job:
                assert pool.outstanding == 80  # slots, of 40 images: a quarter more than there are
                await job.wait()
            sent = [len(command.indices) for command, _ in handle.sent]
            missing = (1, 8, 30)
            task = folder_task(RECIPE, missing, pool, ModelInfo(*await pool.model()), tmp_path, lambda done: None)
            folder = Job(replace(task.request, id=next(pool.request_ids)), task)
            with pool.reserve(folder.slots_left) as reservation, pool.run(folder, reservation):
                assert pool.reserved_images == 6
                await folder.wait()
            assert len([*task.work()]) == 3
            assert (pool.reserved_images, {replica for _, replica in handle.sent}) == (0, set(replicas))
            return job, folder, sent

    job, folder, shards = asyncio.run(run())
    known, masks = (IMAGE.tobytes(),), (HOLE.tobytes(),)
    law = paint_request(network, GenerateRequest(0, N, 7, known=known, masks=masks, label=STAR, guidance=2.5))
    np.testing.assert_array_equal(job.task.images, law.images)
    assert shards == [8] * 5  # of 16 slots each
    assert folder.images_left == 0
    law = paint_request(network, GenerateRequest(0, N, 7, label=STAR, guidance=2.5))
    for index in (1, 8, 30):
        np.testing.assert_array_equal(Image.open(tmp_path / f"{index:02}.png"), law.images[index].reshape(7, 5))


@pytest.mark.parametrize(
    ("recipe", "slots", "sentence"),
    [
        (replace(RECIPE, class_name=None), 4, "guidance needs a class"),
        (replace(RECIPE, guidance=11.0), 4, r"guidance must be from 1 \(none\) to 10, not 11"),
        (RECIPE, 1, "This server has one slot, and a guided image needs two"),
    ],
    ids=["no class", "too much", "one slot"],
)
def test_a_folder_that_cannot_be_guided_is_refused(recipe: Recipe, slots: int, sentence: str, tmp_path: Path) -> None:
    replicas = ReplicaPool(LocalReplicas(), 1, EngineOptions(Path("guided")))  # type: ignore[arg-type]
    engine = ReplicaPool(LocalReplicas(), 1, EngineOptions(Path("guided")))  # type: ignore[arg-type]
    engine.ready = Ready(parameters=1, slots=slots, device="cpu", state_bytes=1, backend="none")
    replicas.known = [EngineStatus.of(engine, shapes.GUIDED, Defaults())]
    with pytest.raises(InvalidInput, match=sentence):
        folder_task(recipe, (0, 1), replicas, ModelInfo(shapes.GUIDED), tmp_path, lambda done: None)
