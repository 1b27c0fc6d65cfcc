"""Checks of what users ask for, shared by the HTTP API, the command line and Python."""

import re
import secrets
from numbers import Real
from typing import Any

MAX_SEED = 2**63 - 1
DRAWN_SEED_BITS = 53  # of a seed that we draw: JavaScript reads it back without loss
MAX_SHOWN = 100  # characters of a value in a message
MAX_RANGES = 1024  # of images that are chosen by their numbers
RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?", re.ASCII)
SEPARATOR = re.compile(r"[\s,]+")


class InvalidInput(ValueError):  # noqa: N818 (it is the caller's mistake, not an error of ours)
    """One invalid value: a sentence, the parameter it is about, a code for programs.

    The API answers it with 400, the command line prints its sentence and exits with 2.
    """

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


def plain_value(value: Any) -> Any:
    """Return what a Python user gives as Python has it: numbers and texts of numpy and torch,
    arrays as lists."""
    to_list = getattr(value, "tolist", None)
    return to_list() if callable(to_list) else value


def switch(value: Any, param: str) -> bool:
    """Return a user's True or False, of Python, numpy or torch; InvalidInput where it is neither."""
    found = plain_value(value)
    if not isinstance(found, bool):
        raise InvalidInput(f"{param} must be True or False, not {shown(found)}.", param)
    return found


def number(value: Any, param: str) -> float:
    """Return a user's number, of Python, numpy or torch; InvalidInput where it is none."""
    found = plain_value(value)
    try:
        if isinstance(found, Real) and not isinstance(found, bool):
            return float(found)
    except OverflowError:
        pass
    raise InvalidInput(f"{param} must be a number, not {shown(found)}.", param)


def whole_number(value: Any, least: int, most: int | None, param: str, limits: str = "") -> int:
    """Return a user's whole number, of Python, numpy or torch, such as 7 or 7.0; InvalidInput where
    it is none, or not from `least` to `most`; limits: these in words."""
    found = plain_value(value)
    is_number = isinstance(found, Real) and not isinstance(found, bool)
    if (
        not is_number
        or not least <= found
        or found == float("inf")
        or not (most is None or found <= most)
        or found % 1
    ):
        limits = limits or (f"of at least {least}" if most is None else f"from {least} to {most:,}")
        raise InvalidInput(f"{param} must be a whole number {limits}, not {shown(found)}.", param)
    return int(found)


def shown(value: object) -> str:
    """Return a value for a message, which it does not fill."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def draw_seed() -> int:
    """Return a random seed, for a caller that gave none."""
    return secrets.randbits(DRAWN_SEED_BITS)


def checked_seed(seed: int | None) -> int:
    """Return the seed, or a drawn one for None and -1; InvalidInput outside 0..MAX_SEED."""
    if seed is None or (isinstance(seed, Real) and seed == -1):
        return draw_seed()
    return whole_number(seed, 0, MAX_SEED, "seed", "from 0 to 2^63 - 1")


def check_count(images: int, most: int, param: str, counted: str = "") -> None:
    """Raise InvalidInput where a request has more than `most` images; `counted`: how often each is."""
    if images > most:
        how = f", each counted {counted}," if counted else ""
        raise InvalidInput(
            f"{param}: {images} images{how} exceed the limit of {most} per request.", param
        )


def ranges(text: str, count: int, param: str) -> list[range]:
    """Return which of `count` things a text names by numbers from 0 and ranges, such as 3,17-20;
    InvalidInput where it names something else."""
    parts = SEPARATOR.split(text.strip(), MAX_RANGES)
    if len(parts) > MAX_RANGES:
        raise InvalidInput(f"{param} may have at most {MAX_RANGES} numbers and ranges.", param)
    found = []
    for part in parts:
        if not (match := RANGE.fullmatch(part)):
            raise InvalidInput(
                f"{param} must be numbers and ranges, such as 3,17-20, not {part[:40]!r}.", param
            )
        first = int(match[1])
        last = int(match[2] or match[1])
        if not first <= last < count:
            raise InvalidInput(f"{param}: {part} is not among the images 0 to {count - 1}.", param)
        found.append(range(first, last + 1))
    return found
