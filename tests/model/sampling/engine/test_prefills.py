"""Prefills of known bytes: their share of the time, their turns, batches and
pieces, on which no bit depends.
"""

import itertools
from collections import Counter
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.pending import Pending
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Cancel,
    Failed,
    Finished,
    GenerateRequest,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.prefill.queue import PASS_SECONDS, SHARE, PrefillQueue
from scanline.model.sampling.prefill.request import PrefillRequest
from scanline.model.sampling.stats.tick_length import TICK_SECONDS
from tests.support import small_models
from tests.support.engine.engine_ticks import ended, images_of, of_kind, run_until_idle
from tests.support.engine.queued_generator import QueuedGenerator
from tests.support.sweeps import and_slow

IMAGES = small_models.images(small_models.GREY, 6)
PICTURES = tuple(image.tobytes() for image in IMAGES)
LARGE = small_models.config(height=12, width=10)  # more steps than a piece
PAINTED = 0.03  # seconds of painting in a tick


@pytest.fixture
def generator(grey):
    return Generator(grey, 4, threads=2)


class Clock:
    """Seconds that pass only while a generator prefills, which takes so many of
    a pass, and of each of its bytes.
    """

    def __init__(self, generator, of_a_pass, of_a_byte=0.0):
        self.seconds = 0.0
        self.of_a_pass = of_a_pass
        self.of_a_byte = of_a_byte
        generator.run_prefill = self.read

    def __call__(self):
        return self.seconds

    def read(self, prefill, steps=None):
        took = self.of_a_pass + self.of_a_byte * (prefill.stop - prefill.position)
        self.seconds = self.seconds + took
        prefill.position = prefill.stop
        return Pending.ended(took)


def scores(request, count):
    return [PrefillRequest(request, index, PICTURES[index % 6], 35, True) for index in range(count)]


def order(prefills, count):
    """The requests and indices of the next reads that end, batch by batch."""
    ended = []
    while len(ended) < count:
        ended += [(done.prefill.request, done.prefill.index) for done in prefills.run(None, 0.0)]
    return ended


@pytest.mark.parametrize("variant", and_slow(small_models.CORE, *small_models.REST))
@pytest.mark.parametrize(
    ("backend", "steps"), and_slow([("cpu", 1), ("cpu", 42), ("eager", 7)], ("cpu", 7))
)
def test_bits_and_states_do_not_depend_on_pieces_or_batches(variant, backend, steps):
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("needs the compiled library")
    config = small_models.config_of(variant)
    images = small_models.images(config, 3)
    generator = Generator(small_models.model(config), 1, threads=2, backend=backend)
    stop = config.bytes - 2 * config.step_bytes
    prefill = generator.start_prefill(images, [stop] * 3)
    while not prefill.done:
        generator.run_prefill(prefill, steps)
    for row, image in enumerate(images):
        whole = generator.start_prefill(image[None], [stop])
        generator.run_prefill(whole)
        assert_array_equal(prefill.bits[row], whole.bits[0])
        spec = ImageSpec(0, 0, known=image, mask=np.arange(config.bytes) < stop)
        alone = generator.prefill(spec)
        together = prefill.prefix(row)
        assert together.bits == alone.bits
        for name, tensor in vars(alone.state).items():
            assert_array_equal(vars(together.state)[name].numpy(), tensor.numpy())


def test_while_images_are_painted_reads_have_their_share_of_the_time_and_no_more(
    generator,
):
    prefills = PrefillQueue(generator, clock := Clock(generator, 0.002))
    prefills.add(0, "a", scores(0, 100_000))
    for _ in range(30):
        prefills.run(PAINTED, TICK_SECONDS)
    assert prefills.left[0] > 0
    assert clock.seconds == pytest.approx(30 * PAINTED * SHARE / (1 - SHARE), abs=PASS_SECONDS)


def test_reads_of_one_client_have_one_clients_share_of_the_time(generator):
    prefills = PrefillQueue(generator, Clock(generator, 0.002))
    prefills.add(0, "a", scores(0, 100_000))
    painting = {f"client {number}" for number in range(15)}
    spent = 0.0
    for _ in range(100):
        prefills.run(PAINTED, TICK_SECONDS, painting)
        assert set(prefills.spent) <= {"a"}
        spent += sum(prefills.spent.values())
    due = 100 * PAINTED / len(painting)
    assert spent == pytest.approx(due, abs=2 * PASS_SECONDS + 2 * prefills.pass_seconds)


