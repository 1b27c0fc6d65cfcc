"""Images of codes, byte for byte.

Images with a checksum together are decoded together. Codes of several files are numbered as codes
of one length: the images that a shorter one lacks are not wanted.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scanline.model.base.inputs import InvalidInput, check_count
from scanline.model.formats.code_file import CodeFile, Codes
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.sampling.base.messages import Event, Finished, GenerateRequest
from scanline.model.tasks.paint import PaintedImages, PaintTask


@dataclass(frozen=True)
class DecodeValues:
    """What a user says of codes to decode, all of one model."""

    files: Sequence[CodeFile]
    images: Sequence[int]  # which of the images of all files together, from 0
    codings: Sequence[str]  # of the model at hand, that of new files first
    precision: str
    digest: str = ""  # of the model that must decode them; empty: any
    is_checked: bool = True  # else images are returned even where they are not what was encoded
    param: str = "code"  # what the files are called in messages
    max_images: int | None = None  # that are painted for them


@dataclass(frozen=True, eq=False)
class DecodedFile:
    """The images `indices` of one file that are decoded, from row `first` of the task on."""

    file: CodeFile
    indices: tuple[int, ...]
    first: int

    @property
    def blocks(self) -> Iterator[range]:
        """The rows of each checksum."""
        size = self.file.block
        end = self.first + len(self.indices)
        return (range(start, min(start + size, end)) for start in range(self.first, end, size))

    def indices_of(self, rows: range) -> tuple[int, ...]:
        """Return the images of the file that rows of the task are."""
        return self.indices[rows.start - self.first : rows.stop - self.first]


class DecodeTask(PaintTask):
    """Images that are painted from codes; more than are shown, where others have a checksum with
    these."""

    def __init__(
        self,
        request: GenerateRequest,
        model: ModelInfo,
        files: Sequence[DecodedFile],
        shown: dict[int, int],
        param: str,
    ) -> None:
        """files: those that are checked. shown: see PaintTask.shown."""
        super().__init__(request, model.config)
        self.shown = shown
        # nothing but the codes decides the images
        self.drawn = {}
        self.used = {}
        self.param = param
        self.block_of: dict[int, tuple[DecodedFile, range]] = {}  # by row
        for file in files:
            for rows in file.blocks:
                self.block_of |= dict.fromkeys(rows, (file, rows))
        self.left = Counter(self.block_of.values())  # images of each checksum that have not ended
        # checksums of which all images have ended
        self.unchecked: list[tuple[DecodedFile, range]] = []

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        super().receive(event)
        block = None
        if isinstance(event, Finished):
            block = self.block_of.get(self._row(event.index))
        if block is not None:
            self.left[block] -= 1
            if not self.left[block]:
                self.unchecked.append(block)

    def work(self) -> Iterator[None]:
        """Check the images of each checksum; InvalidInput where they are not what was encoded."""
        while self.unchecked:
            decoded, rows = self.unchecked.pop(0)
            images = self.images[rows.start : rows.stop]
            decoded.file.check(decoded.indices_of(rows), images, self.param)
            yield

    @property
    def has_work(self) -> bool:
        """See Task.has_work."""
        return bool(self.unchecked)

    @property
    def work_bytes(self) -> int:
        """See Task.work_bytes."""
        return self.images.size

    def result(self) -> PaintedImages:
        """Return the images that are shown, in their order."""
        painted = super().result()
        rows = list(self.shown)
        return replace(
            painted,
            images=painted.images[rows],
            bits_per_dim=painted.bits_per_dim[rows],
            labels=painted.labels[rows],
        )


def plan(model: ModelInfo, values: DecodeValues) -> DecodeTask:
    """Return the task that decodes images; InvalidInput where the model did not make the codes, an
    image is named twice, or too many have a checksum with them."""
    for file in values.files:
        file.check_model(values.codings, values.precision, model.config, values.param)
    wanted = sorted(set(values.images))
    if len(wanted) < len(values.images):
        raise InvalidInput("images: name each image once.", "images")

    # How many images that makes with all of their checksums is known before they are listed.
    wanted_of: list[list[int]] = []  # by file, numbered as there
    end = painted = 0
    for file in values.files:
        start = end
        end += file.count
        of_file = wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]
        indices = [number - start for number in of_file]
        wanted_of.append(indices)
        blocks = {index // file.block for index in indices}
        painted += sum(min(file.block, file.count - block * file.block) for block in blocks)
    if values.max_images is not None:
        param = "code" if len(wanted) == end else "images"
        check_count(painted, values.max_images, param, "with the others of its code")

    # The row of each image in the task, by its number among those of all files.
    row_of: dict[int, int] = {}
    files: list[DecodedFile] = []
    start = first_row = 0
    for file, indices in zip(values.files, wanted_of, strict=True):
        decoded = DecodedFile(file, file.decoded(indices), first_row)
        files.append(decoded)
        row_of |= {start + index: row for row, index in enumerate(decoded.indices, first_row)}
        start += file.count
        first_row += len(decoded.indices)
    shown = {row_of[number]: number for number in values.images}
    checked = files if values.is_checked else ()
    return DecodeTask(_request(files, values.digest), model, checked, shown, values.param)


def _request(files: Sequence[DecodedFile], digest: str) -> GenerateRequest:
    """Return the request whose images are those of the files, in order."""
    length = max(decoded.file.codes.length for decoded in files if decoded.indices)
    chosen: list[bytes] = []
    labelled: list[bool] = []
    wanted: list[int] = []
    for decoded in files:
        stored = decoded.file.codes
        last = -1
        for index in decoded.indices:
            number = index // stored.length  # of its code in the file
            if number != last:
                last = number
                chosen.append(stored.codes[number])
                labelled.append(stored.is_labelled(number))
            wanted.append((len(chosen) - 1) * length + index % stored.length)
    codes = Codes(tuple(chosen), length, tuple(labelled))
    return GenerateRequest(
        0, len(chosen) * length, 0, only=tuple(wanted), digest=digest, codes=codes
    )
