"""The engine loop: admit, prefill, step, retire, deliver.

The server's engine process and offline painting (`offline.py`) drive the same loop. It
knows the generator and the scheduler, not the process or the pipe: commands come in through
`accept`, events go out in one list a tick. Memory does not depend on how many requests
wait, but for the requests themselves.

An asynchronous device is given the next tick's steps before the last ones have ended. Where images
stand after a tick is known when it has been started, or, where such a device paints ahead, a tick
later: no step begins where an image has to be looked at, so that it waits there.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from scanline.model.base.inputs import InvalidInput
from scanline.model.sampling.active_request import ActiveRequest
from scanline.model.sampling.admission import Admission
from scanline.model.sampling.assignment import SlotAssignment
from scanline.model.sampling.base.errors import unrecoverable
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Cancel,
    Event,
    Failed,
    Finished,
    GenerateRequest,
    ScoreRequest,
    Stats,
)
from scanline.model.sampling.checks import at_check, bytes_to_check, stops_of, to_choose
from scanline.model.sampling.choices import Choices
from scanline.model.sampling.launch import Launch
from scanline.model.sampling.prefill.classified import ClassifiedPrefill
from scanline.model.sampling.prefill.queue import PrefillQueue
from scanline.model.sampling.prefill.request import EndedPrefill, PrefillRequest
from scanline.model.sampling.scheduler import Scheduler
from scanline.model.sampling.stats.engine_stats import StatsRecorder
from scanline.model.sampling.stats.tick_length import TICK_SECONDS, TickLength
from scanline.model.sampling.stats.time_shares import TimeShares
from scanline.model.sampling.streams import Streams

log = logging.getLogger("scanline.engine")

OTHER_MODEL = "The model changed while this request was in progress; send it again."
FAILED = "The engine failed while it worked on this request; its log says why."
NOT_FINITE = "The model computed numbers that are not finite for an image of this request."


class Engine:
    """Invariant between ticks: every assignment's request is in `requests`, and the generator holds
    its image, of which no candidate has passed a check without resampling.

    Owns the requests; the scheduler owns slots and positions, the generator weights and states.
    """

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.length = generator.config.bytes
        self.recorder = StatsRecorder()
        self.requests: dict[int, ActiveRequest] = {}  # to paint
        self.scheduler = Scheduler(
            generator.slots,
            lambda number, index: self.requests[number].kind_of(index),
            generator.spare,
        )
        self.prefills = PrefillQueue(generator)
        self.choices = Choices(self.prefills)
        self.admission = Admission(
            generator, self.scheduler, self.requests, self.prefills, self.recorder
        )
        self.refused: list[Failed] = []  # requests that cannot be served, reported in the next tick
        self.streams = Streams(generator)
        # with less, clients of about equal shares take turns
        self.time_shares = TimeShares(2 * TICK_SECONDS)
        self.tick_length = TickLength()
        self.current: Launch | None = None  # in this tick
        self.in_flight: Launch | None = None  # what the device is doing between two ticks
        self.ended: Launch | None = None  # what is sent in this tick
        self.painted_seconds = 0.0  # of the steps that ended last

    @property
    def idle(self) -> bool:
        return not self.requests and self.prefills.idle and not self.refused

    def accept(self, command: GenerateRequest | ScoreRequest | Cancel) -> None:
        """Queue a request or drop one; its work is done in later ticks. One
        that cannot be queued fails alone.
        """
        try:
            self._accept(command)
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            log.exception("a request could not be queued or dropped; it fails")
            request = command.request if isinstance(command, Cancel) else command.id
            self._drop(request)
            self.refused.append(Failed(request, FAILED))

    def _accept(self, command: GenerateRequest | ScoreRequest | Cancel) -> None:
        match command:
            case Cancel():
                self._drop(command.request)
            case _ if not self._is_for_this_model(command):
                log.warning(
                    "a request for the model %s is refused: this is %s",
                    command.digest,
                    self.generator.digest,
                )
                self.refused.append(Failed(command.id, OTHER_MODEL, "model_changed"))
            case GenerateRequest():
                try:
                    command.largest_kind.check_slots(self.generator.slots)
                except InvalidInput as error:  # the request was made for an engine with more slots
                    refused = Failed(command.id, error.message, error.code, error.param)
                    self.refused.append(refused)
                else:
                    self.streams.add(command)
                    self.admission.add(command)
            case ScoreRequest():
                prefills = [
                    PrefillRequest.of_score(command, index, self.length)
                    for index in command.indices
                ]
                self.prefills.add(command.id, command.client, prefills)

    def _is_for_this_model(self, request: GenerateRequest | ScoreRequest) -> bool:
        """Return whether a request was made for this model, and for
        its class head where it reads one.
        """
        if request.reads_class_head and not self.generator.class_head_digest:
            return False
        if not request.digest:
            return True
        return (self.generator.digest + self.generator.class_head_digest).startswith(request.digest)

    def tick(self) -> list[Event]:
        """Run the loop once. A failure fails its requests and the engine goes
        on; an unrecoverable one is raised.
        """
        events: list[Event] = [*self.refused]
        self.refused.clear()
        try:
            self._end_prefills(events)
            self.admission.admit(events, self._fail)
            self._prefill(events)
            self._step()
            self._note_positions()
            self._retire(events)
            self._deliver(events)
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            self._fail_painting(events)
        return events

    def _fail_painting(self, events: list[Event]) -> None:
        """Fail the requests whose images were being painted, or sent; those that wait go on. Where
        there are none, fail all that are to be painted, since what failed would fail again."""
        log.exception("painting failed; the requests of images in progress fail")
        launches = [
            launch for launch in (self.current, self.in_flight, self.ended) if launch is not None
        ]
        images = [
            *self.scheduler.assigned.values(),
            *(image for launch in launches for image in launch.finished),
        ]
        self.current = self.in_flight = self.ended = None
        self.recorder.unpainted.clear()
        concerned = dict.fromkeys(
            image.request for image in images if image.request in self.requests
        )
        for request in [*(concerned or self.requests)]:
            self._fail(request, events)

    @contextmanager
    def _failing(self, requests: Iterable[int], events: list[Event]) -> Iterator[None]:
        """Log an exception, and fail the requests whose work it was
        alone; raise an unrecoverable one.
        """
        try:
            yield
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            log.exception("what a request asks for besides painting failed; it fails")
            for request in [*requests]:
                self._fail(request, events)

    def stats(self) -> Stats:
        """Return what is in progress now and what has been done."""
        running = sum(active.is_scheduled for active in self.requests.values())
        scores = self.prefills.scores()
        progress = Stats(
            requests_running=running + scores.requests_running,
            requests_waiting=len(self.requests) - running + scores.requests_waiting,
            images_running=0 if self.idle else self.recorder.batch,
            images_waiting=self.scheduler.images_waiting + scores.images_waiting,
            scores_running=scores.images_running,
        )
        return self.recorder.report(progress)

    def _prefill(self, events: list[Event]) -> None:
        """Prefill known bytes: for a share of the time that painting took,
        for a whole tick without painting.
        """
        # Prefixes that there is room for now are queued with the images
        # to score, and take turns with them.
        self.admission.queue_prefixes(events, self._fail)
        painted = self.painted_seconds if self.scheduler.assigned else None
        self._take(self.prefills.run(painted, TICK_SECONDS, self.scheduler.held.keys()), events)

    def _end_prefills(self, events: list[Event]) -> None:
        """Take what a device has prefilled behind the steps before the
        last ones, which it is doing now.
        """
        if self.generator.is_asynchronous and self.scheduler.assigned:
            self._take(self.prefills.end(), events)

    def _take(self, ended: list[EndedPrefill], events: list[Event]) -> None:
        """Send the scores, and keep the prefixes, of prefills that ended."""
        self.time_shares.charge(self.prefills.spent)
        failed: set[int] = set()
        for outcome in ended:
            if (request := outcome.prefill.request) in failed:
                continue
            try:
                message = self._take_prefill(outcome, events)
            except Exception as error:
                if unrecoverable(error, self.generator.synchronize):
                    raise
                log.exception("a prefill of an image could not be taken; its request fails")
                message = FAILED
            if message:
                failed.add(request)
                self._fail(request, events, message)

    def _take_prefill(self, ended: EndedPrefill, events: list[Event]) -> str:
        """Send a score, or the image that the class head chooses, or keep the prefix that lets its
        request's next image start; return why its request fails.
        """
        prefill = ended.prefill
        state = ended.state
        if state is None:
            return FAILED
        if not state.is_finite(ended.row):
            return NOT_FINITE
        if prefill.is_score:
            events.append(state.scored(ended.row, prefill.request, prefill.index))
        elif isinstance(state, ClassifiedPrefill):
            chosen = self.choices.put(prefill, state.answers[ended.row, :-1])
            if chosen is not None:
                self._send(chosen, events)
        else:
            self.admission.put_prefix(prefill, state.prefix(ended.row))
        return ""

    def _step(self) -> None:
        """Start a tick's steps of all images but those of clients that have used
        more than their share of the time.
        """
        scheduler = self.scheduler
        slots = np.flatnonzero(scheduler.is_busy)
        self.recorder.batch = len(slots)
        if not len(slots):
            return
        # Which slots: all, unless a client has to pause, or a step of all takes longer than a tick.
        stepped = scheduler.held  # slots, by client
        groups: Collection[SlotAssignment] = scheduler.groups.values()
        clients = self.time_shares.next(scheduler.held)
        max_slots = self.tick_length.images()
        if len(clients) < len(scheduler.held) or len(slots) > max_slots:
            images = scheduler.in_turn(clients, max_slots)
            groups = [image for image in images if len(image.slots) > 1]
            stepped = Counter(image.client for image in images for _ in image.slots)
            slots = np.sort([slot for image in images for slot in image.slots])
        scheduler.turn += 1
        scheduler.stepped[slots] = scheduler.turn
        # How many passes: as many as fit into a tick, and not many more than bring an image to its
        # next check, where it stops.
        step_bytes = self.generator.config.step_bytes
        positions = scheduler.positions
        before = positions[slots]
        most_left = (self.length - int(before.min())) // step_bytes
        least_left = (self.length - int(before.max())) // step_bytes
        passes = self.tick_length.passes(
            len(slots), most_left, least_left, streamed=bool(self.streams.requests)
        )
        to_check = bytes_to_check(groups, positions, self.length) // step_bytes
        passes = min(passes, self.tick_length.passes_of(to_check))
        stops = stops_of(groups, slots, self.length)
        self.current = Launch(
            self.generator.start(slots, before, passes, stops),
            passes,
            scheduler.turn,
            slots,
            scheduler.is_first[slots],
            dict(stepped),
        )

    def _note_positions(self) -> None:
        """Note where images stand after this tick's launch; where that is not known yet, after the
        last one's."""
        launch = self.in_flight if self.generator.positions_are_late else self.current
        if launch is None:
            return
        scheduler = self.scheduler
        positions = scheduler.positions
        # Slots that have another image by now stand where that one begins.
        is_same = scheduler.assigned_after[launch.slots] < launch.turn
        slots = launch.slots[is_same]
        moved = launch.started.positions.wait()[is_same] - positions[slots]
        positions[slots] += moved
        # Resampling is queued behind the steps, on a GPU too: nothing here waits for them.
        for due in at_check(scheduler.groups.values(), positions):
            self.generator.resample(due)
        # An image in several slots is painted once: only its first slot counts.
        painted = int(moved[launch.is_first[is_same]].sum())
        steps = moved // self.generator.config.step_bytes
        launch.rows = self._rows(launch.slots_of, slots, steps)
        launch.painted_bytes, launch.accepted = self.recorder.launched(painted)

    def _rows(
        self, stepped: Mapping[str, int], slots: np.ndarray, steps: np.ndarray
    ) -> dict[str, int]:
        """Return the steps that were painted, `steps` [n] of the images in `slots` [n], by client;
        where all move alike, or there is one client, the slots that these have.
        """
        if len(stepped) == 1 or not self.generator.paints_ahead:
            return dict(stepped)
        of_slot = dict(zip(slots.tolist(), steps.tolist(), strict=True))
        rows = Counter[str]()
        for image in self.scheduler.assigned.values():
            rows[image.client] += sum(of_slot.get(slot, 0) for slot in image.slots)
        if not any(rows.values()):  # those that moved have been cancelled since
            return dict(stepped)
        return {client: rows[client] for client in stepped}

    def _retire(self, events: list[Event]) -> None:
        """Fetch what streams are due and what the steps complete, and
        free the slots of complete images.
        """
        if (launch := self.current) is None:
            return
        scheduler = self.scheduler
        with self._failing(self.streams.requests, events):
            launch.frames, launch.snapshots = self.streams.due(
                scheduler.assigned, scheduler.positions
            )
        first = np.fromiter(scheduler.assigned, np.int64)
        complete = first[scheduler.positions[first] == self.length].tolist()
        # Of several candidates some may have come to the end sooner than others.
        launch.finished = [
            image
            for image in (scheduler.assigned[slot] for slot in complete)
            if image.painted(scheduler.positions) == self.length
        ]
        # Of several candidates one is chosen; its bytes are then in the
        # image's first slot, which is fetched.
        for group in to_choose(launch.finished, self.length):
            self.generator.choose(group)
        if slots := launch.fetched_slots:
            launch.fetched = self.generator.fetch(slots)
        # The copies are queued before anything that a later tick does with these slots.
        for image in launch.finished:
            scheduler.release(image.slot)

    def _deliver(self, events: list[Event]) -> None:
        """Send what has been painted by the steps that have ended: on an
        asynchronous device those of the last tick.
        """
        self.ended = self.current
        self.current = None
        if self.generator.is_asynchronous:
            self.ended, self.in_flight = self.in_flight, self.ended
        if (ended := self.ended) is None:
            return
        self._account(ended)
        # Requests with numbers that are not finite fail before anything of them is sent.
        for request in ended.overflowed(
            self.requests, may_be_infinite=self.generator.config.first > 0
        ):
            self._fail(request, events, NOT_FINITE)
        with self._failing(self.streams.requests, events):
            events += [*ended.pixels(self.requests), *ended.state_snapshots(self.requests)]
        finished = [*ended.finished_images(self.requests)]
        self.admission.note_finished(finished)
        for image in finished:
            active = self.requests[image.request]
            if active.kind_of(image.index).is_chosen_by_head:
                self.choices.add(image, active.request.client)
            else:
                self._send(image, events)
        for assignment, read in ended.reads():
            with self._failing((assignment.request,), events):
                self.admission.queue_following(assignment, read)
        self.ended = None

    def _send(self, image: Finished, events: list[Event]) -> None:
        """Send an image; its request ends with its last one."""
        events.append(image)
        active = self.requests[image.request]
        active.left -= 1
        if not active.left:
            del self.requests[image.request]
            self.streams.drop(image.request)

    def _account(self, ended: Launch) -> None:
        """Note how long steps have taken and what they have painted."""
        painted = ended.started.painted.wait()
        self.painted_seconds = seconds = painted.seconds
        self.time_shares.spent(seconds, ended.rows)
        passes = self.tick_length.took(painted, ended.passes, len(ended.slots))
        self.recorder.stepped(painted, passes, len(ended.slots))
        self.recorder.painted(ended.painted_bytes, ended.accepted)

    def _fail(self, request: int, events: list[Event], message: str = FAILED) -> None:
        self._drop(request)
        events.append(Failed(request, message))

    def _drop(self, request: int) -> None:
        """Remove a request wherever it is and free its slots; an unknown one has ended already."""
        self.admission.drop(request)
        self.streams.drop(request)
        self.refused = [event for event in self.refused if event.request != request]
        self.prefills.drop(request)
        self.choices.drop(request)
