"""The scheduler: the order of clients and requests, the choice of slots, shares
counted in slots, and its costs.
"""

import time
from collections import Counter, deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.sampling.kinds.particles import Particles
from scanline.model.sampling.scheduler import Scheduler


def scheduler_of(slots, sizes, spare=0):
    """Images of a request need sizes[request] slots, by default one."""
    return Scheduler(slots, lambda request, index: Particles(sizes.get(request, 1)), spare)


def admitted(scheduler):
    """Assign slots until slots or images run out."""
    return [*iter(scheduler.admit, None)]


def with_many(scheduler, images, client="many"):
    """The scheduler with slots for as many images of one client, of request 0, as have room."""
    scheduler.add(0, range(images), client)
    admitted(scheduler)
    return scheduler


class FairTurns:
    """Counts how often others had a turn since each one that waits began
    to wait or had its own last turn.
    """

    def __init__(self):
        self.others = {}

    def waiting(self, keys):
        """These wait now: whoever does not, and waits again later, begins anew."""
        self.others = {key: self.others.get(key, Counter()) for key in keys}

    def turn(self, key, waiting):
        """`key` had a turn while all of `waiting` waited, itself included."""
        assert key in waiting
        self.waiting(waiting)
        del self.others[key]
        for waiter, others in self.others.items():
            others[key] += 1
            assert others[key] == 1, f"{key} had two turns while {waiter} waited"


def test_requests_take_turns_and_the_lowest_free_slot_goes_first():
    scheduler = Scheduler(7)
    for request, images in enumerate((10, 2, 10)):
        scheduler.add(request, range(images))
    turns = [(assignment.request, assignment.index) for assignment in admitted(scheduler)]
    assert turns == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    for slot in (4, 1, 3):
        scheduler.release(slot)
    assert [assignment.slot for assignment in admitted(scheduler)] == [1, 3, 4]


EVENTS = st.sampled_from(
    ["add", "admit", "admit", "admit", "release", "release", "cancel", "hold", "resume"]
)


@given(slots=st.integers(1, 5), script=st.lists(st.tuples(EVENTS, st.integers(0, 11)), max_size=80))
def test_in_any_order_slots_hold_one_image_and_none_is_passed_over(slots, script):
    """The number of an event chooses the client and size, the slot or the request."""
    scheduler = Scheduler(slots)
    clients = {}
    left = {}  # images without a slot of the requests that are not cancelled
    between_clients = FairTurns()
    between_requests = {client: FairTurns() for client in "abc"}
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
            held = sorted(
                slot for slot, one in scheduler.assigned.items() if one.request == request
            )
            assert sorted(scheduler.cancel(request)) == held
            del left[request]
        elif event == "hold" and having_turns:
            scheduler.hold(having_turns[number % len(having_turns)])
        elif event == "resume" and scheduler.on_hold:
            scheduler.resume(sorted(scheduler.on_hold)[number % len(scheduler.on_hold)])
        assert sorted([*scheduler.free, *scheduler.assigned]) == list(range(slots))
        wait = {one: list(images) for one, images in scheduler.waiting.items()}
        assert wait == {one: images for one, images in left.items() if images}
        having_turns = [one for one in left if left[one] and one not in scheduler.on_hold]
        assert sorted(scheduler.turns) == sorted(having_turns)
        between_clients.waiting({clients[one] for one in having_turns})
        for client, fair in between_requests.items():
            fair.waiting([one for one in having_turns if clients[one] == client])


def reclaimed(scheduler, painted):
    """Take slots for clients that have too few until all have enough."""
    scheduler.positions[:] = painted[: scheduler.slots]
    return list(scheduler.reclaim())


def test_a_client_without_slots_takes_its_share_from_the_one_that_holds_most_where_least_is_painted():
    scheduler = with_many(Scheduler(6), 6)
    scheduler.add(1, range(9), "one")
    moves = reclaimed(scheduler, [50, 10, 40, 20, 30, 60])
    assert [(victim.slot, assigned.slot) for victim, assigned in moves] == [(1, 1), (3, 3), (4, 4)]
    assert [assigned.index for _, assigned in moves] == [0, 1, 2]
    assert list(scheduler.waiting[0]) == [1, 3, 4], "the images that lost their slots wait again"
    assert scheduler.held == {"many": 3, "one": 3}


def test_no_slot_is_taken_for_a_client_that_has_its_share_or_has_none():
    for slots, clients in ((4, "ab"), (2, "abc")):
        scheduler = Scheduler(slots)
        for request, client in enumerate(clients):
            scheduler.add(request, range(9), client)
        admitted(scheduler)
        assert reclaimed(scheduler, [0, 0, 0, 0]) == []
        scheduler.release(0)
        assert reclaimed(scheduler, [0, 0, 0, 0]) == [], "a free slot comes first"