def test_a_long_time_of_painting_without_reads_is_no_credit_for_a_long_pause(
    generator,
):
    prefills = PrefillQueue(generator)
    for _ in range(1000):
        prefills.run(PAINTED, TICK_SECONDS)
    prefills.run(PAINTED, TICK_SECONDS)
    assert prefills.credit <= PASS_SECONDS + PAINTED * SHARE / (1 - SHARE)


def test_a_pass_that_took_longer_than_its_share_is_paid_back_before_the_next_one(
    generator,
):
    generator.backend.prefill_images = 1
    prefills = PrefillQueue(generator, Clock(generator, 0.1))
    prefills.add(0, "a", scores(0, 100))
    ended = [len(prefills.run(PAINTED, TICK_SECONDS)) for _ in range(11)]
    assert sum(ended) <= 2, "110 ms are due, and a pass takes at least 100"
    assert ended[0] == 1, "the first one has not to be waited for"
    assert len(prefills.run(None, 0.05)) == 1, "while nothing is painted nothing is owed"


def test_a_pass_reads_as_many_steps_as_fit_into_its_time():
    generator = Generator(small_models.model(LARGE), 1, threads=1)
    if not generator.backend.prefills_in_chunks:
        pytest.skip("the backend reads whole images")
    image = small_models.images(LARGE, 1)[0].tobytes()
    generator.backend.prefill_images = 2
    for step_seconds, images, first in (
        (1.0, 1, 1),
        (PASS_SECONDS / 200, 1, 4),
        (PASS_SECONDS / 200, 2, 2),
    ):
        prefills = PrefillQueue(generator)
        prefills.step_seconds = step_seconds
        prefills.add(
            0, "a", [PrefillRequest(0, index, image, LARGE.bytes, True) for index in range(images)]
        )
        with mock.patch.object(generator, "run_prefill", wraps=generator.run_prefill) as run:
            order(prefills, images)
        assert run.call_args_list[0].args[1] == first * generator.backend.prefill_steps


def test_two_clients_have_turns_in_turn_and_then_the_requests_of_each(generator):
    generator.backend.prefill_images = 1
    prefills = PrefillQueue(generator, itertools.count().__next__)  # every read takes as long
    prefills.add(0, "a", scores(0, 3))
    prefills.add(1, "a", scores(1, 2))
    prefills.add(2, "b", scores(2, 4))
    assert order(prefills, 9) == [
        (0, 0),
        (2, 0),
        (1, 0),
        (2, 1),
        (0, 1),
        (2, 2),
        (1, 1),
        (2, 3),
        (0, 2),
    ]
    assert prefills.idle


def test_a_client_with_long_reads_has_no_more_time_than_one_with_short_ones():
    generator = Generator(small_models.model(LARGE), 1, threads=1)
    generator.backend.prefill_images = 1
    prefills = PrefillQueue(generator, Clock(generator, 0, 0.0001))
    image = small_models.images(LARGE, 1)[0].tobytes()
    prefills.add(
        0, "long", [PrefillRequest(0, index, image, LARGE.bytes, True) for index in range(10_000)]
    )
    prefills.add(1, "short", [PrefillRequest(1, index, image, 12, True) for index in range(10_000)])
    spent = Counter()
    for _ in range(400):
        prefills.run(PAINTED, TICK_SECONDS)
        spent.update(prefills.spent)
    longest = 0.0001 * LARGE.bytes
    assert spent["long"] == pytest.approx(spent["short"], abs=2 * (PASS_SECONDS + longest))
    assert spent["long"] > 1.5


def test_several_images_are_read_in_one_pass_each_with_its_own_length_and_bits(
    generator,
):
    generator.backend.prefill_images = 4
    prefills = PrefillQueue(generator)
    prefills.add(0, "a", scores(0, 3))
    prefills.add(
        1, "b", [PrefillRequest(1, index, PICTURES[index], 20, False) for index in range(2)]
    )
    prefills.add(2, "b", scores(2, 1))
    batches = []
    bits = {}
    while not prefills.idle:
        ended = prefills.run(None, 0.0)
        batches.append([(done.prefill.request, done.prefill.index) for done in ended])
        for done in ended:
            bits[done.prefill.request, done.prefill.index] = done.state.bits_of(done.row).tolist()
    whole = generator.score(IMAGES)
    lengths = {0: 35, 1: 20, 2: 35}
    assert bits == {
        (request, index): whole[index, : lengths[request]].tolist() for request, index in bits
    }
    assert [batch for batch in batches if batch] == [
        [(0, 0), (1, 0), (0, 1), (2, 0)],
        [(0, 2), (1, 1)],
    ]


