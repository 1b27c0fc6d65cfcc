"""The statistics of an engine: every byte is counted once, however its request
ends; and equal shares of its time.
"""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.histogram import Histogram
from scanline.model.sampling.base.messages import (
    Cancel,
    GenerateRequest,
    Scored,
    ScoreRequest,
    Stats,
)
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.stats.tick_length import TICK_SECONDS
from scanline.model.sampling.stats.time_shares import TimeShares
from tests.support.engine.engine_ticks import of_kind, run_until_idle

KNOWN = bytes(range(35))
TOP = bytes(i < 12 for i in range(35))


def work(stats):
    """Requests that run and wait, images that run and wait."""
    return (
        stats.requests_running,
        stats.requests_waiting,
        stats.images_running,
        stats.images_waiting,
    )


def test_accepted_requests_wait_until_the_next_tick_puts_images_into_slots(engine):
    first = engine.stats()
    for request in range(6):
        engine.accept(GenerateRequest(request, 2, seed=0))
    assert work(engine.stats()) == (0, 6, 0, 12)
    engine.tick()
    assert work(engine.stats()) == (5, 1, 5, 7)
    engine.accept(ScoreRequest(6, (KNOWN, KNOWN)))
    assert work(engine.stats()) == (5, 2, 5, 9)
    assert first == Stats(), "stats are not a copy"


def test_at_the_end_nothing_is_running_or_kept_and_every_byte_was_counted_once(
    engine,
):
    completion = GenerateRequest(1, 3, seed=0, known=(KNOWN,), masks=(TOP,))
    run_until_idle(engine, GenerateRequest(0, 12, seed=0), completion, ScoreRequest(2, (KNOWN,)))
    stats = engine.stats()
    assert work(stats) == (0, 0, 0, 0)
    assert (stats.painted_bytes, stats.known_bytes) == (12 * 35 + 3 * 23, 3 * 12)
    assert not engine.recorder.unpainted


def test_only_the_painted_bytes_of_a_cancelled_image_are_counted(engine):
    engine.step_seconds = 1.0  # long steps: one a tick
    engine.accept(GenerateRequest(0, 2, seed=0))
    engine.tick()
    engine.accept(Cancel(0))
    engine.tick()
    assert engine.stats().painted_bytes == 2 * int(engine.stats().steps)


def test_a_client_pays_for_its_reads_in_its_turns(grey):
    """Both have two of four slots, and so pay the same for steps."""
    engine = Engine(Generator(grey, 4))
    engine.accept(GenerateRequest(0, 100, seed=0, client="reads"))
    engine.accept(GenerateRequest(1, 100, seed=0, client="paints"))
    engine.tick()
    engine.accept(ScoreRequest(2, (KNOWN,), client="reads"))
    events = engine.tick()
    while not of_kind(events, Scored):
        events = engine.tick()
    used = engine.time_shares.used
    assert used["reads"] > used["paints"]


def test_stats_tell_what_is_scored_and_what_waits_to_be(engine):
    engine.prefills.step_seconds = 1.0
    engine.accept(GenerateRequest(0, 2, seed=0))
    engine.accept(ScoreRequest(1, (KNOWN,) * 6))
    engine.accept(ScoreRequest(2, (KNOWN,) * 2))
    waiting = engine.stats()
    assert work(waiting) == (0, 3, 0, 10)
    assert (waiting.images_waiting, waiting.scores_running) == (10, 0)
    engine.prefills.batch = batch = engine.prefills._next_batch()
    running = engine.stats()
    assert (running.scores_running, running.images_waiting) == (len(batch), 10 - len(batch))
    assert running.requests_running == len({prefill.request for prefill in batch})


def test_values_fall_under_the_bound_that_they_do_not_exceed():
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 2, 3):
        histogram.add(value, times=2)
    assert (histogram.counts, histogram.sum) == ([4, 2, 2], 13)


# seconds of a step, and of each of its images
FIXED = 10e-6
EACH = 5e-6
STEPS = 32
IMAGE_STEPS = 196
clients = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 1000), min_size=1)


def run(shares, images, seconds):
    """Step for so long; the time of each client's steps, and the longest turn."""
    used = Counter()
    longest = passed = 0.0
    while passed < seconds:
        stepped = {client: images[client] for client in shares.next(images)}
        turn = STEPS * (FIXED + EACH * sum(stepped.values()))
        shares.spent(turn, stepped)
        for client, count in stepped.items():
            used[client] += turn * count / sum(stepped.values())
        longest = max(longest, turn)
        passed = passed + turn
    return used, longest


