"""Room in the queue: what each client and all together may hold, and when a refused request may come again."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scanline.model.sampling.messages import Failed, Finished, GenerateRequest
from scanline.server.engine.queue_limits import AdmissionControl, QueueFullError, QueueLimits, QueueUsage, Reservation
from scanline.server.engine.rate_meter import RateMeter
from tests.support.engine.jobs import PaintJob

SLOTS, WAITING, SHARE, LENGTH = 4, 12, 0.5, 35
MAX_UNREAD = 20 * LENGTH
KNOWN, MASKS = (bytes(LENGTH),), (bytes([0] + [1] * (LENGTH - 1)),)  # a hidden byte before known ones
LIMITS = QueueLimits(WAITING, SHARE, MAX_UNREAD)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def measured(images_per_second: float, request_timeout: float = 600.0, waiting: float = 10_000) -> AdmissionControl:
    """A queue whose engine of 4 slots has been full for ten seconds, with the first client's 104 images in it."""
    clock = Clock()
    admission = AdmissionControl(QueueLimits(waiting, 1.0, request_timeout=request_timeout), RateMeter(clock))
    painted = int(10 * images_per_second)
    first = admission.reserve(104 + painted, "first", SLOTS)
    clock.now += 10
    first.update(104, 0)
    return admission


def refusal(admission: AdmissionControl, images: int, client: str) -> QueueFullError:
    with pytest.raises(QueueFullError) as caught:
        admission.reserve(images, client, SLOTS)
    return caught.value


def test_retry_after_is_the_time_that_the_waiting_images_take() -> None:
    assert refusal(measured(2.0, waiting=124), 30, "second").retry_after == 50
    assert refusal(measured(0.1, waiting=124), 30, "second").retry_after == 600
    assert refusal(measured(1000.0, waiting=20_000), 20_000, "second").retry_after == 1


def test_retry_after_is_short_where_the_rate_is_unknown() -> None:
    admission = AdmissionControl(QueueLimits(6))
    admission.reserve(10, "first", SLOTS)
    assert refusal(admission, 1, "second").retry_after == 2


def test_a_request_that_can_never_be_accepted_has_no_time_to_retry() -> None:
    error = refusal(AdmissionControl(LIMITS), 9, "first")
    assert (error.code, error.retry_after) == ("client_queue_full", None)


def test_a_request_that_cannot_be_done_in_time_is_refused_and_a_smaller_one_is_not() -> None:
    admission = measured(2.0, request_timeout=30)
    assert refusal(admission, 70, "second").code == "deadline_unreachable"
    admission.reserve(20, "second", SLOTS)


def test_other_clients_delay_a_small_request_by_their_turns_and_not_by_all_of_their_images() -> None:
    admission = measured(1.0, request_timeout=30)
    assert admission.total.images > 30
    for client in "abcdefgh":
        admission.reserve(2, client, SLOTS)


def test_particles_take_room_once_they_are_known() -> None:
    admission = AdmissionControl(LIMITS)  # a client may have 8 of 16
    reservation = admission.reserve(2, "first", SLOTS)
    reservation.extend(4)
    assert admission.clients == {"first": QueueUsage(1, 6, 0)}
    with pytest.raises(QueueFullError, match="9 images, each particle counted as one"):
        reservation.extend(3)
    assert refusal(admission, 3, "first").code == "client_queue_full"
    reservation.update(3, LENGTH)
    assert admission.total == QueueUsage(1, 3, LENGTH)
    reservation.release()
    assert (admission.total, admission.clients) == (QueueUsage(), {})


def test_a_request_is_not_behind_itself_where_its_particles_are_counted() -> None:
    admission = measured(2.0, request_timeout=30)
    admission.reserve(1, "second", SLOTS).extend(19)  # as with 20 images from the start
    assert refusal(admission, 70, "third").code == "deadline_unreachable"
    with pytest.raises(QueueFullError) as caught:
        admission.reserve(1, "third", SLOTS).extend(69)
    assert caught.value.code == "deadline_unreachable"


def test_images_of_an_engine_with_free_slots_say_nothing_about_its_rate() -> None:
    clock = Clock()
    admission = AdmissionControl(QueueLimits(request_timeout=1.0), RateMeter(clock))
    for _ in range(20):
        reservation = admission.reserve(1, "first", SLOTS)
        clock.now += 1
        reservation.update(0, LENGTH)
        reservation.release()
    admission.reserve(10_000, "first", SLOTS)


def test_what_was_painted_more_than_a_minute_ago_is_forgotten() -> None:
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
    """Requests of three clients that come, are painted, fail, are answered or abandoned in any order."""

    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.admission = AdmissionControl(LIMITS)
        self.live: list[tuple[PaintJob, Reservation]] = []

    @rule(target=jobs, images=st.integers(1, 10), client=st.sampled_from("abc"), particles=st.integers(1, 3))
    def reserve(self, images: int, client: str, particles: int) -> tuple[PaintJob, Reservation] | None:
        total, own = self.admission.total, self.admission.clients.get(client, QueueUsage())
        fits = total.images + images <= SLOTS + WAITING and own.images + images <= SHARE * (SLOTS + WAITING)
        if not fits or own.unread_bytes > SHARE * MAX_UNREAD or total.unread_bytes > MAX_UNREAD:
            assert refusal(self.admission, images, client).code != "deadline_unreachable"
            return None
        reservation = self.admission.reserve(images, client, SLOTS)
        more, own = images * (particles - 1), self.admission.clients[client]  # they have the images by now
        if total.images + more <= SLOTS + WAITING and own.images + more <= SHARE * (SLOTS + WAITING):
            reservation.extend(more)
        else:
            with pytest.raises(QueueFullError):
                reservation.extend(more)
            particles = 1
        job = PaintJob(GenerateRequest(0, images, 0, 1.0, KNOWN, MASKS, particles=particles, client=client))
        job.reservation = reservation
        self.live.append((job, reservation))
        return job, reservation

    @rule(entry=jobs, index=st.integers(0, 9))
    def paint(self, entry: tuple[PaintJob, Reservation] | None, index: int) -> None:
        """An image is finished, perhaps a second time after a restart, or although its request has failed."""
        if entry and index < entry[0].total:
            entry[0].receive(Finished(0, index, bytes(LENGTH), 1.0))

    @rule(entry=jobs)
    def fail(self, entry: tuple[PaintJob, Reservation] | None) -> None:
        if entry and not entry[0].has_ended:
            entry[0].receive(Failed(0, "It broke."))

    @rule(entry=consumes(jobs))
    def leave(self, entry: tuple[PaintJob, Reservation] | None) -> None:
        if entry:
            entry[1].release()
            entry[1].release()
            self.live.remove(entry)
            entry[0].receive(Finished(0, 0, bytes(LENGTH), 1.0))

    @invariant()
    def room_is_what_live_requests_hold(self) -> None:
        expected: dict[str, QueueUsage] = {}
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

    def teardown(self) -> None:
        for _, reservation in self.live:
            reservation.release()
        assert (self.admission.total, self.admission.clients) == (QueueUsage(), {})


TestQueue = Queue.TestCase
