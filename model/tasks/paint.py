"""Painting images from nothing, and completing given ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from scanline.model.base.class_names import ClassNames
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput, check_count, checked_seed, whole_number
from scanline.model.base.sampling_options import CompletionOptions, SamplingOptions, SamplingParams
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.sampling.base.messages import (
    Event,
    Finished,
    GenerateRequest,
    Pixels,
    StateSnapshot,
)
from scanline.model.sampling.kinds import evidence
from scanline.model.sampling.kinds.evidence import Evidence
from scanline.model.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class PaintValues:
    """What a user says of images to paint; None: the model's default."""

    # images, or completions of each picture; None: 1, or an image of each class of a list
    n: int | None = None
    seed: int | None = None  # None: drawn
    class_name: ClassNames | None = None  # a list: one image of each
    prompt: str | None = None
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    max_images: int | None = None  # None: any number


@dataclass(frozen=True, kw_only=True)
class CompleteValues(PaintValues):
    """What a user says of pictures to complete, besides the pictures."""

    sampling: CompletionOptions = field(default_factory=CompletionOptions)
    pictures: int = 1


@dataclass(frozen=True)
class PaintedImages(Evidence[np.ndarray]):
    """Finished images, in the order of their indices."""

    images: np.ndarray  # [n, N] uint8
    bits_per_dim: np.ndarray  # [n] float64
    seed: int
    labels: np.ndarray  # [n] int64, as in ImageSpec
    sampling: SamplingParams
    known: np.ndarray | None = None  # [n, H, W] bool, of completions: the given pixels

    def class_names(self, config: ModelConfig) -> tuple[str | None, ...]:
        """Return the name of each image's class, None where it has none; nothing where no image has
        one."""
        names = (None, *config.class_names)
        return tuple(names[label] for label in self.labels) if self.labels.any() else ()


@dataclass(frozen=True)
class PaintedPart:
    """What has come of the images since the last time."""

    frames: list[tuple[int, int, bytes]]  # row, first byte position, bytes
    finished: list[int]  # rows
    snapshot: StateSnapshot | None = None  # the newest state
    provisional: tuple[int, ...] = ()  # rows that have new bytes which may still change

    def __bool__(self) -> bool:
        return bool(self.frames or self.finished or self.snapshot or self.provisional)


