"""Quarantine: the request that makes an engine crash is identified, and no other fails. No engine runs here."""

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from scanline.server.engine.local.quarantine import Quarantine, Verdict


def admitted(*requests: int) -> Quarantine:
    """A quarantine whose requests are all in the engine."""
    quarantine = Quarantine()
    for request in requests:
        quarantine.add(request)
    assert quarantine.admit() == list(requests)
    return quarantine


def crash(quarantine: Quarantine) -> tuple[Verdict, list[int]]:
    """The verdict of a crash, and the requests that the next engine gets."""
    return quarantine.died(), quarantine.admit()


def test_after_one_crash_all_are_admitted_again_and_after_two_one_half_and_then_the_other() -> None:
    quarantine = admitted(0, 1, 2, 3)
    assert crash(quarantine) == (Verdict(), [0, 1, 2, 3])
    assert crash(quarantine) == (Verdict(narrowed=True), [0, 1])
    quarantine.end(0)
    assert quarantine.admit() == []
    quarantine.end(1)
    assert quarantine.admit() == [2, 3]


def test_when_the_culprit_is_found_all_others_are_admitted() -> None:
    quarantine = admitted(0, 1, 2)
    crash(quarantine), crash(quarantine)
    quarantine.add(3)
    assert crash(quarantine) == (Verdict(culprit=0), [1, 2, 3])


def test_new_requests_wait_for_the_suspects() -> None:
    quarantine = admitted(0, 1)
    crash(quarantine), crash(quarantine)
    quarantine.add(2)
    assert quarantine.admit() == []
    for request in (0, 1):
        quarantine.end(request)
        going = quarantine.admit()
    assert going == [2]


def test_a_request_that_has_finished_an_image_is_no_suspect() -> None:
    quarantine = admitted(0)
    for _ in range(10):
        quarantine.finished(0)
        assert crash(quarantine) == (Verdict(), [0])


def test_a_request_that_came_between_two_crashes_is_no_suspect() -> None:
    quarantine = admitted(0)
    crash(quarantine)
    quarantine.add(1)
    quarantine.admit()
    assert crash(quarantine) == (Verdict(narrowed=True), [0])


def test_no_culprit_is_named_while_a_cancelled_request_may_still_be_in_the_engine() -> None:
    """It was cancelled, which the engine may not have received before it crashed."""
    quarantine = admitted(0, 1)
    crash(quarantine)
    quarantine.end(0, cancelled=True)
    assert crash(quarantine) == (Verdict(narrowed=True), [1])
    assert crash(quarantine) == (Verdict(culprit=1), [])


@given(requests=st.integers(1, 300), crashing=st.sets(st.integers(0, 299), max_size=3), data=st.data())
def test_exactly_the_culprits_are_found_in_few_crashes(requests: int, crashing: set[int], data: st.DataObject) -> None:
    """The engine crashes whenever it has a culprit, after any of the others have ended."""
    quarantine = Quarantine()
    for request in range(requests):
        quarantine.add(request)
    quarantine.admit()
    culprits, crashes = set(), 0
    while quarantine.inside:
        innocent = sorted(quarantine.inside.keys() - crashing)
        crashes_now = len(innocent) < len(quarantine.inside)
        some = data.draw(st.integers(0, len(innocent))) if crashes_now else len(innocent)
        for request in innocent[:some]:
            quarantine.end(request)
        if crashes_now:
            crashes += 1
            culprits |= {quarantine.died().culprit} - {None}
        quarantine.admit()
    assert culprits == {culprit for culprit in crashing if culprit < requests}
    assert (quarantine.waiting, quarantine.crashes) == (set(), {})
    assert crashes <= len(culprits) * (3 + ceil(log2(requests)))
