"""Jobs, and the room they take in the queue: what clients may hold, and when
a refused request may come again.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scanline.model.sampling.base.messages import (
    Failed,
    Finished,
    GenerateRequest,
    Pixels,
    Ready,
    Scored,
    ScoreRequest,
)
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.queue_limits import (
    AdmissionControl,
    QueueFullError,
    QueueLimits,
    QueueUsage,
    RateMeter,
)
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine.jobs import PaintJob, ScoreJob

SLOTS = 4
WAITING = 12
SHARE = 0.5
LENGTH = 35
MAX_UNREAD = 20 * LENGTH
# a hidden byte before known ones
KNOWN = (bytes(LENGTH),)
MASKS = (bytes([0] + [1] * (LENGTH - 1)),)
LIMITS = QueueLimits(WAITING, SHARE, MAX_UNREAD)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def measured(images_per_second, request_timeout=600.0, waiting=10_000):
    """A queue whose engine of 4 slots has been full for ten seconds, with the
    first client's 104 images in it.
    """
    clock = Clock()
    admission = AdmissionControl(
        QueueLimits(waiting, 1.0, request_timeout=request_timeout), RateMeter(clock)
    )
    painted = int(10 * images_per_second)
    first = admission.reserve(104 + painted, "first", SLOTS)
    clock.now += 10
    first.update(104, 0)
    return admission


def refusal(admission, images, client):
    with pytest.raises(QueueFullError) as caught:
        admission.reserve(images, client, SLOTS)
    return caught.value


def test_retry_after_is_the_time_that_the_waiting_images_take():
    assert refusal(measured(2.0, waiting=124), 30, "second").retry_after == 50
    assert refusal(measured(0.1, waiting=124), 30, "second").retry_after == 600
    assert refusal(measured(1000.0, waiting=20_000), 20_000, "second").retry_after == 1
    admission = AdmissionControl(QueueLimits(6))  # whose rate is not known
    admission.reserve(10, "first", SLOTS)
    assert refusal(admission, 3, "second").retry_after == 2


@pytest.mark.parametrize("clients", [2, 3, 5])
@pytest.mark.parametrize("images", [1, 7, 500])
def test_a_newcomer_has_room_however_many_have_taken_their_shares(clients, images):
    """Each asks for as much as it may have, in requests of so many images and then of one."""
    admission = AdmissionControl(QueueLimits(996, 0.5))
    names = list(map(str, range(clients)))
    for size in (images, 1):
        for name in names * (1000 // size):
            with suppress(QueueFullError):
                admission.reserve(size, name, SLOTS)
    for name in names:
        assert refusal(admission, 1, name).code == "client_queue_full"
    most = (1000 - admission.total.images) // 2
    assert most >= 1000 // 2 ** (clients + 1)
    assert refusal(admission, most + 1, "newcomer").code == "client_queue_full"
    admission.reserve(most, "newcomer", SLOTS)
    assert refusal(admission, 1, "newcomer").code == "client_queue_full"
    admission.reserve(1, "another", SLOTS)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_newcomer_has_one_image_beyond_a_queue_that_as_many_clients_as_it_has_room_for_do_not_fill(
    share,
):
    room = 8 + SLOTS
    admission = AdmissionControl(QueueLimits(8, share))
    admission.reserve(max(1, int(share * room)), "0", SLOTS)
    for name in map(str, range(1, room - 1)):
        with suppress(QueueFullError):
            for _ in range(room):
                admission.reserve(1, name, SLOTS)
    refusal(admission, 3, "guided")
    admission.reserve(2, "guided", SLOTS)
    assert len(admission.clients) == room
    assert room < admission.total.images <= 2 * room
    assert refusal(admission, 1, "newcomer").code == "queue_full"


def test_a_client_may_always_have_one_image_and_leave_the_share_of_unread_bytes_that_others_need():
    admission = AdmissionControl(QueueLimits(0, 0.1, max_unread_bytes=100))
    held = [admission.reserve(1, name, SLOTS) for name in "abcd"]
    assert refusal(admission, 1, "e").code == "queue_full"
    held[0].update(0, 6)
    admission.reserve(1, "a", SLOTS).release()
    held[1].update(0, 50)
    assert refusal(admission, 1, "a").code == "unread_answers"
    held[0].release()
    admission.reserve(1, "a", SLOTS)


def test_a_request_that_can_never_be_accepted_has_no_time_to_retry():
    error = refusal(AdmissionControl(LIMITS), 9, "first")
    assert (error.code, error.retry_after) == ("client_queue_full", None)
    with pytest.raises(QueueFullError, match="9 images, each particle counted as one"):
        AdmissionControl(LIMITS).reserve(2, "first", SLOTS).extend(
            7, ", each particle counted as one"
        )


def test_other_clients_delay_a_small_request_by_their_turns_and_not_by_all_of_their_images():
    admission = measured(1.0, request_timeout=30)
    assert admission.total.images > 30
    for client in "abcdefgh":
        admission.reserve(2, client, SLOTS)


def test_a_request_that_cannot_be_done_in_time_is_refused_and_a_smaller_one_is_not_nor_is_it_behind_itself():
    admission = measured(2.0, request_timeout=30)
    assert refusal(admission, 70, "second").code == "deadline_unreachable"
    admission.reserve(1, "second", SLOTS).extend(19, "")  # as with 20 images from the start
    with pytest.raises(QueueFullError) as caught:
        admission.reserve(1, "third", SLOTS).extend(69, "")
    assert caught.value.code == "deadline_unreachable"


def test_images_of_an_engine_with_free_slots_say_nothing_about_its_rate():
    clock = Clock()
    admission = AdmissionControl(QueueLimits(request_timeout=1.0), RateMeter(clock))
    for _ in range(20):
        reservation = admission.reserve(1, "first", SLOTS)
        clock.now += 1
        reservation.update(0, LENGTH)
        reservation.release()
    admission.reserve(10_000, "first", SLOTS)


def test_what_was_painted_more_than_a_minute_ago_is_forgotten():
    clock = Clock()
    meter = RateMeter(clock)
    meter.update(0, is_full=True)
    clock.now += 10
    meter.update(50, is_full=False)
    assert meter.images_per_second() == 5
    clock.now += 70
    assert meter.images_per_second() is None


@settings(stateful_step_count=40)
class Queue(RuleBasedStateMachine):
    """Requests of three clients that come, are painted, fail, are
    answered or abandoned in any order.
    """

    jobs = Bundle("jobs")

    def __init__(self):
        super().__init__()
        self.admission = AdmissionControl(LIMITS)
        self.live = []

    def fits(self, more, client):
        """Whether a client may have so many more images: half of what
        the others leave, and at least one.
        """
        total = self.admission.total.images
        own = self.admission.clients.get(client, QueueUsage()).images
        left = SLOTS + WAITING - (total - own)
        return own + more <= max(1, SHARE * left) and own + more <= left

    @rule(
        target=jobs,
        images=st.integers(1, 10),
        client=st.sampled_from("abc"),
        particles=st.integers(1, 3),
    )
    def reserve(self, images, client, particles):
        total = self.admission.total
        own = self.admission.clients.get(client, QueueUsage())
        unread = MAX_UNREAD - (total.unread_bytes - own.unread_bytes)
        may_unread = not own.unread_bytes or own.unread_bytes <= SHARE * unread
        if not self.fits(images, client) or not may_unread or total.unread_bytes > MAX_UNREAD:
            assert refusal(self.admission, images, client).code != "deadline_unreachable"
            return None
        reservation = self.admission.reserve(images, client, SLOTS)
        more = images * (particles - 1)  # the client has the images by now
        if self.fits(more, client):
            reservation.extend(more, "")
        else:
            with pytest.raises(QueueFullError):
                reservation.extend(more, "")
            particles = 1
        job = PaintJob(
            GenerateRequest(0, images, 0, KNOWN, MASKS, particles=particles, client=client)
        )
        job.reservation = reservation
        self.live.append((job, reservation))
        return job, reservation

    @rule(entry=jobs, index=st.integers(0, 9))
    def paint(self, entry, index):
        """An image is finished, perhaps a second time after a restart, or
        although its request has failed.
        """
        if entry and index < entry[0].total:
            entry[0].receive(Finished(0, index, bytes(LENGTH), 1.0))

    @rule(entry=jobs)
    def fail(self, entry):
        if entry and not entry[0].has_ended:
            entry[0].receive(Failed(0, "It broke."))

    @rule(entry=consumes(jobs))
    def leave(self, entry):
        if entry:
            entry[1].release()
            entry[1].release()
            self.live.remove(entry)
            entry[0].receive(Finished(0, 0, bytes(LENGTH), 1.0))

    @invariant()
    def room_is_what_live_requests_hold(self):
        expected = {}
        for job, reservation in self.live:
            left = 0 if job.failure else job.slots_left
            usage = expected.setdefault(reservation.client, QueueUsage())
            usage.add(1, left, (job.total - job.images_left) * LENGTH)
        assert self.admission.clients == expected
        total = QueueUsage()
        for usage in expected.values():
            assert usage.images <= SHARE * (SLOTS + WAITING)
            total.add(usage.requests, usage.images, usage.unread_bytes)
        assert self.admission.total == total
        assert total.images <= SLOTS + WAITING

    def teardown(self):
        for _, reservation in self.live:
            reservation.release()
        assert (self.admission.total, self.admission.clients) == (QueueUsage(), {})


TestQueue = Queue.TestCase


IMAGE = bytes(range(100, 135))


async def changes(job):
    """How often a job that receives nothing more changes."""
    return len([None async for _ in job.changes()])


def test_an_image_that_is_done_stays_as_it_is():
    job = PaintJob(GenerateRequest(0, 2, seed=0))
    for image in (IMAGE, IMAGE[::-1]):
        job.receive(Finished(0, 1, image, 2.5))
    assert (job.missing, job.task.images[1].tobytes(), job.task.ended) == ({0}, IMAGE, 1)


async def test_it_changes_with_each_event_and_a_last_time_at_its_end():
    job = PaintJob(GenerateRequest(0, 1, seed=0))
    seen = []
    job.receive(Pixels(0, [(0, 0, IMAGE[:10])]))
    async for _ in job.changes():
        seen += [data for _, _, data in job.task.take().frames]
        if job.images_left:
            job.receive(Finished(0, 0, IMAGE, 2.5))
    assert seen == [IMAGE[:10], IMAGE[10:]]
    job = PaintJob(GenerateRequest(0, 1, seed=0))
    job.receive(Finished(0, 0, IMAGE, 2.5))
    assert await changes(job) == 1


async def test_a_failure_ends_the_changes_and_the_wait():
    job = PaintJob(GenerateRequest(0, 1, seed=0))
    job.receive(Failed(0, "It broke."))
    for ended in (changes(job), job.wait()):
        with pytest.raises(EngineFailedError, match="It broke"):
            await ended


def test_it_counts_the_slots_of_its_images_until_they_are_done():
    # nothing known follows the first
    holes = bytes([1] * 7 + [0] * 28), bytes([1] * 7 + [0] * 7 + [1] * 21)
    for request, finished, slots in (
        (
            GenerateRequest(0, 4, 7, (IMAGE, IMAGE), holes, particles=6),
            (0, 2, 2, 3, 1),
            [14, 13, 7, 7, 1, 0],
        ),
        (GenerateRequest(0, 3, 7, label=1, guidance=2.0), (2, 2, 0, 1), [6, 4, 4, 2, 0]),
    ):
        job = PaintJob(request)
        left = [job.slots_left]
        for index in finished:
            job.receive(
                Finished(0, index, IMAGE, 2.5, evidence_bits=80.5, effective_particles=3.25)
            )
            left.append(job.slots_left)
        assert left == slots


def test_it_holds_what_its_task_holds():
    job = ScoreJob(ScoreRequest(0, (IMAGE,) * 2, labels=(1, 2)))
    job.receive(Scored(0, 1, bytes(8 * 35)))
    assert (job.held_bytes, job.slots_left, job.has_ended) == (280, 1, False)


def test_a_job_that_is_done_and_not_read_keeps_no_engine():
    engine = EngineClient(EngineOptions(Path("nowhere")), QueueLimits(max_waiting_images=6))
    engine.ready = Ready(parameters=1, slots=4, device="cpu", state_bytes=1, backend="none")
    job = PaintJob(GenerateRequest(0, 1, seed=0, snapshot=(0, 0)))
    with engine.reserve(1) as reservation, engine.run(job, reservation):
        assert not engine.unused.is_set()
        assert engine.watching.total() == 1
        job.receive(Failed(0, "It broke."))
        assert engine.unused.is_set()
        assert engine.watching.total() == 0
    assert (engine.users, engine.jobs, engine.reserved_images) == (0, {}, 0)
