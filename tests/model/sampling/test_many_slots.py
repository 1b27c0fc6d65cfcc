"""The scheduler's work for each slot costs about the same however many slots there are."""

import time

import numpy as np

from scanline.model.sampling.scheduler import Scheduler

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
