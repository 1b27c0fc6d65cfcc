"""A replica that sleeps answers a cluster's ingress, and the arithmetic cuts and limits a load as the cluster does."""

import asyncio
from math import inf
from pathlib import Path

import pytest

pytest.importorskip("ray")

from benchmarks.scale import sleeping_replica
from benchmarks.scale.arithmetic import MACHINE, NETWORK, REPLICAS, Cost, Load, predict
from scanline.model import zoo
from scanline.model.formats.model_dir import load_config
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.cluster.arguments import ClusterSettings
from tests.support.cluster.local_replicas import LocalReplicas, pool_of
from tests.support.engine.jobs import PaintJob


class LocalSleeper(sleeping_replica.SleepingReplica):
    """One that no Serve stops."""

    def __del__(self) -> None:
        pass


@pytest.mark.parametrize("slots", [64, 512, 8192])
def test_sleeping_replicas_finish_a_request_in_the_shards_of_the_arithmetic(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleeping_replica, "IMAGE_SECONDS", 0.01)
    monkeypatch.setattr(sleeping_replica.replica, "EngineClient", sleeping_replica.SleepingEngine)

    async def run() -> tuple[int, int]:
        replicas = [LocalSleeper.__new__(LocalSleeper) for _ in range(2)]
        for replica in replicas:
            await replica.__init__(ClusterSettings(slots=slots, threads=1), zoo.DEFAULT)  # type: ignore[misc]
        handle = LocalReplicas(*replicas)
        async with pool_of(handle, Path(zoo.find(zoo.DEFAULT))) as pool:
            with pool.run(
                PaintJob(GenerateRequest(next(pool.request_ids), 200, seed=7), load_config(zoo.find(zoo.DEFAULT)))
            ) as job:
                await job.wait()
        return len(handle.sent), job.images_left

    assert asyncio.run(run()) == (Load(2, slots, 0.01, 200, 784).shards, 0)


def test_the_part_that_ends_first_is_the_one_that_costs_most() -> None:
    costs = {"proxy": Cost(request=0.004), "ingress": Cost(shard=0.002, idle=0.5), NETWORK: Cost(byte=2.0)}
    load = Load(replicas=4, slots=64, image_seconds=2.0, n=64, image_bytes=100, in_flight=inf)
    limits, spent = predict(costs, load, {"proxy": 2}, cores=1.0, bandwidth=1e6)
    expected = {"proxy": 2 * 64 / 0.004, "ingress": 0.5 * 64 / 0.008, NETWORK: 5e3, REPLICAS: 128.0}
    assert limits == pytest.approx(expected | {MACHINE: 0.5 * 64 / 0.012})
    assert spent["ingress"] == pytest.approx(0.008 / 64)
