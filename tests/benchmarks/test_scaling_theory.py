"""The simulated fleet against formulas of queueing theory, within what so many requests leave to chance."""

from math import factorial, inf

import numpy as np
import pytest

from tests.support.queues import ANY, ExponentialFleet, Fleet, arrivals, machine, mean_time, ran

MANY = 40_000


def erlang_c(servers: int, load: float) -> float:
    """Probability that a request waits in M/M/c; load in servers' worth of work."""
    waits = load**servers / factorial(servers) * servers / (servers - load)
    return waits / (sum(load**k / factorial(k) for k in range(servers)) + waits)


@pytest.mark.parametrize(("slots", "load"), [(1, 0.6), (4, 3.2), (16, 13.6)])
def test_slots_whose_company_costs_nothing_are_servers_of_erlangs(slots: int, load: float) -> None:
    fleet = ran(ExponentialFleet(machine(slots), 1, seed=1), load, MANY)
    assert mean_time(fleet) == pytest.approx(1 + erlang_c(slots, load) / (slots - load), rel=0.05)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_slot_and_equal_images_wait_as_pollaczek_and_khinchine_say(load: float) -> None:
    fleet = ran(Fleet(machine(), 1, seed=1), load, MANY)
    assert mean_time(fleet) - 1 == pytest.approx(load / (2 * (1 - load)), rel=0.05)


@pytest.mark.parametrize("kind", [Fleet, ExponentialFleet])
def test_steps_that_grow_with_their_images_share_a_processor(kind: type[Fleet]) -> None:
    """Mean time S / (1 - load), whatever the images' lengths are."""
    fleet = ran(kind(machine(ANY, fixed=0.0, each=1.0), 1, seed=1), 0.7, MANY)
    assert mean_time(fleet) == pytest.approx(1 / 0.3, rel=0.05)


def test_steps_that_do_not_grow_make_nobody_wait() -> None:
    fleet = ran(Fleet(machine(ANY, steps=100), 1, seed=1), 5.0, 2_000)
    assert [request.done - request.arrived for request in fleet.requests] == pytest.approx([100.0] * 2_000)


@pytest.mark.parametrize(("router", "mean"), [("random", 5.0), ("two, by pieces", 1 + 0.8**2 + 0.8**6 + 0.8**14)])
def test_two_choices_shorten_queues_as_mitzenmacher_says(router: str, mean: float) -> None:
    """Exponential images on very many one-slot replicas: sum over i of load^(2^i - 2), against 1 / (1 - load)."""
    fleet = ran(ExponentialFleet(machine(), 300, seed=1, router=router, ahead=inf), 0.8 * 300, 2 * MANY)
    assert mean_time(fleet) == pytest.approx(mean, rel=0.05)


def test_replicas_that_get_no_more_than_they_have_room_for_share_one_queue() -> None:
    """What waits at the front is what waits for Erlang's servers."""
    fleet = ran(ExponentialFleet(machine(), 4, seed=1, router="all, by images", ahead=1.0), 3.2, MANY)
    assert mean_time(fleet) == pytest.approx(1 + erlang_c(4, 3.2) / 0.8, rel=0.05)


def test_littles_law() -> None:
    """Images at replicas on average, as they see it = images a second x seconds of an image, as requests see it."""
    fleet = Fleet(machine(8, fixed=0.5, each=0.5, steps=10), 5, seed=1, ahead=inf)
    sizes = np.random.default_rng(2).integers(1, 60, 2_000)
    fleet.run(arrivals(0.01, 2_000), sizes)
    in_flight = sum(replica.image_seconds for replica in fleet.replicas) / fleet.now
    assert in_flight == pytest.approx(sizes.sum() / fleet.now * (fleet.seconds_of_images / sizes.sum()))


def test_a_full_replica_paints_at_its_capacity_and_never_faster() -> None:
    full = machine(64, fixed=3.0, each=0.1, steps=20)
    fleet = Fleet(full, 3, seed=1)
    fleet.run(arrivals(10 * full.rate, 3_000), np.full(3_000, 8))
    rate = 24_000 / fleet.now / 3
    assert 0.97 * full.rate < rate <= full.rate


def test_an_image_alone_takes_its_own_time_and_two_waves_take_two() -> None:
    alone = machine(4, fixed=1.0, each=0.5, steps=10)
    for images, seconds in ((1, 15.0), (4, 30.0), (8, 60.0), (6, 30.0 + 20.0)):
        fleet = Fleet(alone, 1, seed=1, piece=100)
        fleet.run(np.zeros(1), np.array([images]))
        assert fleet.requests[0].done == pytest.approx(seconds)
