"""Files of lossless codes: the images of one model, each code with its length, and checksums of the pixels.

    magic, version, size of what follows, CRC-32 of what follows
    digest of the model and its arithmetic, precision, height, width, channels
    images, images a code, labels that an image may have (1: no labels are coded)
    checksums, lengths of the codes, codes

Numbers are LEB128, but for checksums, which are little-endian. A checksum of pixels, the low half of a CRC-32, is that
of a *block*: the images of a code, or 32 images with a code each, since two bytes of each would be most of what a file
adds to their bits. Whole blocks are decoded, so that all pixels are checked. A code has at least a byte for each 2^18
bytes of pixels, zeros at its end where it is shorter: what a file claims is bounded by its size.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral
from zlib import crc32

import numpy as np

from scanline.kernels import LARGEST_IMAGE
from scanline.kernels.codec.coder import PRECISION, TOTAL, Decoder, encode
from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import Codes

MAGIC = b"\x93scan\r\n"  # no text, and what changes the ends of lines changes it
VERSION = 1
MEDIA_TYPE = "application/x-scanline-code"
SUFFIX = ".scan"
ALONE = 32  # images of a block, where each has its own code
PIXELS_A_BYTE = 1 << 18  # bytes of pixels to a byte of a code at most; of the highest probability they cost 5.7 bits
MOST_IMAGES = 1 << 22  # of a file; each takes some memory where all are decoded
MOST_A_CODE = 1 << 16
CODE_BYTES = 8192  # of a code by default, about
BUCKETS = 32  # that a length's first bits are divided into
SEEN, MOST_SEEN = 8, 1 << 14  # weight of a length in its bucket; of all, then they are halved
PRECISION_NAME = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)
DIGEST_BYTES = 16


def check_images_a_code(number: int | None) -> None:
    """Raise InvalidInput unless it is None or from 1 to 65,536."""
    if number is not None and (not isinstance(number, Integral) or not 1 <= number <= MOST_A_CODE):
        reason = f"images_a_code must be a whole number from 1 to {MOST_A_CODE:,}, not {number!r}."
        raise InvalidInput(reason, "images_a_code")


def images_a_code(bits: float) -> int:
    """Return into how many images a code is divided by default, where one costs so many bits."""
    return max(1, min(round(8 * CODE_BYTES / max(bits, 1.0)), MOST_A_CODE))


@dataclass(frozen=True)
class CodeFile:
    """Codes of `count` images and what a decoder must know of them."""

    coding: str  # the digest of the model and its arithmetic, hexadecimal
    precision: str
    height: int
    width: int
    channels: int
    count: int
    codes: Codes
    checksums: tuple[int, ...]  # of each block
    labels: int = 1  # that an image may have, with that for no class, where codes.labelled

    @property
    def image_bytes(self) -> int:
        """The bytes of an image."""
        return self.height * self.width * self.channels

    @property
    def block(self) -> int:
        """The images that a checksum is of, the last one of those that are left."""
        return _block(self.codes.length)

    def checked_images(self, wanted: Iterable[int]) -> list[int]:
        """Return the numbers of images; InvalidInput where there are none, or one is not in the file."""
        numbers = list(wanted)
        for number in numbers:
            if not isinstance(number, Integral) or not 0 <= number < self.count:
                raise InvalidInput(f"images must be from 0 to {self.count - 1}, not {number!r}.", "images")
        if not numbers:
            raise InvalidInput("images names no image.", "images")
        return numbers

    def decoded(self, wanted: Collection[int]) -> tuple[int, ...]:
        """Return the images of the blocks that hold the `wanted` ones, in order: those to decode."""
        blocks = sorted({index // self.block for index in wanted})
        ends = ((block * self.block, min((block + 1) * self.block, self.count)) for block in blocks)
        return tuple(index for first, end in ends for index in range(first, end))

    def check_model(self, coding: str, precision: str, config: ModelConfig, param: str = "file") -> None:
        """Raise InvalidInput unless a model of this `coding`, run in this precision, is the one that encoded."""
        if self.coding != coding:
            reason = (
                f"{param} was encoded by another model or kind of device: its coding is {self.coding}, here {coding}."
            )
            if self.precision != precision:
                reason = f"{param} was encoded at precision {self.precision}; this model is loaded at {precision}."
            raise InvalidInput(reason, param, "other_model")
        labels = 1 + len(config.classes)
        is_of_model = self.height == config.height and self.width == config.width and self.channels == config.channels
        if not is_of_model or (self.codes.labelled and self.labels != labels):
            reason = f"{param} contradicts itself: its images are not of the model that it names."
            raise InvalidInput(reason, param, "invalid_code")

    def check(self, indices: Sequence[int], images: np.ndarray, param: str = "file") -> None:
        """Raise InvalidInput where the images [n, N] uint8 that were decoded from whole blocks are not those that were
        encoded."""
        for first in range(0, len(indices), self.block):
            part = images[first : first + self.block]
            if _checksum(part) != self.checksums[indices[first] // self.block]:
                which = f"image {indices[first]}" if len(part) == 1 else f"images {indices[first]} to "
                which += "" if len(part) == 1 else f"{indices[first] + len(part) - 1}"
                reason = f"{param} does not decode to the pixels that it was made of: the checksum of {which} differs."
                raise InvalidInput(reason, param, "checksum_differs")

    def to_bytes(self) -> bytes:
        """Return the file."""
        precision = self.precision.encode()
        codes = [self._filled(code, number) for number, code in enumerate(self.codes.codes)]
        lengths = _packed([len(code) for code in codes])
        rest = b"".join((
            bytes.fromhex(self.coding),
            bytes([len(precision)]) + precision,
            *map(_varint, (self.height, self.width, self.channels, self.count, self.codes.length)),
            _varint(self.labels if self.codes.labelled else 1),
            struct.pack(f"<{len(self.checksums)}H", *self.checksums),
            _varint(len(lengths)) + lengths,
            *codes,
        ))  # fmt: skip
        return MAGIC + bytes([VERSION]) + _varint(len(rest)) + struct.pack("<I", crc32(rest)) + rest

    def _filled(self, code: bytes, number: int) -> bytes:
        """Return a code with as many zeros at its end as it must have."""
        images = min(self.codes.length, self.count - number * self.codes.length)
        return code.ljust(_least_bytes(images * self.image_bytes), b"\0")


def code_file(
    images: np.ndarray,
    codes: Codes,
    shape: tuple[int, int, int],
    coding: str,
    precision: str,
    labels: int = 1,
) -> CodeFile:
    """Return a file of the codes of images [n, N] uint8, each of a shape H, W, C."""
    block = _block(codes.length)
    checksums = tuple(_checksum(images[first : first + block]) for first in range(0, len(images), block))
    return CodeFile(coding, precision, *shape, len(images), codes, checksums, labels)


def read(data: bytes, param: str = "file", most: int = MOST_IMAGES) -> CodeFile:
    """Return what is in a file; InvalidInput, whose sentence begins with `param`, where it is none or is damaged, or
    holds more than `most` images. Nothing is allocated that is larger than a few times the file."""
    rest = _Reader(data, param, f"{param} is cut short.")
    found = data[: len(MAGIC)]
    rest.check(found == MAGIC or MAGIC.startswith(found or b"-"), f"{param} is not a file of Scanline's codes.")
    rest.take(len(MAGIC))
    version = rest.take(1)[0]
    if version != VERSION:
        reason = f"{param} is of version {version} of the format of codes; this Scanline reads version {VERSION}."
        raise InvalidInput(reason, param, "unknown_version")
    size, checksum = rest.number(), int.from_bytes(rest.take(4), "little")
    rest.check(rest.left >= size, f"{param} is cut short: {size - rest.left:,} bytes are missing.")
    rest.check(rest.left == size, f"{param} is damaged: it has {rest.left - size:,} bytes beyond its end.")
    rest.check(crc32(memoryview(data)[rest.at :]) == checksum, f"{param} is damaged: its checksum differs.")
    rest.reason = f"{param} contradicts itself, though its checksum is right: Scanline has not written it."
    return _contents(rest, most)


def _contents(rest: "_Reader", most: int) -> CodeFile:
    """Return what follows the checksum of a file."""
    coding = rest.take(DIGEST_BYTES).hex()
    precision = rest.take(rest.take(1)[0]).decode("latin1")
    height, width, channels, count, length, labels = (rest.number() for _ in range(6))
    bytes_ = height * width * channels
    rest.check(PRECISION_NAME.fullmatch(precision) is not None and 1 <= bytes_ <= LARGEST_IMAGE)
    # A code has at least a byte, a checksum two: both are bounded by the file before anything is made of them.
    rest.check(count >= 1 and length >= 1 and labels >= 1 and -(-count // length) <= rest.left)
    if count > most:
        reason = f"{rest.param} holds {count:,} images; at most {most:,} are decoded at once."
        raise InvalidInput(reason, rest.param, "too_many_images")
    block = _block(length)
    blocks = -(-count // block)
    checksums = struct.unpack(f"<{blocks}H", rest.take(2 * blocks))
    lengths = list(_unpacked(rest.take(rest.number()), -(-count // length), rest.left))
    rest.check(sum(lengths) == rest.left)
    for number, each in enumerate(lengths):
        rest.check(each >= _least_bytes(min(length, count - number * length) * bytes_))
    codes = Codes(tuple(rest.take(each) for each in lengths), length, labels > 1)
    return CodeFile(coding, precision, height, width, channels, count, codes, checksums, labels)


class _Reader:
    """The bytes of a file that have not been taken; InvalidInput with `reason` where there are too few."""

    def __init__(self, data: bytes, param: str, reason: str) -> None:
        self.data, self.param, self.reason = data, param, reason
        self.at = 0

    @property
    def left(self) -> int:
        """How many bytes have not been taken."""
        return len(self.data) - self.at

    def check(self, holds: bool, reason: str | None = None) -> None:
        """Raise InvalidInput where what must be so is not."""
        if not holds:
            raise InvalidInput(reason or self.reason, self.param, "invalid_code")

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self.check(count <= self.left)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Return the next number, below 2^63."""
        value = 0
        for shift in range(0, 63, 7):
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        self.check(False)
        return 0