@given(
    slots=st.integers(1, 12),
    requests=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(1, 15)), min_size=1, max_size=8
    ),
    painted=st.lists(st.integers(0, 9), min_size=12, max_size=12),
)
def test_reclaiming_gives_clients_their_shares(slots, requests, painted):
    scheduler = Scheduler(slots)
    for request, (client, images) in enumerate(requests):
        scheduler.add(request, range(images), client)
        admitted(scheduler)
        share = slots // len(scheduler.held.keys() | scheduler.turns.clients.keys())
        within = {client for client, held in scheduler.held.items() if held <= share}
        assert within.isdisjoint(victim.client for victim, _ in reclaimed(scheduler, painted))
        assert all(scheduler.held[client] >= share for client in scheduler.turns.clients)
        assert scheduler.held == Counter(one.client for one in scheduler.assigned.values())
        images_of = Counter(one.request for one in scheduler.assigned.values())
        images_of.update({one: len(waiting) for one, waiting in scheduler.waiting.items()})
        assert images_of == {
            number: images for number, (_, images) in enumerate(requests[: request + 1])
        }


SLOTS = 16_384  # as many as a GPU's engine takes by itself
# for thousands of slots, on a busy machine; a search through all slots for each would take a minute
SECONDS = 2.0


def test_half_of_all_slots_are_taken_back_at_once_where_least_is_painted():
    scheduler = with_many(Scheduler(SLOTS), SLOTS, "first")
    scheduler.positions[:] = painted = np.random.default_rng(0).permutation(SLOTS)
    scheduler.add(1, range(SLOTS), "second")
    began = time.process_time()
    moves = list(scheduler.reclaim())
    assert time.process_time() - began < SECONDS
    assert [painted[victim.slot] for victim, _ in moves] == list(range(SLOTS // 2))
    assert scheduler.held == {"first": SLOTS // 2, "second": SLOTS // 2}
    assert scheduler.images_waiting == SLOTS


def test_thousands_of_requests_are_cancelled_one_by_one():
    scheduler = Scheduler(SLOTS)
    for request in range(SLOTS):
        scheduler.add(request, range(1), "one")
    admitted(scheduler)
    began = time.process_time()
    freed = [scheduler.cancel(request) for request in range(SLOTS)]
    assert time.process_time() - began < SECONDS
    assert sorted(slot for slots in freed for slot in slots) == list(range(SLOTS))
    assert not scheduler.assigned
    assert not scheduler.is_busy.any()


def test_all_particles_of_an_image_have_slots_or_none_the_lowest_free_ones_first():
    scheduler = scheduler_of(10, {0: 4})
    scheduler.add(0, range(3))
    assert [one.slots for one in admitted(scheduler)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    scheduler.release(4)
    assert [one.slots for one in admitted(scheduler)] == [(4, 5, 6, 7)]
    assert scheduler.free == [8, 9]


def test_slots_that_lie_apart_serve_one_image():
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


def test_slots_that_become_free_are_kept_for_the_image_whose_turn_it_is():
    scheduler = with_many(scheduler_of(4, {1: 4}), 1000)
    scheduler.add(1, range(1), "large")
    placed = []
    for slot in (0, 1, 2, 3, 0):
        scheduler.release(slot)
        placed += [one.request for one in admitted(scheduler)]
    assert placed == [0, 1], "the image whose turn it was first, and no other one"


def test_an_image_beyond_its_client_s_share_lets_others_go_first_and_comes_once_its_client_has_no_slots():
    scheduler = scheduler_of(8, {0: 6})
    scheduler.add(0, range(2), "large")
    scheduler.add(1, range(40), "small")
    assert [one.request for one in admitted(scheduler)] == [0, 1, 1]
    scheduler.release(6)
    assert [one.request for one in admitted(scheduler)] == [1], (
        "the second large image waits for the first"
    )
    scheduler.release(0)
    given = [one.request for one in admitted(scheduler)]
    order = deque(sorted(scheduler.assigned))
    while 0 not in given:
        scheduler.release(order.popleft())
        new = admitted(scheduler)
        given += [one.request for one in new]
        order += [one.slot for one in new]
        assert len(given) <= 8


def test_a_client_above_its_share_keeps_no_free_slots_though_its_turn_is_first():
    scheduler = with_many(scheduler_of(8, {0: 6}), 2)
    scheduler.add(1, range(40), "small")
    scheduler.turns.end_turn(1)
    assert scheduler.turns.next() == 0
    assert [one.request for one in admitted(scheduler)] == [1, 1]


def test_images_within_their_share_have_spare_slots_while_one_of_many_slots_waits_and_while_it_is_painted():
    scheduler = scheduler_of(8, {1: 8}, spare=2)
    scheduler.add(0, range(9), "small")
    assert [one.slot for one in admitted(scheduler)] == list(range(8)), (
        "no spare slot for a client alone"
    )
    scheduler.cancel(0)
    scheduler.add(0, range(1), "small")
    admitted(scheduler)
    scheduler.add(1, range(2), "large")
    scheduler.add(2, range(9), "small")
    assert [one.slots for one in admitted(scheduler)] == [(8,), (9,)]
    scheduler.release(0)
    assert [one.request for one in admitted(scheduler)] == [1], (
        "it has waited no longer than without the others"
    )
    scheduler.release(9)
    assert [one.slots for one in admitted(scheduler)] == [(9,)]
    assert list(scheduler.reclaim()) == []
    scheduler.cancel(1)
    assert [one.slot for one in admitted(scheduler)] == list(range(6))
    assert not scheduler.spare


def test_turns_count_slots():
    """Of two clients, one with images of four slots and one with images of one,
    each has half of all slots given.
    """
    scheduler = scheduler_of(4, {0: 4})
    scheduler.add(0, range(100), "large")
    scheduler.add(1, range(400), "small")
    given = Counter()
    for _ in range(100):
        for one in admitted(scheduler):
            given[one.request] += len(one.slots)
        for slot in list(scheduler.assigned):
            scheduler.release(slot)
    assert abs(given[0] - given[1]) <= 8, given


def test_whole_images_are_taken_back_where_least_is_painted_and_the_rest_of_their_slots_is_free():
    scheduler = with_many(scheduler_of(12, {0: 4}), 3)
    scheduler.add(1, range(1), "one")
    scheduler.positions[:] = np.repeat([20, 10, 30], 4)
    assert [(victim.slots, assigned.slots) for victim, assigned in scheduler.reclaim()] == [
        ((4, 5, 6, 7), (4,))
    ]
    assert sorted(scheduler.free) == [5, 6, 7]
    assert scheduler.held == {"many": 8, "one": 1}
    assert list(scheduler.waiting[0]) == [1]
    assert admitted(scheduler) == [], "it would have more than its share"


def test_several_images_are_taken_back_for_one_of_several_particles():
    scheduler = with_many(scheduler_of(8, {1: 4}), 8)
    scheduler.add(1, range(2), "one")
    scheduler.positions[:] = range(8)
    moves = list(scheduler.reclaim())
    assert [victim.slot for victim, _ in moves] == [0, 1, 2, 3]
    assert all(assigned is moves[0][1] for _, assigned in moves)
    assert moves[0][1].slots == (0, 1, 2, 3)
    assert scheduler.held == {"many": 4, "one": 4}


def test_a_client_s_only_image_is_never_taken_back():
    scheduler = with_many(scheduler_of(8, {0: 8}), 2)
    scheduler.add(1, range(9), "small")
    assert list(scheduler.reclaim()) == []


def test_the_slots_kept_for_a_large_image_are_not_taken_by_clients_below_their_share():
    scheduler = with_many(scheduler_of(8, {1: 8}), 100)
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
        st.tuples(st.sampled_from("abcd"), st.integers(1, 4), st.integers(1, 6)),
        min_size=1,
        max_size=9,
    ),
    data=st.data(),
)
def test_whatever_the_sizes_every_image_is_complete_in_the_end(slots, spare, requests, data):
    """Images end in the order in which they began; ever new images of one slot
    arrive of a client that never pauses.
    """
    scheduler = scheduler_of(
        slots, {number: size for number, (_, size, _) in enumerate(requests)}, spare
    )
    for number, (client, _, images) in enumerate(requests):
        scheduler.add(number, range(images), client)
    left = {number: set(range(images)) for number, (_, _, images) in enumerate(requests)}
    began = {}
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
        assert scheduler.held == Counter(
            one.client for one in scheduler.assigned.values() for _ in one.slots
        )
        assert sorted(scheduler.groups) == [
            slot for slot, one in sorted(scheduler.assigned.items()) if len(one.slots) > 1
        ]
        for slot in [
            slot for slot, then in began.items() if now - then >= data.draw(st.integers(2, 3))
        ]:
            one = scheduler.assigned[slot]
            scheduler.release(slot)
            del began[slot]
            left.get(one.request, set()).discard(one.index)
