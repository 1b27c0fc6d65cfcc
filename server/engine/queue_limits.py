"""Limits of a model's queue: images that are not painted yet, and bytes of
finished images that are not answered yet.

Room for an image is given back when the image is painted, whether its client reads or not. What is
painted and not answered is memory, with a limit of its own. One client may have a share of what the
others leave of each limit, so that a newcomer finds room however many clients have taken their
shares. Knows no HTTP and no engine. An image counts as many times as it takes slots, everywhere
here.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

MAX_RETRY_SECONDS = 600
NEWCOMER_IMAGES = 2  # one that is guided
UNKNOWN_RETRY_SECONDS = 2  # where the rate is not known yet
WINDOW_SECONDS = 60
KNOWN_SECONDS = 5.0  # of a full engine: a shorter measurement is not relied on


class QueueFullError(Exception):
    """A request that is not accepted now; the message is one sentence."""

    def __init__(self, message: str, code: str, retry_after: int | None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after  # seconds; None: a retry cannot help


@dataclass(frozen=True)
class QueueLimits:
    """What one model's requests may take."""

    max_waiting_images: float = inf  # besides those in slots
    client_share: float = 1.0  # of what other clients leave of each limit, for one
    max_unread_bytes: float = inf  # of finished images whose requests are not answered
    request_timeout: float = inf  # seconds


UNLIMITED = QueueLimits()


@dataclass
class QueueUsage:
    """What the requests of one client, or of all, hold together."""

    requests: int = 0
    images: int = 0  # accepted and not painted
    unread_bytes: int = 0  # of finished images

    def add(self, requests: int, images: int, unread_bytes: int) -> None:
        """Change each number by so much; none is ever negative."""
        self.requests += requests
        self.images += images
        self.unread_bytes += unread_bytes
        assert min(self.requests, self.images, self.unread_bytes) >= 0

    def without(self, held: "Reservation") -> "QueueUsage":
        """Return what the other requests hold."""
        return QueueUsage(
            self.requests - 1, self.images - held.images, self.unread_bytes - held.unread_bytes
        )


@dataclass
class Second:
    """What happened in one second of the clock."""

    started: int
    full_seconds: float = 0.0
    images: int = 0