def test_of_a_batch_that_fails_only_the_request_at_fault_fails_once_with_one_sentence(
    generator,
):
    generator.backend.prefill_images = 3
    engine = Engine(generator)
    wrong = ScoreRequest(1, (b"short", b"too", *PICTURES), client="b")
    events = run_until_idle(engine, ScoreRequest(0, PICTURES, client="a"), wrong)
    sentence = "The engine failed while it worked on this request; its log says why."
    assert of_kind(events, Failed) == [Failed(1, sentence)]
    found = {event.index: event.bits for event in of_kind(events, Scored) if event.request == 0}
    assert found == {index: bits.tobytes() for index, bits in enumerate(generator.score(IMAGES))}
    assert engine.prefills.idle


def test_passes_of_requests_that_were_dropped_meanwhile_are_waited_for(grey):
    """A device's pass holds states: an engine that was idle before its end
    kept them until it had work again.
    """
    prefills = PrefillQueue(QueuedGenerator(grey, 4, threads=1))
    prefills.add(1, "client", scores(1, 1))
    prefills.run(1.0, 0.0)  # as much is painted meanwhile, so that the pass is not waited for
    assert prefills.passes
    prefills.drop(1)
    assert not prefills.idle
    assert prefills.run(None, 0.0) == []
    assert prefills.idle


def test_later_pictures_of_a_request_are_read_with_its_next_one(grey):
    masks = [(np.arange(35) < 10 + picture).tobytes() for picture in range(6)]
    masks[2] = (np.arange(35) >= 30).tobytes()  # has no prefix
    whole = GenerateRequest(0, 12, seed=3, known=PICTURES, masks=tuple(masks))
    for request, batches in ((whole, [4, 1]), (whole.shard((0, 1, 8, 9, 11)), [3])):
        painted = []
        for at_once, expected in ((4, batches), (1, [1] * sum(batches))):
            generator = Generator(grey, 32, threads=2)
            generator.backend.prefill_images = at_once
            engine = Engine(generator)
            with mock.patch.object(
                generator, "start_prefill", wraps=generator.start_prefill
            ) as start:
                events = run_until_idle(engine, request)
            painted.append(images_of(events))
            assert [len(call.args[0]) for call in start.call_args_list] == expected
            assert engine.admission.prefixes.used == 0
        assert painted[0] == painted[1]


def test_waiting_pictures_are_looked_at_again_only_where_something_has_changed(
    grey,
):
    generator = Generator(grey, 32, threads=2)
    generator.backend.prefill_images = 4
    engine = Engine(generator)
    mask = (np.arange(35) < 10).tobytes()
    for number in (0, 1):
        engine.accept(GenerateRequest(number, 120, seed=3, known=PICTURES, masks=(mask,) * 6))

    def looks():
        with mock.patch.object(
            engine.scheduler, "next_indices", wraps=engine.scheduler.next_indices
        ) as asked:
            engine.admission.queue_prefixes([], engine._fail)
        return asked.call_count

    while not engine.scheduler.assigned:
        engine.tick()
    while looks():
        pass
    assert engine.admission.prefixes.held
    assert looks() == 0
    engine.accept(Cancel(0))
    assert looks() == 1  # its room is free
    events = run_until_idle(engine)
    assert len(ended(events, Finished)) > 80
    assert engine.admission.looked_at == {}


def test_where_images_are_read_whole_a_pass_has_as_many_as_fit_into_its_time(
    generator,
):
    generator.backend.prefill_images = 64
    generator.backend.prefills_in_chunks = False
    prefills = PrefillQueue(generator)
    prefills.add(0, "a", scores(0, 200))
    assert len(prefills._next_batch()) == 64
    for share, images in ((3.5, 3), (0.5, 1), (1000.0, 64)):
        prefills.image_seconds = PASS_SECONDS / share
        assert len(prefills._next_batch()) == images


def test_a_client_in_debt_is_read_while_all_that_others_asked_for_has_begun(
    generator,
):
    generator.backend.prefill_images = 1
    prefills = PrefillQueue(generator)
    prefills.add(0, "a", scores(0, 1))
    prefills.add(1, "b", scores(1, 1))
    assert [prefill.request for prefill in prefills._next_batch()] == [0]
    prefills.time_shares.used = {"a": 0.0, "b": 1.0}
    assert [prefill.request for prefill in prefills._next_batch()] == [1]
