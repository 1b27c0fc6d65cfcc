"""The scheduler: the order of requests, the choice of slots, and what is left when a request is cancelled."""

from hypothesis import given
from hypothesis import strategies as st

from scanline.model.sampling.scheduler import Scheduler, SlotAssignment


def admitted(scheduler: Scheduler) -> list[SlotAssignment]:
    """Assign slots until slots or images run out."""
    assignments = []
    while assignment := scheduler.admit():
        assignments.append(assignment)
    return assignments


def test_one_image_behind_thousands_gets_the_next_free_slot() -> None:
    scheduler = Scheduler(4)
    scheduler.add(0, range(5000))
    admitted(scheduler)
    scheduler.add(1, range(1))
    scheduler.release(2)
    scheduler.release(3)
    assert SlotAssignment(3, request=1, index=0) in admitted(scheduler)


def test_requests_take_turns_and_the_lowest_free_slot_goes_first() -> None:
    scheduler = Scheduler(7)
    for request, images in enumerate((10, 2, 10)):
        scheduler.add(request, range(images))
    turns = [(assignment.request, assignment.index) for assignment in admitted(scheduler)]
    assert turns == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    for slot in (4, 1, 3):
        scheduler.release(slot)
    assert [assignment.slot for assignment in admitted(scheduler)] == [1, 3, 4]


def test_cancel_frees_the_slots_of_its_request_and_forgets_its_waiting_images() -> None:
    scheduler = Scheduler(4)
    for request in (0, 1):
        scheduler.add(request, range(5))
    admitted(scheduler)
    assert scheduler.cancel(0) == [0, 2]
    assert {assignment.request for assignment in scheduler.assigned.values()} == {1}
    assert scheduler.images_waiting == 3
    assert scheduler.cancel(7) == []  # unknown


# a script of what may happen: images > 0 adds a request, 0 admits, -k releases or cancels the k-th of what is there
SCRIPTS = st.lists(st.integers(-6, 6), max_size=60)


@given(slots=st.integers(1, 5), script=SCRIPTS)
def test_every_slot_is_free_or_has_one_image(slots: int, script: list[int]) -> None:
    scheduler = Scheduler(slots)
    for request, event in enumerate(script):
        if event > 0:
            scheduler.add(request, range(event))
        elif event == 0:
            scheduler.admit()
        elif event % 2 and scheduler.assigned:
            scheduler.release(sorted(scheduler.assigned)[event % len(scheduler.assigned)])
        elif scheduler.turns:
            scheduler.cancel(scheduler.turns[event % len(scheduler.turns)])
        assert sorted([*scheduler.free, *scheduler.assigned]) == list(range(slots))
        assert sorted(scheduler.turns) == sorted(scheduler.waiting)
        assert all(scheduler.waiting.values())


@given(slots=st.integers(1, 5), sizes=st.lists(st.integers(1, 9), max_size=8), data=st.data())
def test_every_image_gets_a_slot_exactly_once_and_no_request_waits_longer_than_a_turn_of_the_others(
    slots: int, sizes: list[int], data: st.DataObject
) -> None:
    scheduler = Scheduler(slots)
    assigned: list[tuple[int, int]] = []
    for request, images in enumerate(sizes):
        scheduler.add(request, range(images))
    while assignments := admitted(scheduler):
        assigned += [(assignment.request, assignment.index) for assignment in assignments]
        for slot in data.draw(st.lists(st.sampled_from(sorted(scheduler.assigned)), min_size=1, unique=True)):
            scheduler.release(slot)
    assert sorted(assigned) == [(request, index) for request, images in enumerate(sizes) for index in range(images)]
    assert [request for request, _ in assigned[: len(sizes)]] == list(range(len(sizes)))
