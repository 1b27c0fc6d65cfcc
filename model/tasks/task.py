"""The base of tasks: what a runner and the room of a queue know of each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import Event, Request, ScoreRequest


class Task(ABC):
    """One request to an engine and what has come back of it.

    After a crash an engine does an image again: `receive` gets events of images that are here
    already once more, with the same bytes, as long as they have not ended.
    """

    request: Request  # complete once the pictures of a task that needs some are there
    count: int  # images of the request, known before its pictures are
    merged = 0  # frames that were merged because the one before them had not been taken

    @abstractmethod
    def receive(self, event: Event) -> None:
        """Take in an event of the engine, in constant time: the event loop of a server calls
        this."""

    def work(self) -> Iterator[None]:
        """Yield after each short piece of what can be done now with the images that have ended;
        InvalidInput where they are not what they should be. Called until the task has ended, and
        once more then."""
        return iter(())

    @property
    def has_work(self) -> bool:
        """Whether `work` would do something now."""
        return False

    @property
    def work_bytes(self) -> int | None:
        """The bytes that `work` goes through; None where a piece of it may take long."""
        return 0

    @property
    def held_bytes(self) -> int:
        """The memory of what has come back, until it is answered."""
        return 0

    @abstractmethod
    def result(self) -> Any:
        """Return the result of a task that has ended, with named fields."""


class ReadTask(Task):
    """A task whose request has whole images, which are read and not painted."""

    request = ScoreRequest(0, ())

    @abstractmethod
    def fill(self, images: Sequence[Cleaned]) -> None:
        """Take the images as they were read, some in each part."""
