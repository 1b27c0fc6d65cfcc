"""Codes that a client sends, as a request to paint: which model made them, which of their images are decoded, and
whether these are the pixels that were encoded.

Images with a checksum together are decoded together. Codes of several files are numbered as codes of one length: the
images that a shorter one lacks are not wanted.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from structlog.contextvars import bind_contextvars

from scanline.model.formats.code_file import CodeFile, Codes, read
from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.api.jobs import numbered
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import DecodingRequest
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.models.registry import ModelRegistry, ServedModel

MOST_IMAGES = 2**18  # of a file, of which some are decoded: the lengths of so many codes are read in less than a second


@dataclass(frozen=True, eq=False)
class DecodedFile:
    """The images `indices` of one file that are decoded, from row `first` of the job on."""

    file: CodeFile
    indices: tuple[int, ...]
    first: int

    @property
    def blocks(self) -> Iterator[range]:
        """The rows of each checksum."""
        size, end = self.file.block, self.first + len(self.indices)
        return (range(start, min(start + size, end)) for start in range(self.first, end, size))

    def check(self, rows: range, images: np.ndarray) -> None:
        """Raise InvalidInput where the rows of a checksum are not what was encoded; images: the job's."""
        indices = self.indices[rows.start - self.first : rows.stop - self.first]
        self.file.check(indices, images[rows.start : rows.stop], "code")


@dataclass(frozen=True)
class Decoding:
    """What a request for decodings asks for."""

    model: ServedModel
    files: tuple[DecodedFile, ...]
    shown: dict[int, int]  # the number that the client knows an image by, by its row of the job, in the answer's order
    is_checked: bool

    def request(self, client: str) -> GenerateRequest:
        """Return the request whose job has these rows."""
        bind_contextvars(model=self.model.id, images=len(self.shown))
        ready, length = self.model.engine.ready, max(each.file.codes.length for each in self.files if each.indices)
        assert ready is not None
        codes, labelled, wanted = list[bytes](), list[bool](), list[int]()
        for each in self.files:
            own, last = each.file.codes, -1
            for index in each.indices:
                if index // own.length != last:
                    last = index // own.length
                    codes.append(own.codes[last])
                    labelled.append(own.is_labelled(last))
                wanted.append((len(codes) - 1) * length + index % own.length)
        return GenerateRequest(
            id=next(self.model.engine.request_ids),
            n=len(codes) * length,
            seed=0,
            only=tuple(wanted),
            client=client,
            digest=ready.digest,  # of the model that was compared with the codes
            codes=Codes(tuple(codes), length, tuple(labelled)),
        )

    def check(self, images: np.ndarray) -> None:
        """Raise InvalidInput where the images of the job are not what was encoded."""
        for each in self.files if self.is_checked else ():
            for rows in each.blocks:
                each.check(rows, images)


class RowChecks:
    """Checks the images of a decoding while they are painted."""

    def __init__(self, decoding: Decoding, images: np.ndarray) -> None:
        self.images = images
        blocks = [(each, rows) for each in decoding.files for rows in each.blocks] if decoding.is_checked else []
        self.blocks = {row: block for block in blocks for row in block[1]}
        self.left = Counter(self.blocks.values())

    async def finish(self, row: int) -> None:
        """Note that an image is painted; InvalidInput where it is the last one of a checksum, which differs."""
        if block := self.blocks.get(row):
            self.left[block] -= 1
            if not self.left[block]:
                file, rows = block
                await offload.run(lambda: file.check(rows, self.images))


async def decoding_of(models: ModelRegistry, fields: DecodingRequest) -> Decoding:
    """Return what a request asks for; InvalidInput where a code is wrong or of no model here, or the images are too
    many, EngineUnavailableError where a model that may have made it is not loaded yet."""
    files = await offload.collect(_files(fields.code), None)
    model = _model_of(models, fields.model, files)
    ranges = fields.ranges(sum(file.count for file in files))
    param = "code" if fields.images is None else "images"
    models.check_count(sum(map(len, ranges)), param)
    numbers = [number for each in ranges for number in each]
    wanted = sorted(set(numbers))
    if len(wanted) < len(numbers):
        raise InvalidInput("images: name each image once.", "images")

    # How many images that makes with all of their checksums is known before they are listed.
    own, end, painted = list[list[int]](), 0, 0
    for file in files:
        start, end = end, end + file.count
        part = wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]
        own.append([number - start for number in part])
        blocks = {index // file.block for index in own[-1]}
        painted += sum(min(file.block, file.count - block * file.block) for block in blocks)
    models.check_count(painted, param, "with the others of its code")

    decoded, rows, start, first = list[DecodedFile](), dict[int, int](), 0, 0
    for file, indices in zip(files, own, strict=True):
        each = DecodedFile(file, file.decoded(indices), first)
        decoded.append(each)
        rows |= {start + index: row for row, index in enumerate(each.indices, first)}
        start, first = start + file.count, first + len(each.indices)
    return Decoding(model, tuple(decoded), {rows[number]: number for number in numbers}, not fields.unchecked)


def _files(codes: Sequence[bytes]) -> Iterator[CodeFile]:
    for index, data in enumerate(codes):
        with numbered("Code", index, len(codes)):
            yield read(data, "code", MOST_IMAGES)


def _model_of(models: ModelRegistry, name: str | None, files: Sequence[CodeFile]) -> ServedModel:
    """Return the model that made the files: that of the name, where there is one."""
    file = files[0]
    if any(each.coding != file.coding for each in files):
        raise InvalidInput("code: all codes of a request must be of one model at one precision.", "code")
    served = [model for model in models.all.values() if model.state != "failed"] if name is None else []
    served = served or [models.usable(name)]
    for model in served:
        if model.engine.ready is not None and model.engine.ready.coding == file.coding:
            for each in files:
                each.check_model(file.coding, model.engine.options.precision, model.config, "code")
            return model
    here = []
    for model in served:
        if model.engine.ready is None:
            raise EngineUnavailableError
        here.append(f"{model.id} at {model.engine.options.precision} has {model.engine.ready.coding or 'none'}")
    needed = f"code is of a model with the coding {file.coding} at precision {file.precision}"
    raise InvalidInput(f"{needed}; {', '.join(here)}.", "code", "other_model")
