"""Checks of what users ask for, shared by the HTTP API, the command line and Python."""

import re
import secrets
from numbers import Integral

MAX_SEED = 2**63 - 1
DRAWN_SEED_BITS = 53  # of a seed that we draw: JavaScript reads it back without loss
MAX_RANGES = 1024  # of images that are chosen by their numbers
RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?", re.ASCII)
SEPARATOR = re.compile(r"[\s,]+")


class InvalidInput(ValueError):  # noqa: N818 (it is the caller's mistake, not an error of ours)
    """One invalid value: a sentence, the parameter it is about, a code for programs.

    The API answers it with 400, the command line prints its sentence and exits with 2.
    """

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code


def draw_seed() -> int:
    """Return a random seed, for a caller that gave none."""
    return secrets.randbits(DRAWN_SEED_BITS)


def checked_seed(seed: int | None) -> int:
    """Return the seed, or a drawn one for None and -1; InvalidInput outside 0..MAX_SEED."""
    if seed is None or seed == -1:
        return draw_seed()
    if not isinstance(seed, Integral) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput(f"seed must be a whole number from 0 to 2^63 - 1, not {seed!r}.", "seed")
    return int(seed)


def check_count(images: int, most: int, param: str, counted: str = "") -> None:
    """Raise InvalidInput where a request has more than `most` images; `counted`: how often each is."""
    if images > most:
        how = f", each counted {counted}," if counted else ""
        raise InvalidInput(f"{param}: {images} images{how} exceed the limit of {most} per request.", param)


def ranges(text: str, count: int, param: str) -> list[range]:
    """Return which of `count` things a text names by numbers from 0 and ranges, such as 3,17-20; InvalidInput where it
    names something else."""
    parts = SEPARATOR.split(text.strip(), MAX_RANGES)
    if len(parts) > MAX_RANGES:
        raise InvalidInput(f"{param} may have at most {MAX_RANGES} numbers and ranges.", param)
    found = []
    for part in parts:
        if not (match := RANGE.fullmatch(part)):
            raise InvalidInput(f"{param} must be numbers and ranges, such as 3,17-20, not {part[:40]!r}.", param)
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < count:
            raise InvalidInput(f"{param}: {part} is not among the images 0 to {count - 1}.", param)
        found.append(range(first, last + 1))
    return found
