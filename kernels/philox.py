"""Philox 4x32-10: counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", SC 2011; the constants are Random123's).

Every draw is a pure function of (seed, image index, byte position), with no stream and no state, so an
image's randomness is the same on every device, in every batch and after every restart. Integers only,
up to the last line of `uniforms`, whose results are exact in float32. A word is an element of an int64 tensor
or an int of Python, with which one draw takes a tenth of the time.
"""

from typing import TypeVar

import torch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
ROUNDS = 10

Word = TypeVar("Word", int, torch.Tensor)


def _multiply(constant: int, word: Word) -> tuple[Word, Word]:
    """High and low 32 bits of constant * word; int64 wraps, and the mask undoes the sign."""
    product = word * constant
    return (product >> 32) & _MASK, product & _MASK


def _rounds(c0: Word, c1: Word, c2: Word, c3: Word, k0: Word, k1: Word) -> tuple[Word, Word, Word, Word]:
    for _ in range(ROUNDS):
        high0, low0 = _multiply(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return c0, c1, c2, c3


def philox4x32(counter: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Ten rounds of Philox on `counter` [..., 4] with `key` [..., 2]: [..., 4], all int64 in [0, 2^32)."""
    return torch.stack(_rounds(*counter.unbind(-1), *key.unbind(-1)), dim=-1)


def uniforms(seed: torch.Tensor, index: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Two uniforms in (0, 1) for each pixel: [..., 2] float32.

    seed, index (of the image in its request) and position (of the byte in its image) are int64 tensors
    of shapes that broadcast to [...], all non-negative. The key is the seed; the counter is (position,
    low and high word of the index, 0). The 23 highest bits of a word, plus a half, over 2^23: never 0 nor 1
    (with 24, float32 would round the half away, up to 1 itself).
    """
    seed, index, position = torch.broadcast_tensors(seed, index, position)
    counter = torch.stack((position, index & _MASK, index >> 32, torch.zeros_like(position)), dim=-1)
    key = torch.stack((seed & _MASK, (seed >> 32) & _MASK), dim=-1)
    words = philox4x32(counter, key)[..., :2]
    return ((words >> 9).to(torch.float32) + 0.5) * 2.0**-23


def uniform_pair(seed: int, index: int, position: int) -> tuple[float, float]:
    """The two numbers of `uniforms` for one pixel, the same bit for bit."""
    first, second, _, _ = _rounds(position, index & _MASK, index >> 32, 0, seed & _MASK, (seed >> 32) & _MASK)
    return ((first >> 9) + 0.5) * 2.0**-23, ((second >> 9) + 0.5) * 2.0**-23