class RateMeter:
    """Throughput of a full engine in images a second, measured over the last minute in which it was
    full. With free slots an engine finishes fewer images than it could: that time does not count.
    Constant in size: one entry for each of the last WINDOW_SECONDS."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.seconds: deque[Second] = deque()
        self.updated = clock()
        self.is_full = False

    def update(self, finished: int, is_full: bool) -> None:
        """Count images finished since the last update; `is_full`: whether
        every slot is in use from now on.
        """
        now = self.clock()
        if self.is_full:
            if not self.seconds or self.seconds[-1].started != int(now):
                self.seconds.append(Second(int(now)))
            self.seconds[-1].full_seconds += now - self.updated
            self.seconds[-1].images += finished
        self.updated = now
        self.is_full = is_full
        while self.seconds and self.seconds[0].started < now - WINDOW_SECONDS:
            self.seconds.popleft()

    def images_per_second(self, least: int = 1) -> float | None:
        """Return the rate; None where fewer than `least` images or KNOWN_SECONDS were measured."""
        self.update(0, self.is_full)
        seconds = sum(second.full_seconds for second in self.seconds)
        images = sum(second.images for second in self.seconds)
        return images / seconds if images >= least and seconds >= KNOWN_SECONDS else None


class AdmissionControl:
    """The queue of one model. Invariant: `total` is the sum over `clients`,
    which are those that hold something.
    """

    def __init__(self, limits: QueueLimits, rate: RateMeter | None = None) -> None:
        self.limits = limits
        self.total = QueueUsage()
        self.clients: dict[str, QueueUsage] = {}
        self.rate = rate or RateMeter()
        self.slots = 0  # of the engine at the last reservation

    def reserve(self, images: int, client: str, slots: int, counted: str = "") -> "Reservation":
        """Take room for a request's images; QueueFullError where there is none."""
        self.slots = slots
        self._check(images, client, self.clients.get(client, QueueUsage()), self.total, counted)
        reservation = Reservation(self, client)
        self.clients.setdefault(client, QueueUsage())
        self.change(client, 1, images, 0)
        reservation.images = images
        return reservation

    def extend(self, held: "Reservation", images: int, counted: str) -> None:
        """Take room for so many more images of a request; QueueFullError
        where there is none for all of them.
        """
        usage = self.clients[held.client].without(held)
        total = self.total.without(held)
        self._check(held.images + images, held.client, usage, total, counted)
        self.change(held.client, 0, images, 0)

    def change(
        self, client: str, requests: int, images: int, unread_bytes: int, finished: int = 0
    ) -> None:
        """Change what a client holds; `finished`: images that were
        painted, which is what the rate counts.
        """
        for usage in (self.total, self.clients[client]):
            usage.add(requests, images, unread_bytes)
        if not self.clients[client].requests:
            del self.clients[client]
        self.rate.update(finished, 0 < self.slots <= self.total.images)

    def _check(
        self, images: int, client: str, usage: QueueUsage, total: QueueUsage, counted: str
    ) -> None:
        """Refuse a request for so many images of a client that holds `usage` besides;
        `counted`: how they are counted.
        """
        limits = self.limits
        room = self.slots + limits.max_waiting_images
        most = max(1.0, limits.client_share * room)  # where no other client has any
        # A client that holds nothing may have one image, beyond the room too,
        # while fewer clients than that hold any.
        clients = len(self.clients) - (client in self.clients)
        is_newcomer = not usage.images and images <= NEWCOMER_IMAGES and clients < room
        if images > most and not is_newcomer:
            message = (
                f"This request has {images} images{counted}, and one client may have {int(most)} in progress; "
                "ask for fewer."
            )
            raise QueueFullError(message, "client_queue_full", None)
        if total.images + images > room and not is_newcomer:
            message = "Too many images are waiting; try again in a moment."
            raise QueueFullError(message, "queue_full", self._retry_after(total.images))
        others = total.images - usage.images
        client_room = max(1.0, limits.client_share * (room - others))
        if usage.images + images > client_room and not is_newcomer:
            message = (
                f"This client has {usage.images} images in progress and may have {int(client_room)} beside what others "
                "have; wait until some are done."
            )
            # Clients share the slots: while this one's images are painted,
            # so are as many of each other client.
            waiting = min(max(usage.images, images) * len(self.clients), total.images)
            raise QueueFullError(message, "client_queue_full", self._retry_after(waiting))
        others = total.unread_bytes - usage.unread_bytes
        if usage.unread_bytes and usage.unread_bytes > limits.client_share * (
            limits.max_unread_bytes - others
        ):
            message = (
                "This client has not read the images that it asked for before; read them first."
            )
            raise QueueFullError(message, "unread_answers", UNKNOWN_RETRY_SECONDS)
        if total.unread_bytes > limits.max_unread_bytes:
            message = "Too many images wait to be read by their clients; try again in a moment."
            raise QueueFullError(message, "unread_answers", UNKNOWN_RETRY_SECONDS)
        self._check_deadline(images, client, usage, total)

    def _check_deadline(
        self, images: int, client: str, usage: QueueUsage, total: QueueUsage
    ) -> None:
        """Refuse what cannot be painted in time: an accepted request would
        be cut off when it is half done.
        """
        rate = self.rate.images_per_second(least=self.slots)
        if rate is None:
            return
        # Clients share the slots, and then each client's requests: before a small
        # request's last image is painted, each request of its client has had as many turns
        # as it, and each client as many as this one.
        before = min(usage.images + images, images * (usage.requests + 1))
        seconds = min(before * len(self.clients.keys() | {client}), total.images + images) / rate
        if seconds > self.limits.request_timeout:
            message = (
                f"These {images} images would be done in about {ceil(seconds)} seconds, and a request may take "
                f"{self.limits.request_timeout:g}; ask for fewer, or try again later."
            )
            raise QueueFullError(message, "deadline_unreachable", self._retry_after(total.images))

    def _retry_after(self, images: int) -> int:
        """Return the seconds until so many images are painted, those in slots among them."""
        rate = self.rate.images_per_second()
        if rate is None:
            return UNKNOWN_RETRY_SECONDS
        return min(MAX_RETRY_SECONDS, max(1, ceil((images - self.slots) / rate)))


@dataclass(eq=False)
class Reservation:
    """The room of one request, which shrinks as its images are painted.
    Releasing it twice changes nothing.
    """

    admission: AdmissionControl
    client: str
    images: int = 0
    unread_bytes: int = 0
    is_released: bool = False
    # called when the engine has nothing more to do for the request
    on_ended: Callable[[], None] | None = None

    def update(self, images: int, unread_bytes: int) -> None:
        """Set how many images are not painted yet, and how many bytes of
        finished ones wait for the answer.
        """
        images = min(images, self.images)  # none is taken back
        self._hold(images, unread_bytes, finished=self.images - images)

    def extend(self, images: int, counted: str) -> None:
        """Take room for so many more images: what is known of the request now says that it needs
        them. `counted`: how, for the message of QueueFullError, after a comma."""
        self.admission.extend(self, images, counted)
        self.images += images

    def give_up(self) -> None:
        """Give back the room of images that are not painted: the request has failed or is over."""
        self._hold(0, self.unread_bytes, finished=0)

    def release(self) -> None:
        """Give back everything: the request is answered, or its client has left."""
        if not self.is_released:
            self._hold(0, 0, finished=0)
            self.is_released = True
            self.admission.change(self.client, -1, 0, 0)

    def _hold(self, images: int, unread_bytes: int, finished: int) -> None:
        if self.is_released:
            return
        self.admission.change(
            self.client, 0, images - self.images, unread_bytes - self.unread_bytes, finished
        )
        self.images = images
        self.unread_bytes = unread_bytes
