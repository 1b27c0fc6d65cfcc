"""The scheduler with images of several slots: all or none, none for ever behind others, and shares counted in slots."""

from collections import Counter, deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.sampling.scheduler import Scheduler, SlotAssignment


def scheduler_of(slots: int, sizes: dict[int, int], spare: int = 0) -> Scheduler:
    """Images of a request need sizes[request] slots, by default one."""
    return Scheduler(slots, lambda request, index: sizes.get(request, 1), spare)


def admitted(scheduler: Scheduler) -> list[SlotAssignment]:
    """Assign slots until slots or images run out."""
    assignments = []
    while assignment := scheduler.admit():
        assignments.append(assignment)
    return assignments


def test_all_particles_of_an_image_have_slots_or_none_the_lowest_free_ones_first() -> None:
    scheduler = scheduler_of(10, {0: 4})
    scheduler.add(0, range(3))
    assert [one.slots for one in admitted(scheduler)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    scheduler.release(4)
    assert [one.slots for one in admitted(scheduler)] == [(4, 5, 6, 7)]
    assert scheduler.free == [8, 9]


def test_slots_that_lie_apart_serve_one_image() -> None:
    scheduler = scheduler_of(6, {6: 3})
    for request in range(6):
        scheduler.add(request, range(1))
    admitted(scheduler)
    scheduler.add(6, range(1))
    for slot in (4, 1, 3):
        assert scheduler.admit() is None
        scheduler.release(slot)
    (assignment,) = admitted(scheduler)
    assert assignment.slots == (1, 3, 4)
    assert scheduler.is_busy.all()
    assert np.flatnonzero(scheduler.is_first).tolist() == [0, 1, 2, 5]
    assert scheduler.cancel(6) == [1, 3, 4]
    assert sorted(scheduler.free) == [1, 3, 4]
    assert not scheduler.groups


def test_slots_that_become_free_are_kept_for_the_image_whose_turn_it_is() -> None:
    scheduler = scheduler_of(4, {1: 4})
    scheduler.add(0, range(1000), "small")
    admitted(scheduler)
    scheduler.add(1, range(1), "large")
    placed = []
    for slot in (0, 1, 2, 3, 0):
        scheduler.release(slot)
        placed += [one.request for one in admitted(scheduler)]
    assert placed == [0, 1], "the image whose turn it was first, and no other one"


def test_an_image_beyond_its_client_s_share_lets_others_go_first_and_comes_once_its_client_has_no_slots() -> None:
    scheduler = scheduler_of(8, {0: 6})
    scheduler.add(0, range(2), "large")
    scheduler.add(1, range(40), "small")
    assert [one.request for one in admitted(scheduler)] == [0, 1, 1]
    scheduler.release(6)
    assert [one.request for one in admitted(scheduler)] == [1], "the second large image waits for the first"
    scheduler.release(0)
    given = [one.request for one in admitted(scheduler)]
    order = deque(sorted(scheduler.assigned))
    while 0 not in given:
        scheduler.release(order.popleft())
        new = admitted(scheduler)
        given += [one.request for one in new]
        order += [one.slot for one in new]
        assert len(given) <= 8


def test_images_within_their_share_have_spare_slots_while_one_of_many_slots_waits_and_while_it_is_painted() -> None:
    scheduler = scheduler_of(8, {1: 8}, spare=2)
    scheduler.add(0, range(9), "small")
    assert [one.slot for one in admitted(scheduler)] == list(range(8)), "no spare slot for a client alone"
    scheduler.cancel(0)
    scheduler.add(0, range(1), "small")
    admitted(scheduler)
    scheduler.add(1, range(2), "large")
    scheduler.add(2, range(9), "small")
    assert [one.slots for one in admitted(scheduler)] == [(8,), (9,)]
    scheduler.release(0)
    assert [one.request for one in admitted(scheduler)] == [1], "it has waited no longer than without the others"
    scheduler.release(9)
    assert [one.slots for one in admitted(scheduler)] == [(9,)]
    assert list(scheduler.reclaim()) == []
    scheduler.cancel(1)
    assert [one.slot for one in admitted(scheduler)] == list(range(6))
    assert not scheduler.spare


def test_turns_count_slots() -> None:
    """Of two clients, one with images of four slots and one with images of one, each has half of all slots given."""
    scheduler = scheduler_of(4, {0: 4})
    scheduler.add(0, range(100), "large")
    scheduler.add(1, range(400), "small")
    given: Counter[int] = Counter()
    for _ in range(100):
        for one in admitted(scheduler):
            given[one.request] += len(one.slots)
        for slot in list(scheduler.assigned):
            scheduler.release(slot)
    assert abs(given[0] - given[1]) <= 8, given


def test_whole_images_are_taken_back_where_least_is_painted_and_the_rest_of_their_slots_is_free() -> None:
    scheduler = scheduler_of(12, {0: 4})
    scheduler.add(0, range(3), "many")
    admitted(scheduler)
    scheduler.add(1, range(1), "one")
    scheduler.positions[:] = np.repeat([20, 10, 30], 4)
    moves = [(victim.slots, assigned.slots) for victim, assigned in scheduler.reclaim()]
    assert moves == [((4, 5, 6, 7), (4,))]
    assert sorted(scheduler.free) == [5, 6, 7]
    assert scheduler.held == {"many": 8, "one": 1}
    assert list(scheduler.waiting[0]) == [1]
    assert admitted(scheduler) == [], "it would have more than its share"


def test_several_images_are_taken_back_for_one_of_several_particles() -> None:
    scheduler = scheduler_of(8, {1: 4})
    scheduler.add(0, range(8), "many")
    admitted(scheduler)
    scheduler.add(1, range(2), "one")
    scheduler.positions[:] = range(8)
    moves = list(scheduler.reclaim())
    assert [victim.slot for victim, _ in moves] == [0, 1, 2, 3]
    assert all(assigned is moves[0][1] for _, assigned in moves)
    assert moves[0][1].slots == (0, 1, 2, 3)
    assert scheduler.held == {"many": 4, "one": 4}


def test_a_client_s_only_image_is_never_taken_back() -> None:
    scheduler = scheduler_of(8, {0: 8})
    scheduler.add(0, range(2), "large")
    admitted(scheduler)
    scheduler.add(1, range(9), "small")
    assert list(scheduler.reclaim()) == []


def test_the_slots_kept_for_a_large_image_are_not_taken_by_clients_below_their_share() -> None:
    scheduler = scheduler_of(8, {1: 8})
    scheduler.add(0, range(100), "many")
    admitted(scheduler)
    scheduler.add(1, range(1), "large")
    scheduler.turns.end_turn(0)
    scheduler.release(5)
    assert scheduler.admit() is None
    scheduler.add(2, range(100), "small")
    scheduler.positions[:] = range(8)
    moves = list(scheduler.reclaim())
    assert scheduler.free == [5]
    assert {assigned.request for _, assigned in moves} == {2}


@given(
    slots=st.integers(4, 9),
    spare=st.integers(0, 2),
    requests=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=10
    ),
    data=st.data(),
)
def test_whatever_the_sizes_every_image_is_complete_in_the_end(
    slots: int, spare: int, requests: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    """Images end in the order in which they began; ever new images of one slot arrive of a client that never pauses."""
    scheduler = scheduler_of(slots, {number: size for number, (_, size, _) in enumerate(requests)}, spare)
    for number, (client, _, images) in enumerate(requests):
        scheduler.add(number, range(images), client)
    left = {number: set(range(images)) for number, (_, _, images) in enumerate(requests)}
    began: dict[int, int] = {}
    now = 0
    while any(left.values()):
        now += 1
        assert now < 400, "an image waits for ever"
        if now % 3 == 0:
            scheduler.add(1000 + now, range(3), "steady")
        for one in admitted(scheduler):
            began[one.slot] = now
        for slot, then in began.items():
            scheduler.positions[slot] = now - then
        for victim, assigned in scheduler.reclaim():
            began.pop(victim.slot, None)
            began[assigned.slot] = now
        began = {slot: then for slot, then in began.items() if slot in scheduler.assigned}
        for one in admitted(scheduler):
            began[one.slot] = now
        taken = [slot for one in scheduler.assigned.values() for slot in one.slots]
        assert sorted([*scheduler.free, *scheduler.spare, *taken]) == list(range(slots + spare))
        assert scheduler.held == Counter(one.client for one in scheduler.assigned.values() for _ in one.slots)
        assert sorted(scheduler.groups) == [slot for slot, one in sorted(scheduler.assigned.items()) if one.others]
        for slot in [slot for slot, then in began.items() if now - then >= data.draw(st.integers(2, 3))]:
            one = scheduler.assigned[slot]
            scheduler.release(slot)
            del began[slot]
            left.get(one.request, set()).discard(one.index)