class PaintTask(Task):
    """Images of a request in the order of its indices: by these *rows* they are known here, which
    are the indices themselves where all images are painted.

    Its buffer never exceeds its images, however slowly it is read: what was not taken yet is
    merged. Bytes that come again are not passed on twice.
    """

    request: GenerateRequest

    def __init__(self, request: GenerateRequest, config: ModelConfig) -> None:
        self.request = request
        self.config = config
        self.count = count = len(request.indices)
        # The number that the user knows each image by, by its row, in the order of the answer.
        self.shown = {row: row for row in range(count)}
        # the fields that say which random numbers painted the images
        self.drawn = {"seed": request.seed}
        self.used = request.used  # and what else decides them
        self.row_of = {index: row for row, index in enumerate(request.only or ())}
        self.images = np.zeros((count, config.bytes), np.uint8)
        self.painted = np.zeros(count, np.int64)  # bytes that are here
        # where bytes end that follow those and may still change
        self.provisional = np.zeros(count, np.int64)
        self.taken = np.zeros(count, np.int64)  # bytes that `take` has returned
        self.bits_per_dim = np.full(count, np.nan)
        # by name; NaN stays where an image is no completion
        self.evidence = {name: np.full(count, np.nan) for name in evidence.NAMES}
        self.labels: dict[int, int] = {}  # that codes say of images, by row
        self.finished: list[int] = []  # rows, not yet taken
        self.ended = 0  # images
        self.changing: set[int] = set()  # rows with new provisional bytes, not yet taken
        self.snapshot: StateSnapshot | None = None  # the newest, not yet taken
        self.snapshot_position = 0  # of image 0 in the newest snapshot
        self.merged = 0  # frames that were merged because the one before them had not been taken

    @property
    def columns(self) -> int | None:
        """The columns of a sheet of the images: one row where a list of classes was asked for;
        None: nearly square."""
        return None if self.request.listed is None else self.count

    @property
    def held_bytes(self) -> int:
        """The bytes of the images that have ended."""
        return self.ended * self.config.bytes

    def fill(self, known: Sequence[bytes], masks: Sequence[bytes]) -> None:
        """Take the pictures to complete, N bytes each, and which of their bytes are known, N bytes
        each of 0 or 1."""
        self.request = replace(self.request, known=tuple(known), masks=tuple(masks))

    def label(self, row: int) -> int:
        """Return the label of an image."""
        return self.labels.get(row) or self.request.label_of(self._index(row))

    def is_completion(self, row: int) -> bool:
        """Return whether something of an image was known."""
        return self.request.known_bytes_of(self._index(row)) > 0

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        match event:
            case Pixels():
                for index, first, data in event.painted:
                    row = self._row(index)
                    has_untaken_bytes = self.painted[row] > self.taken[row]
                    if has_untaken_bytes and first + len(data) > self.painted[row]:
                        self.merged += 1
                    self._write(row, first, data)
                for index, first, data in event.provisional:
                    self._write_provisional(self._row(index), first, data)
            case StateSnapshot():
                if event.position > self.snapshot_position:
                    self.snapshot = event
                    self.snapshot_position = event.position
            case Finished():
                row = self._row(event.index)
                self._write(row, 0, event.image)
                self.bits_per_dim[row] = event.bits_per_dim
                for name, values in self.evidence.items():
                    number = getattr(event, name)
                    if number is not None:
                        values[row] = number
                if event.label:
                    self.labels[row] = event.label
                self.finished.append(row)
                self.ended += 1

    def take(self) -> PaintedPart:
        """Return what has been painted since the last call, merged."""
        frames = []
        for row in np.flatnonzero(self.painted > self.taken).tolist():
            first = int(self.taken[row])
            stop = int(self.painted[row])
            frames.append((row, first, self.images[row, first:stop].tobytes()))
            self.taken[row] = stop
        part = PaintedPart(frames, self.finished, self.snapshot, tuple(sorted(self.changing)))
        self.finished = []
        self.snapshot = None
        self.changing = set()
        return part

    def result(self) -> PaintedImages:
        """Return the images, all of which have ended."""
        sampling = {
            option.name: getattr(self.request, option.name) for option in fields(SamplingParams)
        }
        return PaintedImages(
            images=self.images,
            bits_per_dim=self.bits_per_dim,
            seed=self.request.seed,
            labels=np.array([self.label(row) for row in range(self.count)], np.int64),
            sampling=SamplingParams(**sampling),
            known=self.request.known_pixels(self.config),
            **(self.evidence if self.request.known else {}),
        )

    def _index(self, row: int) -> int:
        return row if self.request.only is None else self.request.only[row]

    def _row(self, index: int) -> int:
        return index if self.request.only is None else self.row_of[index]

    def _write(self, row: int, first: int, data: bytes) -> None:
        self.images[row, first : first + len(data)] = np.frombuffer(data, np.uint8)
        self.painted[row] = max(self.painted[row], first + len(data))

    def _write_provisional(self, row: int, first: int, data: bytes) -> None:
        """Keep bytes that may still change, but for those whose place has final ones: an engine
        that paints an image anew has not come so far yet."""
        stop = first + len(data)
        start = max(first, int(self.painted[row]))
        if start < stop:
            self.images[row, start:stop] = np.frombuffer(data[start - first :], np.uint8)
            self.provisional[row] = stop
            self.changing.add(row)


def request_of(model: ModelInfo, values: PaintValues) -> GenerateRequest:
    """Return the request that paints `values.n` images from nothing, or completes pictures, each
    so often; InvalidInput where a class is not known, class and prompt differ, a value is out of
    its range, or images are too many."""
    n = values.n
    if n is not None:
        n = whole_number(n, 1, None, "n")
    defaults = model.defaults
    config = model.config
    asked = values.class_name
    prompt = values.prompt or ""
    if isinstance(values, CompleteValues):
        sampling = defaults.to_complete(config, asked, prompt=prompt, **values.sampling)
        count = values.pictures * (n or 1)
    else:
        sampling = defaults.to_paint(config, asked, prompt=prompt, **values.sampling)
        count = sampling.listed or n or 1
        if n is not None and n != count:
            raise InvalidInput(
                f"n must be {count}, the number of classes that are listed, or be left out.", "n"
            )
    if sampling.best_of > 1 and not model.has_class_head:
        reason = "This model has no class head, which chooses the best; leave best_of out."
        raise InvalidInput(reason, "best_of")
    if values.max_images is not None:
        param = "n"
        if sampling.listed is not None:
            param = "prompt" if values.class_name is None else "class"
        check_count(count, values.max_images, param)
    return GenerateRequest(0, int(count), checked_seed(values.seed), **vars(sampling))


def plan(model: ModelInfo, values: PaintValues) -> PaintTask:
    """Return the task of the request of `values`; errors as of `request_of`."""
    return PaintTask(request_of(model, values), model.config)
