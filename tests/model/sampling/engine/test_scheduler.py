"""The scheduler: the order of clients and requests, the choice of slots, what a cancelled one leaves, and its costs."""

import time
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.sampling.scheduler import Scheduler, SlotAssignment
from tests.support.engine.turn_order import FairTurns


def admitted(scheduler: Scheduler) -> list[SlotAssignment]:
    """Assign slots until slots or images run out."""
    assignments = []
    while assignment := scheduler.admit():
        assignments.append(assignment)
    return assignments


def test_requests_take_turns_and_the_lowest_free_slot_goes_first() -> None:
    scheduler = Scheduler(7)
    for request, images in enumerate((10, 2, 10)):
        scheduler.add(request, range(images))
    turns = [(assignment.request, assignment.index) for assignment in admitted(scheduler)]
    assert turns == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    for slot in (4, 1, 3):
        scheduler.release(slot)
    assert [assignment.slot for assignment in admitted(scheduler)] == [1, 3, 4]


EVENTS = st.sampled_from(["add", "admit", "admit", "admit", "release", "release", "cancel", "hold", "resume"])


@given(slots=st.integers(1, 5), script=st.lists(st.tuples(EVENTS, st.integers(0, 11)), max_size=80))
def test_in_any_order_of_events_slots_hold_one_image_and_no_one_is_passed_over(
    slots: int, script: list[tuple[str, int]]
) -> None:
    """The number of an event chooses the client and size, the slot or the request."""
    scheduler = Scheduler(slots)
    clients: dict[int, str] = {}
    left: dict[int, list[int]] = {}  # images without a slot of the requests that are not cancelled
    between_clients: FairTurns[str] = FairTurns()
    between_requests: dict[str, FairTurns[int]] = {client: FairTurns() for client in "abc"}
    for request, (event, number) in enumerate(script):
        having_turns = [one for one in left if left[one] and one not in scheduler.on_hold]
        if event == "add":
            clients[request], left[request] = "abc"[number % 3], list(range(1 + number // 3))
            scheduler.add(request, range(1 + number // 3), clients[request])
        elif event == "admit":
            is_possible = bool(scheduler.free and having_turns)
            assignment = scheduler.admit()
            assert bool(assignment) == is_possible
            if assignment:
                client = clients[assignment.request]
                assert left[assignment.request].pop(0) == assignment.index
                between_clients.turn(client, {clients[one] for one in having_turns})
                its = [one for one in having_turns if clients[one] == client]
                between_requests[client].turn(assignment.request, its)
        elif event == "release" and scheduler.assigned:
            scheduler.release(sorted(scheduler.assigned)[number % len(scheduler.assigned)])
        elif event == "cancel" and left:
            request = sorted(left)[number % len(left)]
            held = sorted(slot for slot, one in scheduler.assigned.items() if one.request == request)
            assert sorted(scheduler.cancel(request)) == held
            del left[request]
        elif event == "hold" and having_turns:
            scheduler.hold(having_turns[number % len(having_turns)])
        elif event == "resume" and scheduler.on_hold:
            scheduler.resume(sorted(scheduler.on_hold)[number % len(scheduler.on_hold)])
        assert sorted([*scheduler.free, *scheduler.assigned]) == list(range(slots))
        assert {one: list(images) for one, images in scheduler.waiting.items()} == {
            one: images for one, images in left.items() if images
        }
        having_turns = [one for one in left if left[one] and one not in scheduler.on_hold]
        assert sorted(scheduler.turns) == sorted(having_turns)
        between_clients.waiting({clients[one] for one in having_turns})
        for client, fair in between_requests.items():
            fair.waiting([one for one in having_turns if clients[one] == client])


def reclaimed(scheduler: Scheduler, painted: list[int]) -> list[tuple[SlotAssignment, SlotAssignment]]:
    """Take slots for clients that have too few until all have enough."""
    scheduler.positions[:] = painted[: scheduler.slots]
    return list(scheduler.reclaim())


def test_a_client_without_slots_takes_its_share_from_the_one_that_holds_most_where_least_is_painted() -> None:
    scheduler = Scheduler(6)
    scheduler.add(0, range(6), "many")
    admitted(scheduler)
    scheduler.add(1, range(9), "one")
    moves = reclaimed(scheduler, [50, 10, 40, 20, 30, 60])
    assert [(victim.slot, assigned.slot) for victim, assigned in moves] == [(1, 1), (3, 3), (4, 4)]
    assert [assigned.index for _, assigned in moves] == [0, 1, 2]
    assert list(scheduler.waiting[0]) == [1, 3, 4], "the images that lost their slots wait again"
    assert scheduler.held == {"many": 3, "one": 3}


def test_no_slot_is_taken_for_a_client_that_has_its_share() -> None:
    scheduler = Scheduler(4)
    scheduler.add(0, range(9), "many")
    scheduler.add(1, range(9), "one")
    admitted(scheduler)
    assert reclaimed(scheduler, [0, 0, 0, 0]) == []
    scheduler.release(0)
    assert reclaimed(scheduler, [0, 0, 0, 0]) == [], "a free slot comes first"


def test_more_clients_than_slots_take_none_from_each_other() -> None:
    scheduler = Scheduler(2)
    for request, client in enumerate("abc"):
        scheduler.add(request, range(3), client)
    admitted(scheduler)
    assert reclaimed(scheduler, [0, 0]) == []


@given(
    slots=st.integers(1, 12),
    requests=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 15)), min_size=1, max_size=8),
    painted=st.lists(st.integers(0, 9), min_size=12, max_size=12),
)
def test_after_reclaiming_every_client_that_waits_has_its_share(
    slots: int, requests: list[tuple[str, int]], painted: list[int]
) -> None:
    scheduler = Scheduler(slots)
    for request, (client, images) in enumerate(requests):
        scheduler.add(request, range(images), client)
        admitted(scheduler)
        reclaimed(scheduler, painted)
        share = slots // len(scheduler.held.keys() | scheduler.turns.clients.keys())
        assert all(scheduler.held[client] >= share for client in scheduler.turns.clients)
        assert scheduler.held == Counter(one.client for one in scheduler.assigned.values())
        images_of = Counter(one.request for one in scheduler.assigned.values())
        images_of.update({one: len(waiting) for one, waiting in scheduler.waiting.items()})
        assert images_of == {number: images for number, (_, images) in enumerate(requests[: request + 1])}


SLOTS = 16_384  # as many as a GPU's engine takes by itself
SECONDS = 2.0  # for thousands of slots, on a busy machine; a search through all slots for each would take a minute


def full_scheduler() -> Scheduler:
    scheduler = Scheduler(SLOTS)
    scheduler.add(0, range(SLOTS), "first")
    while scheduler.admit():
        pass
    return scheduler


def test_half_of_all_slots_are_taken_back_at_once_where_least_is_painted() -> None:
    scheduler = full_scheduler()
    scheduler.positions[:] = painted = np.random.default_rng(0).permutation(SLOTS)
    scheduler.add(1, range(SLOTS), "second")
    began = time.process_time()
    moves = list(scheduler.reclaim())
    assert time.process_time() - began < SECONDS
    assert [painted[victim.slot] for victim, _ in moves] == list(range(SLOTS // 2))
    assert scheduler.held == {"first": SLOTS // 2, "second": SLOTS // 2}
    assert scheduler.images_waiting == SLOTS


def test_thousands_of_requests_are_cancelled_one_by_one() -> None:
    scheduler = Scheduler(SLOTS)
    for request in range(SLOTS):
        scheduler.add(request, range(1), "one")
    while scheduler.admit():
        pass
    began = time.process_time()
    freed = [scheduler.cancel(request) for request in range(SLOTS)]
    assert time.process_time() - began < SECONDS
    assert sorted(slot for slots in freed for slot in slots) == list(range(SLOTS))
    assert not scheduler.assigned
    assert not scheduler.is_busy.any()
