"""Images to a file of codes and back, without a server: through the engine, as a server's are."""

from collections.abc import Callable, Sequence

import numpy as np

from scanline.model.formats.code_file import CodeFile, code_file
from scanline.model.inputs import InvalidInput
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.encoding import Encoder
from scanline.model.sampling.messages import Finished, GenerateRequest, Scored, ScoreRequest
from scanline.model.sampling.offline import loaded_engine, run

Progress = Callable[[int], None]  # called with the bytes read or painted so far
PAINTED_AT_ONCE = 1 << 26  # bytes of images, which their number bounds


def compress(
    model: Transformer,
    images: np.ndarray,
    labels: Sequence[int] = (),
    length: int | None = None,
    *,
    threads: int | None = None,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Progress = lambda bytes_read: None,
) -> CodeFile:
    """Return the codes of images [n, N] uint8. labels: [n], with which images are read a second time, to use those that
    make the file shorter. length: the images of a code, by default as many as make it about 8 KB."""
    config, rows = model.config, tuple(image.tobytes() for image in images)
    requests = [ScoreRequest(0, rows, coded=True)]
    if any(labels):
        requests.append(ScoreRequest(1, rows, tuple(labels), coded=True))
    encoder = Encoder(1 + len(config.classes) if any(labels) else 1, length)
    found: tuple[dict[int, bytes], ...] = tuple({} for _ in requests)  # intervals that are not encoded, by image
    done = encoded = 0
    with loaded_engine(model, 1, threads=threads, precision=precision, backend=backend) as engine:
        for events in run(engine, *requests):
            for event in events:
                if isinstance(event, Scored):
                    found[event.request][event.index] = event.intervals
                    done += 1
            while all(encoded in intervals for intervals in found):
                plain, *under_label = (intervals.pop(encoded) for intervals in found)
                encoder.add(plain, labels[encoded] if under_label else 0, *under_label)
                encoded += 1
            progress(done * config.bytes)
        coding = engine.generator.coding
    shape = config.height, config.width, config.channels
    return code_file(images, encoder.finish(), shape, coding, precision, encoder.labels)


def decompress(
    model: Transformer,
    file: CodeFile,
    wanted: Sequence[int] | None = None,
    param: str = "file",
    *,
    threads: int | None = None,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Progress = lambda bytes_painted: None,
) -> np.ndarray:
    """Return images [n, N] uint8 of a file, the `wanted` ones in their order or all; InvalidInput where the model did
    not encode them, or they are not what was encoded."""
    config = model.config
    order = range(file.count) if wanted is None else wanted
    decoded = file.decoded(order)
    row_of = {index: row for row, index in enumerate(decoded)}
    try:
        images = np.empty((len(decoded), config.bytes), np.uint8)
    except MemoryError:
        reason = f"{param} holds more images than the memory has room for: decode some of them."
        raise InvalidInput(reason, param) from None
    at_once = max(PAINTED_AT_ONCE // (config.bytes * file.block), 1) * file.block
    slots = -(-min(len(decoded), at_once) // file.codes.length)
    with loaded_engine(model, slots, threads=threads, precision=precision, backend=backend) as engine:
        file.check_model(engine.generator.coding, precision, config, param)
        for first in range(0, len(decoded), at_once):
            part, finished = decoded[first : first + at_once], first
            request = GenerateRequest(0, file.count, 0, codes=file.codes).shard(part)
            for events in run(engine, request):
                for event in events:
                    if isinstance(event, Finished):
                        images[row_of[event.index]] = np.frombuffer(event.image, np.uint8)
                        finished += 1
                in_flight = list(engine.scheduler.assigned)
                progress(finished * config.bytes + int(engine.scheduler.positions[in_flight].sum()))
            file.check(part, images[first : first + at_once], param)
    return images if wanted is None else images[[row_of[index] for index in wanted]]
