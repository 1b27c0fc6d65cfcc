"""Who is to blame when an engine dies, without an engine: the culprit is found, and nobody else."""

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from scanline.server.engine.client.quarantine import Quarantine, Verdict


def inside(*requests: int) -> Quarantine:
    """These requests are in the engine."""
    quarantine = Quarantine()
    for request in requests:
        quarantine.add(request)
    assert quarantine.admit() == list(requests)
    return quarantine


def die(quarantine: Quarantine) -> tuple[Verdict, list[int]]:
    """What a death teaches, and who goes into the next engine."""
    return quarantine.died(), quarantine.admit()


def test_after_one_death_all_go_in_again_together() -> None:
    assert die(inside(0, 1, 2, 3)) == (Verdict(), [0, 1, 2, 3])


def test_after_two_deaths_half_of_them_go_in() -> None:
    quarantine = inside(0, 1, 2, 3)
    die(quarantine)
    assert die(quarantine) == (Verdict(narrowed=True), [0, 1])


def test_the_others_go_in_when_the_first_half_is_done() -> None:
    quarantine = inside(0, 1, 2, 3)
    die(quarantine), die(quarantine)
    quarantine.end(0)
    assert quarantine.admit() == []
    quarantine.end(1)
    assert quarantine.admit() == [2, 3]


def test_who_dies_alone_twice_is_the_culprit() -> None:
    quarantine = inside(0)
    assert die(quarantine) == (Verdict(), [0])
    assert die(quarantine) == (Verdict(culprit=0), [])


def test_when_the_culprit_is_found_all_others_go_in() -> None:
    quarantine = inside(0, 1, 2)
    die(quarantine), die(quarantine)
    quarantine.add(3)
    assert die(quarantine) == (Verdict(culprit=0), [1, 2, 3])


def test_new_requests_wait_for_the_suspects() -> None:
    quarantine = inside(0, 1)
    die(quarantine), die(quarantine)
    quarantine.add(2)
    assert quarantine.admit() == []
    for request in (0, 1):
        quarantine.end(request)
        going = quarantine.admit()
    assert going == [2]


def test_who_has_finished_an_image_is_no_suspect() -> None:
    quarantine = inside(0)
    for _ in range(10):
        quarantine.finished(0)
        assert die(quarantine) == (Verdict(), [0])


def test_who_came_between_two_deaths_is_no_suspect() -> None:
    quarantine = inside(0)
    die(quarantine)
    quarantine.add(1)
    quarantine.admit()
    assert die(quarantine) == (Verdict(narrowed=True), [0])


def test_nobody_is_blamed_beside_one_who_may_still_be_in_work() -> None:
    """It was cancelled, which the engine may not have heard of when it died."""
    quarantine = inside(0, 1)
    die(quarantine)
    quarantine.end(0, cancelled=True)
    assert die(quarantine) == (Verdict(narrowed=True), [1])
    assert die(quarantine) == (Verdict(culprit=1), [])


def test_a_death_of_an_idle_engine_teaches_nothing() -> None:
    assert die(Quarantine()) == (Verdict(), [])


@given(requests=st.integers(1, 300), poisons=st.sets(st.integers(0, 299), max_size=3), data=st.data())
def test_all_culprits_and_nobody_else_are_found_in_few_deaths(
    requests: int, poisons: set[int], data: st.DataObject
) -> None:
    """The engine dies whenever a culprit is inside, after any of the others have ended."""
    quarantine = Quarantine()
    for request in range(requests):
        quarantine.add(request)
    quarantine.admit()
    culprits, deaths = set(), 0
    while quarantine.inside:
        innocent = sorted(quarantine.inside.keys() - poisons)
        deadly = len(innocent) < len(quarantine.inside)
        some = data.draw(st.integers(0, len(innocent))) if deadly else len(innocent)
        for request in innocent[:some]:
            quarantine.end(request)
        if deadly:
            deaths += 1
            culprits |= {quarantine.died().culprit} - {None}
        quarantine.admit()
    assert culprits == {poison for poison in poisons if poison < requests}
    assert (quarantine.waiting, quarantine.crashes) == (set(), {})
    assert deaths <= len(culprits) * (3 + ceil(log2(requests)))