def test_clients_with_as_many_images_step_together():
    shares = TimeShares()
    images = {"a": 5, "b": 5, "c": 5}
    for _ in range(1000):
        assert shares.next(images) == {"a", "b", "c"}
        shares.spent(0.0123, images)


def test_a_client_pays_for_its_reads_with_its_steps():
    shares = TimeShares()
    images = {"reads": 4, "paints": 4}
    stepped = Counter()
    for _ in range(1000):
        chosen = shares.next(images)
        shares.spent(0.01, {client: images[client] for client in chosen})
        stepped.update({client: 0.01 / len(chosen) for client in chosen})
        shares.charge({"reads": 0.002, "has nothing in flight": 0.002})
    assert stepped["paints"] - stepped["reads"] == pytest.approx(1000 * 0.002, abs=0.03)


def test_clients_of_about_as_many_images_do_not_take_turns():
    """With no overdraft half of them would step in every other turn, which a
    GPU's batches are too small for.
    """
    shares = TimeShares(0.05)
    images = {f"client {i}": 200 + 10 * (i % 7) for i in range(16)}
    share = []
    for _ in range(500):
        stepped = {client: images[client] for client in shares.next(images)}
        shares.spent(0.01, stepped)
        share.append(sum(stepped.values()) / sum(images.values()))
    assert sum(share) / len(share) > 0.9


@given(clients)
@example({"many": 1000, "few": 4})
def test_every_client_has_its_share(images):
    used, longest = run(TimeShares(), images, 10)
    total = sum(used.values())
    for client in images:
        assert used[client] == pytest.approx(total / len(images), abs=2 * longest)


@given(st.lists(st.tuples(clients, st.floats(0, 1)), min_size=1, max_size=30))
def test_a_client_always_steps_and_the_virtual_time_never_falls(
    turns,
):
    shares = TimeShares()
    for images, seconds in turns:
        chosen = shares.next(images)
        before = shares.now
        assert chosen
        assert chosen <= images.keys()
        shares.spent(seconds, {client: images[client] for client in chosen})
        assert shares.now >= before
        assert shares.now >= sum(shares.used.values()) / len(images) - 1e-9


def test_a_client_that_leaves_and_returns_has_its_debt_and_pays_it_off_meanwhile():
    shares = TimeShares()
    both = {"a": 100, "b": 1}
    alone = {"b": 1}
    shares.next(both)
    shares.spent(1.0, both)
    assert shares.next(alone) == {"b"}
    assert shares.next(both) == {"b"}, "its images cost more than its share"
    shares.next(alone)
    shares.spent(1.1, alone)
    assert "a" in shares.next(both)
    assert not shares.away


def test_an_image_that_comes_goes_first_and_many_do_not():
    for images, first in ((1, {"new"}), (100, {"new", "alone"})):
        shares = TimeShares(0.05)
        shares.next({"alone": 1})
        shares.spent(1.0, {"alone": 1})
        assert shares.next({"alone": 1, "new": images}) == first


def seconds_of_an_image(beside, pause):
    """The mean of a client's images, one after the other with a pause between, beside a client with
    so many images in flight all the time; by time shares and the length of a tick alone."""
    shares = TimeShares(2 * TICK_SECONDS)
    passed = 0.0
    left = 0
    due = 1.0
    took = []
    while len(took) < 40:
        if not left and passed >= due:
            left = IMAGE_STEPS
            began = due
        images = {"many": beside} if beside else {}
        images |= {"one": 1} if left else {}
        if not images:
            passed = due
            continue
        stepped = {client: images[client] for client in shares.next(images)}
        # 64 images in a batch take a tenth as long each as one
        step = 20 * FIXED + 5 * EACH * sum(stepped.values())
        steps = max(
            1, min(int(TICK_SECONDS / step), left if set(stepped) == {"one"} else IMAGE_STEPS)
        )
        shares.spent(steps * step, stepped)
        passed += steps * step
        if "one" in stepped:
            left = max(0, left - steps)
            if not left:
                took.append(passed - began)
                due = passed + pause
    return sum(took) / len(took)


@pytest.mark.parametrize(("pause", "times"), [(0.005, 2.0), (1.0, 1.5)])
@pytest.mark.parametrize("beside", [64, 1000])
def test_an_image_beside_a_flood_takes_twice_as_long_at_most(beside, pause, times):
    """A client's own part of the time is half of it; the other one's starts at
    its limit, and has no free tick.
    """
    assert seconds_of_an_image(beside, pause) < times * seconds_of_an_image(0, pause)
