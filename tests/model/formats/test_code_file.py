"""Files of codes: what is written is read, at the cost of its bits; what was
changed is refused in one sentence.
"""

import tracemalloc
from contextlib import suppress
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.base.inputs import InvalidInput
from scanline.model.formats import code_file as code_file_module
from scanline.model.formats.code_file import (
    MAGIC,
    MAX_A_CODE,
    PIXELS_A_BYTE,
    Codes,
    code_file,
    read,
)

SHAPE = (2, 3, 1)
CODING = "00112233445566778899aabbccddeeff"
RANDOM = np.random.default_rng(7)


def some_file(count, length, labels=1, mean=60, deviation=28):
    """A file of `count` images whose codes have random bytes, and lengths as digits have."""
    sizes = (
        RANDOM.normal(mean * length, deviation * length**0.5, -(-count // length))
        .clip(1)
        .astype(int)
    )
    images = RANDOM.integers(256, size=(count, 6), dtype=np.uint8)
    labelled = (True,) * len(sizes) if labels > 1 else ()
    codes = Codes(tuple(RANDOM.bytes(size) for size in sizes), length, labelled)
    return code_file(images, codes, SHAPE, CODING, "exact", labels)


def rest_of(data):
    """What follows the checksum of a file."""
    size_bytes = 1 if data[len(MAGIC) + 1] < 128 else 2
    return data[len(MAGIC) + 1 + size_bytes + 4 :]


def with_checksum(rest):
    """A file of which this follows the checksum, whatever it says."""
    return MAGIC + b"\1" + leb128(len(rest)) + crc32(rest).to_bytes(4, "little") + rest


def leb128(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + leb128(number >> 7)


@pytest.mark.parametrize(
    "size",
    [
        (1, 1, 1),
        (1, 128, 11),
        (300, 7, 1),
        (300, 1, 11),
        (40, 20, 1),
    ],
)
def test_what_is_written_is_read(size):
    file = some_file(*size)
    assert read(file.to_bytes()) == file


def test_a_code_of_nothing_but_zeros_has_the_bytes_that_bound_what_a_file_claims():
    file = code_file(
        np.zeros((3, 1), np.uint8), Codes((b"", b"\1"), 2), (512, 512, 3), CODING, "exact"
    )
    assert read(file.to_bytes()).codes.codes == (bytes(6), b"\1\0\0")
    assert 6 * PIXELS_A_BYTE == 2 * 512 * 512 * 3


def test_the_images_of_whole_blocks_are_decoded_and_checked():
    images = RANDOM.integers(256, size=(40, 6), dtype=np.uint8)
    for length, expected in (
        (1, (*range(32),)),
        (7, (*range(14, 21), *range(28, 35))),
        (50, (*range(40),)),
    ):
        file = code_file(images, Codes((b"?",) * -(-40 // length), length), SHAPE, CODING, "exact")
        decoded = file.decoded([18, 30])
        assert decoded == expected
        file.check(decoded, images[list(decoded)])
        wrong = images[list(decoded)]
        wrong[-1, 5] ^= 1
        with pytest.raises(
            InvalidInput,
            match=r"file does not decode to the pixels .* images \d+ to \d+ differs\.$",
        ):
            file.check(decoded, wrong)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "file is not a file of Scanline's codes."),
        (b"\x89PNG\r\n\x1a\n", "file is not a file of Scanline's codes."),
        (MAGIC[:3], "file is cut short."),
        (some_file(9, 2).to_bytes()[:-3], "file is cut short: 3 bytes are missing."),
        (some_file(9, 2).to_bytes() + b"??", "file is damaged: it has 2 bytes beyond its end."),
        (some_file(9, 2).to_bytes()[:-1] + b"?", "file is damaged: its checksum differs."),
        (
            MAGIC + b"\2" + some_file(9, 2).to_bytes()[len(MAGIC) + 1 :],
            "file is of version 2 of the format of codes; this Scanline reads version 1.",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(data, sentence):
    with pytest.raises(InvalidInput) as refused:
        read(data)
    assert refused.value.message == sentence


def test_a_length_that_lies_and_images_that_cannot_be_there_are_refused():
    file = some_file(9, 2)
    honest = b"exact" + bytes(SHAPE) + bytes([9, 2])
    for count, length in ((9, 3), (7, 2), (2**62, 2), (2**62, 2**61), (0, 1), (9, 2**62)):
        lying = honest[:-2] + leb128(count) + leb128(length)
        data = with_checksum(rest_of(file.to_bytes()).replace(honest, lying))
        tracemalloc.start()
        with pytest.raises(InvalidInput, match=r"file (contradicts itself|holds 4,6)"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
        tracemalloc.stop()
    alone = some_file(3, MAX_A_CODE)
    assert read(alone.to_bytes()) == alone
    for length in (MAX_A_CODE + 1, 2**62):
        with pytest.raises(InvalidInput, match="file contradicts itself"):
            read(replace(alone, codes=replace(alone.codes, length=length)).to_bytes())
    with pytest.raises(InvalidInput, match="file holds 9 images; at most 8 are decoded at once"):
        read(file.to_bytes(), most=8)


@pytest.mark.parametrize(("first", "last", "is_read"), [(3, 2, True), (2, 2, False), (3, 1, False)])
def test_a_code_has_a_byte_for_so_many_of_pixels(first, last, is_read):
    """A file of three images, two and one to a code, which claims a
    row more than those of a byte each.
    """
    images = np.zeros((3, 1), np.uint8)
    file = code_file(images, Codes((b"?" * first, b"?" * last), 2), (256, 512, 2), CODING, "exact")
    lying = rest_of(file.to_bytes()).replace(leb128(256) + leb128(512), leb128(257) + leb128(512))
    if is_read:
        assert read(with_checksum(lying)).height == 257
    else:
        with pytest.raises(InvalidInput, match="file contradicts itself"):
            read(with_checksum(lying))


@pytest.mark.parametrize(("shift", "is_read"), [(24, True), (25, False)])
def test_lengths_have_at_most_so_many_bits(shift, is_read, monkeypatch):
    file = some_file(2, 1)
    longest = max(map(len, file.codes.codes)).bit_length()
    monkeypatch.setattr(code_file_module, "FIRST_BITS", longest - shift)
    data = file.to_bytes()
    if is_read:
        assert read(data) == file
    else:
        with pytest.raises(InvalidInput, match="file contradicts itself"):
            read(data)


@pytest.mark.parametrize("byte", [0x00FF, 0xFF00])
def test_each_byte_of_a_checksum_is_compared(byte):
    pictures = RANDOM.integers(256, size=(10_000, 1, 6), dtype=np.uint8)
    file = code_file(pictures[0], Codes((b"?",)), SHAPE, CODING, "exact")
    differences = [(crc32(picture.tobytes()) ^ file.checksums[0]) & 0xFFFF for picture in pictures]
    other = next(number for number, bits in enumerate(differences) if bits and not bits & ~byte)
    with pytest.raises(InvalidInput, match="does not decode"):
        file.check((0,), pictures[other])


FILE = some_file(20, 3, labels=11).to_bytes()
CHANGES = st.lists(
    st.tuples(st.integers(0, len(FILE) - 1), st.integers(0, 255)), min_size=1, max_size=4
)


@given(CHANGES, st.integers(0, len(FILE) - 1))
def test_a_changed_file_is_refused(changes, end):
    changed = changed_bytes(FILE, changes)
    for wrong in (FILE[:end], changed[:end], changed):
        if wrong != FILE:
            with pytest.raises(InvalidInput):
                read(wrong)


@given(CHANGES)
def test_a_changed_file_whose_checksum_is_right_claims_no_more_than_it_can_hold(
    changes,
):
    data = with_checksum(changed_bytes(rest_of(FILE), changes))
    with suppress(InvalidInput):
        found = read(data)
        assert sum(map(len, found.codes.codes)) <= len(data)
        assert found.count * found.image_bytes <= PIXELS_A_BYTE * len(data)


def changed_bytes(data, changes):
    changed = bytearray(data)
    for at, value in changes:
        changed[at % len(changed)] = value
    return bytes(changed)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused(data):
    for start in (b"", MAGIC + b"\1"):
        with pytest.raises(InvalidInput):
            read(start + data)
