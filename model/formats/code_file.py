"""Files of lossless codes: the images of one model, each code with its length, and checksums of the
pixels.

    magic, version, size of what follows, CRC-32 of what follows
    digest of the model and its arithmetic, precision, height, width, channels
    images, images a code, labels that an image may have (1: no labels are coded)
    checksums, lengths of the codes, codes

Numbers are LEB128, but for checksums, which are little-endian. A checksum of pixels, the low half
of a CRC-32, is that of a *block*: the images of a code, or 32 images with a code each, since two
bytes of each would be most of what a file adds to their bits. Whole blocks are decoded, so that all
pixels are checked. A code has at least a byte for each 2^18 bytes of pixels, zeros at its end where
it is shorter: what a file claims is bounded by its size.
"""

import re
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scanline.kernels import LARGEST_IMAGE
from scanline.kernels.codec.coder import TOTAL
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput, plain_value, whole_number

MAGIC = b"\x93scan\r\n"  # no text, and what changes the ends of lines changes it
VERSION = 1
MEDIA_TYPE = "application/x-scanline-code"
SUFFIX = ".scan"
ALONE = 32  # images of a block, where each has its own code
# bytes of pixels to a byte of a code at most; of the highest probability they cost 5.7 bits
PIXELS_A_BYTE = 1 << 18
MAX_IMAGES = 1 << 22  # of a file; each takes some memory where all are decoded
# images that are decoded where their numbers are not given: a small file may hold millions
MAX_AT_ONCE = 100_000
MAX_A_CODE = 1 << 12  # which are decoded one after the other, before their checksum
CODE_BYTES = 8192  # of a code by default, about
FIRST_BITS = 5  # of the lengths of codes: those whose values are not equally likely
MAX_SHIFT = 24  # the bits after them: a code is shorter than 2^29 bytes
PRECISION_NAME = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)
DIGEST_BYTES = 16


def checked_images_a_code(number: int | None) -> int | None:
    """Return it; InvalidInput unless it is None or from 1 to MAX_A_CODE."""
    return None if number is None else whole_number(number, 1, MAX_A_CODE, "images_a_code")


def images_a_code(bits: float) -> int:
    """Return into how many images a code is divided by default, where one costs so many bits."""
    return max(1, min(round(8 * CODE_BYTES / max(bits, 1.0)), MAX_A_CODE))


def label_width(labels: int) -> int:
    """Return how wide the interval of each of so many labels is: that of label l begins at l times
    as much."""
    return TOTAL // labels