def _varint(number: int) -> bytes:
    """Return a number in LEB128: 7 bits a byte, the lowest first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _block(length: int) -> int:
    return length if length > 1 else ALONE


def _checksum(images: np.ndarray) -> int:
    return crc32(images.tobytes()) & 0xFFFF


def _least_bytes(pixels: int) -> int:
    """Return how many bytes a code of so many bytes of pixels has at least."""
    return -(-pixels // PIXELS_A_BYTE)


class _Buckets:
    """How often numbers have had the first bits that they have; what was frequent is likely again."""

    def __init__(self) -> None:
        self.weights = [1] * BUCKETS

    def interval(self, bucket: int) -> tuple[int, int]:
        """Return the interval of a bucket in TOTAL."""
        total, before = sum(self.weights), sum(self.weights[:bucket])
        start = before * TOTAL // total
        return start, (before + self.weights[bucket]) * TOTAL // total - start

    def find(self, target: int) -> int:
        """Return the bucket whose interval holds a number."""
        most = ((target + 1) * sum(self.weights) - 1) // TOTAL
        return bisect_right(list(accumulate(self.weights)), most)

    def add(self, bucket: int) -> None:
        self.weights[bucket] += SEEN
        if sum(self.weights) > MOST_SEEN:
            self.weights = [weight + 1 >> 1 for weight in self.weights]


def _packed(numbers: Sequence[int]) -> bytes:
    """Return numbers in the bits that their distribution needs: the first bits are coded by how frequent they are,
    `shift` others as they are."""
    shift = max(max(numbers).bit_length() - (BUCKETS - 1).bit_length(), 0)

    def intervals() -> Iterator[tuple[int, int]]:
        buckets = _Buckets()
        for number in numbers:
            yield buckets.interval(number >> shift)
            yield _low_bits(number, shift)
            buckets.add(number >> shift)

    return bytes([shift]) + encode(intervals())


def _unpacked(data: bytes, count: int, most: int) -> Iterator[int]:
    """Yield `count` numbers, fewer where their sum is above `most`."""
    shift, decoder, buckets, total = min(data[0] if data else 0, PRECISION), Decoder(data[1:]), _Buckets(), 0
    for _ in range(count):
        bucket = buckets.find(decoder.target())
        decoder.take(*buckets.interval(bucket))
        low = decoder.target() >> PRECISION - shift
        decoder.take(*_low_bits(low, shift))
        buckets.add(bucket)
        number = bucket << shift | low
        total += number
        if total > most:
            return
        yield number


def _low_bits(number: int, shift: int) -> tuple[int, int]:
    """Return the interval of the last `shift` bits of a number, all equally likely."""
    width = TOTAL >> shift
    return (number & (1 << shift) - 1) * width, width
