"""The random numbers of images: Philox 4x32-10 (philox_rounds.py) on tensors.

Every draw is a pure function of (seed, image index, byte position), with no stream and no state, so
an image's randomness is the same on every device, in every batch and after every restart. Integers
only, up to the last line of `uniforms`, whose results are exact in float32.
"""

import torch
from torch import Tensor

from scanline.kernels.philox_rounds import MASK, UNIT, philox


def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Return `counter` [..., 4] after ten rounds with `key` [..., 2]: [..., 4], all int64 in [0,
    2^32)."""
    words = philox(*counter.unbind(-1), *key.unbind(-1))
    return torch.stack(words, dim=-1)


def uniforms(
    seed: Tensor,
    index: Tensor,
    position: Tensor,
) -> Tensor:
    """Return two uniforms in (0, 1) for each byte: [..., 2] float32.

    seed, index (of the image in its request) and position (of the byte in its image) are int64
    tensors of shapes that broadcast to [...], all non-negative. The key is the seed; the counter is
    (position, low and high word of the index, 0). The 23 highest bits of a word, plus a half, over
    2^23: never 0 nor 1 (with 24, float32 would round the half away, up to 1 itself).
    """
    seed, index, position = torch.broadcast_tensors(seed, index, position)
    low_index = index & MASK
    high_index = index >> 32
    counter = torch.stack((position, low_index, high_index, torch.zeros_like(position)), dim=-1)
    low_seed = seed & MASK
    high_seed = (seed >> 32) & MASK
    key = torch.stack((low_seed, high_seed), dim=-1)
    words = philox4x32(counter, key)[..., :2]
    highest = (words >> 9).to(torch.float32)
    return (highest + 0.5) * UNIT
