"""Arithmetic coding: a message is a number, and each symbol the part of an interval that it lies in
(Martin, "Range encoding", 1979; Moffat, Neal and Witten, "Arithmetic coding revisited", 1998).

A symbol is an interval [start, start + width) of TOTAL. Numbers stay below 2^48, so that float64
holds them too. Bytes beyond the end of a code are 0: an encoder drops the zeros at its end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PRECISION = 24
TOTAL = 1 << PRECISION
WHOLE = 1 << 48  # the range of an encoder that has encoded nothing
MIN_RANGE = 1 << 40  # of a range; below it, a byte is moved


@dataclass(slots=True)
class Decoder:
    """A decoder that has read the first `at` bytes of a code; `value` and `range` are those of
    Moffat et al."""

    code: bytes
    at: int = 0
    value: int = 0
    range: int = 1

    def __post_init__(self) -> None:
        self._fill()

    def target(self) -> int:
        """Return a number of the next symbol's interval."""
        return min(self.value // (self.range >> PRECISION), TOTAL - 1)

    def take(self, start: int, width: int) -> None:
        """Go past the symbol whose interval is [start, start + width)."""
        unit = self.range >> PRECISION
        self.range = unit * width
        # it is below but for what is no code
        self.value = min(self.value - unit * start, self.range - 1)
        self._fill()

    def _fill(self) -> None:
        while self.range < MIN_RANGE:
            byte = self.code[self.at] if self.at < len(self.code) else 0
            self.value = (self.value << 8) | byte
            self.range <<= 8
            self.at += 1


def longest_code(symbols: int) -> int:
    """Return how many bytes so many symbols take of a code at most."""
    return 3 * symbols + 16  # a symbol has 24 bits at most, and what rounding costs


class Encoder:
    """The code of symbols, each given by its (start, width), that are added little by little."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.low = 0
        self.range = WHOLE

    def add(self, intervals: Iterable[Sequence[int]]) -> None:
        """Encode symbols; ValueError for a width below 1: no number lies in such an interval."""
        code = self.code
        low = self.low
        range_ = self.range
        for start, width in intervals:
            if width < 1:
                raise ValueError(f"a symbol has an interval of width {width}")
            unit = range_ >> PRECISION
            low += unit * start
            range_ = unit * width
            if low >= WHOLE:
                _carry(code)
                low -= WHOLE
            while range_ < MIN_RANGE:
                code.append(low >> 40)
                low = (low << 8) & (WHOLE - 1)
                range_ <<= 8
        self.low = low
        self.range = range_

    def finish(self) -> bytes:
        """Return the shortest code of the symbols: at most 1 byte longer than their bits."""
        # of the numbers in the last interval, the one with most zeros at its end
        for zeros in range(48, -1, -8):
            rounded = -(-self.low >> zeros)  # up
            number = rounded << zeros
            if number < self.low + self.range:
                break
        if number >= WHOLE:
            _carry(self.code)
        rest = number & (WHOLE - 1)
        return bytes(self.code + rest.to_bytes(6, "big")).rstrip(b"\0")


def encode(intervals: Iterable[Sequence[int]]) -> bytes:
    """Return the code of symbols; see Encoder."""
    encoder = Encoder()
    encoder.add(intervals)
    return encoder.finish()


def _carry(code: bytearray) -> None:
    """Add 1 to the number that is written."""
    last = len(code) - 1
    while code[last] == 255:
        code[last] = 0
        last -= 1
    code[last] += 1
