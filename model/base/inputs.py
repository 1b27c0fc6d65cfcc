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
    if callable(to_list):
        return to_list()
    return value


def switch(value: Any, param: str) -> bool:
    """Return a user's True or False, of Python, numpy or torch; InvalidInput where it is neither."""
    value = plain_value(value)
    if not isinstance(value, bool):
        raise InvalidInput(f"{param} must be True or False, not {shown(value)}.", param)
    return value


def number(value: Any, param: str) -> float:
    """Return a user's number, of Python, numpy or torch; InvalidInput where it is none."""
    value = plain_value(value)
    try:
        if _is_number(value):
            return float(value)
    except OverflowError:
        pass
    raise InvalidInput(f"{param} must be a number, not {shown(value)}.", param)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def whole_number(value: Any, least: int, most: int | None, param: str, limits: str = "") -> int:
    """Return a user's whole number, of Python, numpy or torch, such as 7 or 7.0; InvalidInput where
    it is none, or not from `least` to `most`; limits: these in words."""
    value = plain_value(value)
    is_whole = _is_number(value) and value % 1 == 0  # NaN and infinity are not
    if is_whole and least <= value and (most is None or value <= most):
        return int(value)
    if not limits:
        limits = f"of at least {least}" if most is None else f"from {least} to {most:,}"
    raise InvalidInput(f"{param} must be a whole number {limits}, not {shown(value)}.", param)


def shown(value: object) -> str:
    """Return a value for a message, which it does not fill."""
    text = repr(value)
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}..."
    return text


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
    named = []
    for part in parts:
        match = RANGE.fullmatch(part)
        if match is None:
            raise InvalidInput(
                f"{param} must be numbers and ranges, such as 3,17-20, not {part[:40]!r}.", param
            )
        first = int(match[1])
        last = int(match[2] or match[1])
        if not first <= last < count:
            raise InvalidInput(f"{param}: {part} is not among the images 0 to {count - 1}.", param)
        named.append(range(first, last + 1))
    return named
