"""Philox 4x32-10: counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", SC 2011; the constants are Random123's).

Every draw is a pure function of its counter and key, with no stream and no state. Words are
integers in [0, 2^32): ints of Python, or elements of int64 tensors. Imports no torch, for processes
without it; philox.py has the tensors.
"""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

MASK = 0xFFFFFFFF
ROUNDS = 10
UNIT = 2.0**-23  # of a uniform
_MULTIPLIER_0 = 0xD2511F53
_MULTIPLIER_1 = 0xCD9E8D57
_KEY_STEP_0 = 0x9E3779B9
_KEY_STEP_1 = 0xBB67AE85

Word = TypeVar("Word", int, "torch.Tensor")


def philox(
    c0: Word, c1: Word, c2: Word, c3: Word, k0: Word, k1: Word
) -> tuple[Word, Word, Word, Word]:
    """Return the words of a counter after ten rounds with those of a key."""
    for _ in range(ROUNDS):
        high0, low0 = _multiply(_MULTIPLIER_0, c0)
        high1, low1 = _multiply(_MULTIPLIER_1, c2)
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        k0 = (k0 + _KEY_STEP_0) & MASK
        k1 = (k1 + _KEY_STEP_1) & MASK
    return c0, c1, c2, c3


def uniform_pair(seed: int, index: int, position: int) -> tuple[float, float]:
    """Return the two numbers of philox.py's `uniforms` for one byte, the same bit for bit, in a
    tenth of the time."""
    low_seed = seed & MASK
    high_seed = (seed >> 32) & MASK
    first, second, _, _ = philox(position, index & MASK, index >> 32, 0, low_seed, high_seed)
    return ((first >> 9) + 0.5) * UNIT, ((second >> 9) + 0.5) * UNIT


def _multiply(constant: int, word: Word) -> tuple[Word, Word]:
    """Return high and low 32 bits of constant * word; int64 wraps, and the mask undoes the sign."""
    product = word * constant
    return (product >> 32) & MASK, product & MASK