@dataclass(frozen=True)
class Codes:
    """Codes of images: each of `length` of them, one after the other, the last one of those that
    are left."""

    codes: tuple[bytes, ...]
    length: int = 1
    # of each code whether the bytes of its images begin with their labels, one of all, with none,
    # equally likely; empty: no code has labels
    labelled: tuple[bool, ...] = ()

    def is_labelled(self, number: int) -> bool:
        """Return whether the images of a code have labels."""
        return bool(self.labelled) and self.labelled[number]

    def last_of(self, images: Iterable[int]) -> dict[int, int]:
        """Return which of some images is the last one of its code, by the number of the code."""
        return {index // self.length: index for index in sorted(images)}


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
        """Return the numbers of images; InvalidInput where there are none, or one is not in the
        file."""
        values = plain_value(wanted)
        if not isinstance(values, Iterable):
            values = [values]
        numbers = [whole_number(value, 0, self.count - 1, "images") for value in values]
        if not numbers:
            raise InvalidInput("images names no image.", "images")
        return numbers

    def decoded(self, wanted: Collection[int]) -> tuple[int, ...]:
        """Return the images of the blocks that hold the `wanted` ones, in order: those to
        decode."""
        indices: list[int] = []
        for block in sorted({index // self.block for index in wanted}):
            first = block * self.block
            indices += range(first, min(first + self.block, self.count))
        return tuple(indices)

    def check_model(
        self, codings: Sequence[str], precision: str, config: ModelConfig, param: str = "file"
    ) -> None:
        """Raise InvalidInput unless a model of one of these codings, run in this precision, is the
        one that encoded."""
        if self.coding not in codings:
            other = f"by another model or kind of device: its coding is {self.coding}, here"
            other += f" {codings[0]}"
            if self.precision != precision:
                other = f"at precision {self.precision}; this model is loaded at {precision}"
            raise InvalidInput(f"{param} was encoded {other}.", param, "other_model")
        shape = (self.height, self.width, self.channels)
        has_shape = shape == (config.height, config.width, config.channels)
        labels = 1 + len(config.classes)
        if not has_shape or (self.codes.labelled and self.labels != labels):
            reason = f"{param} contradicts itself: its images are not of the model that it names."
            raise InvalidInput(reason, param, "invalid_code")

    def check(self, indices: Sequence[int], images: np.ndarray, param: str = "file") -> None:
        """Raise InvalidInput where the images [n, N] uint8 that were decoded from whole blocks
        are not those that were encoded."""
        for first in range(0, len(indices), self.block):
            part = images[first : first + self.block]
            index = indices[first]
            if _checksum(part) != self.checksums[index // self.block]:
                which = f"image {index}"
                if len(part) > 1:
                    which = f"images {index} to {index + len(part) - 1}"
                reason = f"{param} does not decode to the pixels that it was made of:"
                reason += f" the checksum of {which} differs."
                raise InvalidInput(reason, param, "checksum_differs")

    def to_bytes(self) -> bytes:
        """Return the file."""
        precision = self.precision.encode()
        codes = [self._filled(code, number) for number, code in enumerate(self.codes.codes)]
        lengths = _packed([len(code) for code in codes])
        rest = bytearray.fromhex(self.coding)
        rest += bytes([len(precision)]) + precision
        labels = self.labels if self.codes.labelled else 1
        length = self.codes.length
        for number in (self.height, self.width, self.channels, self.count, length, labels):
            rest += _varint(number)
        rest += struct.pack(f"<{len(self.checksums)}H", *self.checksums)
        rest += _varint(len(lengths)) + lengths
        rest += b"".join(codes)
        checksum = struct.pack("<I", zlib.crc32(rest))
        return MAGIC + bytes([VERSION]) + _varint(len(rest)) + checksum + rest

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
    starts = range(0, len(images), block)
    checksums = tuple(_checksum(images[start : start + block]) for start in starts)
    return CodeFile(coding, precision, *shape, len(images), codes, checksums, labels)


def read(data: bytes, param: str = "file", most: int = MAX_IMAGES) -> CodeFile:
    """Return what is in a file; InvalidInput, whose sentence begins with `param`, where it
    is none or is damaged, or holds more than `most` images. Nothing is allocated that is
    larger than a few times the file."""
    rest = _Reader(data, param, f"{param} is cut short.")
    begin = data[: len(MAGIC)]  # of a file that is cut short, less
    is_codes = begin != b"" and MAGIC.startswith(begin)
    rest.check(is_codes, f"{param} is not a file of Scanline's codes.")
    rest.take(len(MAGIC))
    version = rest.take(1)[0]
    if version != VERSION:
        reason = f"{param} is of version {version} of the format of codes; this Scanline reads"
        reason += f" version {VERSION}."
        raise InvalidInput(reason, param, "unknown_version")
    size = rest.number()
    checksum = int.from_bytes(rest.take(4), "little")
    more = rest.left - size
    rest.check(more >= 0, f"{param} is cut short: {-more:,} bytes are missing.")
    rest.check(more == 0, f"{param} is damaged: it has {more:,} bytes beyond its end.")
    is_whole = zlib.crc32(memoryview(data)[rest.at :]) == checksum
    rest.check(is_whole, f"{param} is damaged: its checksum differs.")
    rest.reason = (
        f"{param} contradicts itself, though its checksum is right: Scanline has not written it."
    )
    return _contents(rest, most)


def _contents(rest: "_Reader", most: int) -> CodeFile:
    coding = rest.take(DIGEST_BYTES).hex()
    precision = rest.take(rest.take(1)[0]).decode("latin1")
    rest.check(PRECISION_NAME.fullmatch(precision) is not None)
    height = rest.number()
    width = rest.number()
    channels = rest.number()
    count = rest.number()
    length = rest.number()
    labels = rest.number()
    image_bytes = height * width * channels
    rest.check(1 <= image_bytes <= LARGEST_IMAGE)
    rest.check(count >= 1 and labels >= 1 and 1 <= length <= MAX_A_CODE)
    # A code has at least a byte, a checksum two: both are bounded by the file before anything is
    # made of them. The number of an image among those of several files is a multiple of the length.
    number_of_codes = -(-count // length)
    rest.check(number_of_codes <= rest.left)
    if count > most:
        reason = f"{rest.param} holds {count:,} images; at most {most:,} are decoded at once."
        raise InvalidInput(reason, rest.param, "too_many_images")
    block = _block(length)
    blocks = -(-count // block)
    checksums = struct.unpack(f"<{blocks}H", rest.take(2 * blocks))
    lengths = _unpacked(rest, number_of_codes)
    least = np.full(number_of_codes, _least_bytes(length * image_bytes))
    # of the images that are left
    least[-1] = _least_bytes((count - (number_of_codes - 1) * length) * image_bytes)
    rest.check(bool((lengths >= least).all()) and int(lengths.sum()) == rest.left)
    codes = [rest.take(size) for size in lengths.tolist()]
    return CodeFile(
        coding,
        precision,
        height,
        width,
        channels,
        count,
        Codes(tuple(codes), length, (True,) * len(codes) if labels > 1 else ()),
        checksums,
        labels,
    )


class _Reader:
    """The bytes of a file that have not been taken; InvalidInput with `reason` where there are too
    few."""

    def __init__(self, data: bytes, param: str, reason: str) -> None:
        self.data = data
        self.param = param
        self.reason = reason
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
    data = bytearray()
    while number > 127:
        data.append((number & 127) | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def _block(length: int) -> int:
    return length if length > 1 else ALONE


def _checksum(images: np.ndarray) -> int:
    return zlib.crc32(images.tobytes()) & 0xFFFF


def _least_bytes(pixels: int) -> int:
    """Return how many bytes a code of so many bytes of pixels has at least."""
    return -(-pixels // PIXELS_A_BYTE)


def _packed(lengths: Sequence[int]) -> bytes:
    """Return the lengths of codes in about the bits that their distribution needs: their first bits
    in Huffman's code, the others as they are. That of a single code is all that is left."""
    if len(lengths) == 1:
        return b""
    numbers = np.array(lengths, np.int64)
    shift = max(int(numbers.max()).bit_length() - FIRST_BITS, 0)
    first = (numbers >> shift).astype(np.uint8)
    others = (numbers[:, None] >> np.arange(shift)) & 1
    huffman = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_HUFFMAN_ONLY)
    packed = huffman.compress(first.tobytes()) + huffman.flush()
    return bytes([shift]) + packed + np.packbits(others.astype(np.uint8)).tobytes()


def _unpacked(rest: "_Reader", count: int) -> np.ndarray:
    """Take the lengths [count] int64 of codes."""
    data = rest.take(rest.number())
    if count == 1:
        rest.check(not data)
        return np.array([rest.left])
    rest.check(data[:1] != b"" and data[0] <= MAX_SHIFT)
    shift = data[0]
    huffman = zlib.decompressobj(-15)
    try:
        first = huffman.decompress(data[1:], count)
    except zlib.error:
        first = b""
    others = huffman.unused_data
    bits = count * shift
    rest.check(len(first) == count and huffman.eof and len(others) == -(-bits // 8))
    planes = np.unpackbits(np.frombuffer(others, np.uint8), count=bits).reshape(count, shift)
    lengths = np.frombuffer(first, np.uint8).astype(np.int64) << shift
    for bit in range(shift):
        lengths |= planes[:, bit].astype(np.int64) << bit
    return lengths
