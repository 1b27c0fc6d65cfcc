"""The simulated cluster under deaths, restarts, scaling and refusals: every image is painted exactly once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulation.autoscaler import Scaling
from benchmarks.simulation.cluster import Cluster, Faults
from benchmarks.simulation.routing import ROUTERS
from tests.support.queues import arrivals, machine

BATCHING = machine(16, fixed=1e-3, each=5e-4, steps=100)  # 18 images/s at 16, one alone in 0.15 s


def sizes(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice([1, 4, 64], number, p=[0.7, 0.25, 0.05])


@pytest.mark.parametrize("router", sorted(ROUTERS))
def test_every_request_is_answered_once_though_replicas_die(router: str) -> None:
    faults = Faults(mean_lifetime=20.0)
    cluster = Cluster(BATCHING, 6, seed=1, router=router, ingresses=3, start_seconds=2.0, faults=faults)
    sizes_sent = sizes(2_000)
    cluster.run(arrivals(10, 2_000), sizes_sent)
    assert cluster.deaths > 10
    assert all(request.left == 0 and request.arrived < request.done <= cluster.now for request in cluster.requests)
    assert (len(cluster.requests), cluster.images, cluster.unanswered) == (2_000, 0, 0)
    assert cluster.lost > 0
    assert cluster.painted == pytest.approx(100 * sizes_sent.sum() + cluster.lost)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    replicas=st.integers(1, 5),
    shard=st.integers(1, 100),
    bound=st.sampled_from([20, 200]),
    router=st.sampled_from(sorted(ROUTERS)),
    scales=st.booleans(),
)
def test_each_request_ends_once_under_any_events(
    seed: int, replicas: int, shard: int, bound: int, router: str, scales: bool
) -> None:
    scaling = Scaling(8.0, most=9, up_delay=3.0, down_delay=5.0, look_back=4.0, metrics_interval=2.0)
    options = {"bound": bound, "start_seconds": 1.0, "faults": Faults(mean_lifetime=15.0)}
    cluster = Cluster(BATCHING, replicas, seed, router, shard, scaling=scaling if scales else None, **options)
    cluster.at(10.0, cluster.restart_all, 2)
    sizes_sent = sizes(200, seed)
    cluster.run(arrivals(8, 200, seed), sizes_sent)
    assert len(cluster.requests) + len(cluster.refused) == 200
    answered = sum(request.images for request in cluster.requests)
    assert answered + cluster.images_refused == sizes_sent.sum()
    assert all(request.left == 0 and request.done <= cluster.now for request in cluster.requests)
    assert (cluster.images, cluster.unanswered) == (0, 0)
    assert cluster.painted == pytest.approx(100 * answered + cluster.lost)


def test_the_same_seed_gives_the_same_answers() -> None:
    def answers(seed: int) -> list[float]:
        cluster = Cluster(BATCHING, 4, seed, faults=Faults(mean_lifetime=20.0))
        cluster.run(arrivals(10, 500), sizes(500))
        return [request.done for request in cluster.requests]

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)


def test_requests_beyond_the_bound_are_refused_whole_and_shards_wait_for_a_ready_replica() -> None:
    cluster = Cluster(BATCHING, 2, seed=1, bound=50)
    cluster.run(np.arange(4.0) / 1000, np.array([64, 64, 37, 36]))
    assert [request.images for request in cluster.refused] == [64, 37]
    assert [request.images for request in cluster.requests] == [64, 36]
    cluster = Cluster(BATCHING, 1, seed=1, start_seconds=5.0)
    cluster.at(1.0, cluster.restart_all, 1)
    cluster.run(np.array([2.0]), np.array([1]))
    assert cluster.requests[0].done == pytest.approx(1.0 + 5.0 + 0.15)


def test_a_restart_replaces_every_replica_and_loses_nothing() -> None:
    cluster = Cluster(BATCHING, 10, seed=1)
    before = set(cluster.ready)
    cluster.at(5.0, cluster.restart_all, 2)
    cluster.run(arrivals(20, 2_000), sizes(2_000))
    assert len(cluster.ready) == 10
    assert not before & set(cluster.ready)
    assert cluster.lost == 0
    assert min(cluster.watched.ready) == 8


def test_a_cluster_grows_only_after_the_delay_and_shrinks_only_after_the_longer_one() -> None:
    scaling = Scaling(8.0, most=6, up_delay=30.0, down_delay=100.0)
    cluster = Cluster(BATCHING, 1, seed=1, scaling=scaling, start_seconds=5.0)
    cluster.run(arrivals(60, 6_000), np.ones(6_000, int), until=600.0)
    ready = dict(zip(cluster.watched.time, cluster.watched.ready, strict=True))
    grown = min(time for time, replicas in ready.items() if replicas > 1)
    assert 30.0 + 5.0 <= grown <= 30.0 + 10.0 + 5.0 + 1.0
    assert max(ready.values()) == 6
    last = max(request.done for request in cluster.requests)
    assert ready[np.floor(last + 99.0)] == 6
    assert ready[600.0] == 1
