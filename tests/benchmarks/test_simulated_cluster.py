"""The simulated cluster under bursts and scaling: every image is painted exactly once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulation.autoscaler import Scaling
from benchmarks.simulation.cluster import Cluster
from benchmarks.simulation.routing import ROUTERS
from tests.support.engine.queues import arrivals, machine

BATCHING = machine(16, fixed=1e-3, each=5e-4, steps=100)  # 18 images/s at 16, one alone in 0.15 s


def sizes(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice([1, 4, 64], number, p=[0.7, 0.25, 0.05])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    replicas=st.integers(1, 5),
    shard=st.integers(1, 100),
    router=st.sampled_from(sorted(ROUTERS)),
    scales=st.booleans(),
)
def test_each_request_is_answered_once(seed: int, replicas: int, shard: int, router: str, scales: bool) -> None:
    scaling = Scaling(8.0, most=9, up_delay=3.0, look_back=4.0, metrics_interval=2.0) if scales else None
    cluster = Cluster(
        BATCHING, replicas, seed, router, shard, ingresses=3, overcommit=0.5, start_seconds=1.0, scaling=scaling
    )
    sizes_sent = sizes(200, seed)
    cluster.run(arrivals(8, 200, seed), sizes_sent)
    assert all(request.left == 0 and request.arrived < request.done <= cluster.now for request in cluster.requests)
    assert (len(cluster.requests), cluster.images, cluster.unanswered) == (200, 0, 0)
    assert cluster.painted == pytest.approx(100 * sizes_sent.sum())


def test_the_same_seed_gives_the_same_answers() -> None:
    def answers(seed: int) -> list[float]:
        cluster = Cluster(BATCHING, 4, seed)
        cluster.run(arrivals(10, 500), sizes(500))
        return [request.done for request in cluster.requests]

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)


def test_a_cluster_grows_only_after_the_delay_and_to_its_most() -> None:
    scaling = Scaling(8.0, most=6, up_delay=30.0)
    cluster = Cluster(BATCHING, 1, seed=1, scaling=scaling, start_seconds=5.0)
    cluster.run(arrivals(60, 6_000), np.ones(6_000, int))
    grown = 1 + next(second for second, replicas in enumerate(cluster.watched.replicas) if replicas > 1)
    assert 30.0 + 5.0 <= grown <= 30.0 + 10.0 + 5.0 + 1.0
    assert max(cluster.watched.replicas) == 6
