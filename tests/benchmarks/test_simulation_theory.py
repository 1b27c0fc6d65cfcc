"""The simulated cluster against formulas of queueing theory, within the statistical error of so many requests."""

from math import factorial, inf

import numpy as np
import pytest

from tests.support.engine.queues import ANY, Cluster, ExponentialCluster, arrivals, machine, mean_time, ran

MANY = 40_000


def erlang_c(servers: int, load: float) -> float:
    """Probability that a request waits in M/M/c; load in servers' worth of work."""
    waits = load**servers / factorial(servers) * servers / (servers - load)
    return waits / (sum(load**k / factorial(k) for k in range(servers)) + waits)


@pytest.mark.parametrize(("slots", "load"), [(1, 0.6), (4, 3.2), (16, 13.6)])
def test_slots_that_do_not_slow_each_other_are_erlangs_servers(slots: int, load: float) -> None:
    """Nor do replicas of one slot that get no more than they have room for: the ingress has the queue of M/M/c."""
    replicas = ExponentialCluster(machine(), slots, seed=1, router="all, by images", overcommit=1.0)
    for cluster in (ExponentialCluster(machine(slots), 1, seed=1), replicas):
        mean = mean_time(ran(cluster, load, MANY))
        assert mean == pytest.approx(1 + erlang_c(slots, load) / (slots - load), rel=0.05)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_slot_and_equal_images_wait_as_pollaczek_and_khinchine_say(load: float) -> None:
    cluster = ran(Cluster(machine(), 1, seed=1), load, MANY)
    assert mean_time(cluster) - 1 == pytest.approx(load / (2 * (1 - load)), rel=0.05)


@pytest.mark.parametrize("kind", [Cluster, ExponentialCluster])
def test_steps_that_grow_with_their_images_share_a_processor(kind: type[Cluster]) -> None:
    """Mean time S / (1 - load), whatever the images' lengths are."""
    cluster = ran(kind(machine(ANY, fixed=0.0, each=1.0), 1, seed=1), 0.7, MANY)
    assert mean_time(cluster) == pytest.approx(1 / 0.3, rel=0.05)


def test_steps_of_constant_time_delay_no_request() -> None:
    cluster = ran(Cluster(machine(ANY, steps=100), 1, seed=1), 5.0, 2_000)
    assert [request.done - request.arrived for request in cluster.requests] == pytest.approx([100.0] * 2_000)


@pytest.mark.parametrize(("router", "mean"), [("random", 5.0), ("two, by shards", 1 + 0.8**2 + 0.8**6 + 0.8**14)])
def test_two_choices_shorten_queues_as_mitzenmacher_says(router: str, mean: float) -> None:
    """Exponential images on very many one-slot replicas: sum over i of load^(2^i - 2), against 1 / (1 - load)."""
    cluster = ran(ExponentialCluster(machine(), 300, seed=1, router=router, overcommit=inf), 0.8 * 300, 2 * MANY)
    assert mean_time(cluster) == pytest.approx(mean, rel=0.05)


def test_littles_law() -> None:
    """Mean images in the system, by the replicas' count = images a second x mean seconds, by the requests' times."""
    cluster = Cluster(machine(8, fixed=0.5, each=0.5, steps=10), 5, seed=1, overcommit=inf)
    sizes = np.random.default_rng(2).integers(1, 60, 2_000)
    cluster.run(arrivals(0.01, 2_000), sizes)
    in_flight = sum(replica.image_seconds for replica in cluster.replicas) / cluster.now
    assert in_flight == pytest.approx(sizes.sum() / cluster.now * (cluster.seconds_of_images / sizes.sum()))


def test_a_full_replica_paints_at_its_capacity_and_never_faster() -> None:
    full = machine(64, fixed=3.0, each=0.1, steps=20)
    cluster = Cluster(full, 3, seed=1)
    cluster.run(arrivals(10 * full.rate, 3_000), np.full(3_000, 8))
    rate = 24_000 / cluster.now / 3
    assert 0.97 * full.rate < rate <= full.rate


def test_an_image_alone_takes_its_own_time_and_two_waves_take_two() -> None:
    alone = machine(4, fixed=1.0, each=0.5, steps=10)
    for images, seconds in ((1, 15.0), (4, 30.0), (8, 60.0), (6, 30.0 + 20.0)):
        cluster = Cluster(alone, 1, seed=1, shard=100)
        cluster.run(np.zeros(1), np.array([images]))
        assert cluster.requests[0].done == pytest.approx(seconds)
