"""Slots as the sampling kernels see them, and a step of either distribution in them."""

from dataclasses import fields

import torch

from scanline.kernels.categorical.triton import sample as sample_categorical
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.triton import sample as sample_pixel_logistics
from scanline.kernels.triton.sampling import SlotArrays
from scanline.model.base.sampling_options import LEAST_DIVISOR
from tests.support.kernels.gpu import there

POOL = 20
BATCH = 12


def pool(length, step_bytes=1):
    """Images of `length` bytes, each at any step, of every kind, a third of their bytes known, none
    guided; every fourth has temperature 0."""
    values = {
        "images": torch.randint(0, 256, (POOL, length), dtype=torch.uint8),
        "known": torch.rand(POOL, length) < 0.3,
        "bits": torch.rand(POOL, dtype=torch.float64) * 1000,
        "known_bits": torch.rand(POOL, dtype=torch.float64) * 1000,
        "temperature": (torch.rand(POOL) + 0.5).where(torch.arange(POOL) % 4 > 0, LEAST_DIVISOR),
        "seed": torch.randint(0, 2**62, (POOL,)),
        "index": torch.randint(0, 2**40, (POOL,)),
        "position": torch.randint(0, length // step_bytes, (POOL,)) * step_bytes,
        "label": torch.zeros(POOL, dtype=torch.int64),
        "partner": torch.zeros(POOL, dtype=torch.int64),
        "guidance": torch.ones(POOL),
    }
    return dict(zip(values, there(*values.values()), strict=True))


def guiding(pool):
    return pool["label"], pool["partner"], pool["guidance"]


def some_slots():
    """The slots [BATCH] of a batch, two of them none."""
    slots = torch.randperm(POOL)[:BATCH]
    slots[[3, 7]] = -1
    return there(slots)[0]


def copy(pool):
    return {name: tensor.clone() for name, tensor in pool.items()}


def channels(distribution):
    return distribution.channels if isinstance(distribution, PixelLogistics) else 1


def with_base(distribution, parameters, base):
    """The parameters as the reference takes them: with the base [B, C]
    added to every component's means.
    """
    moved = parameters.clone()
    if isinstance(distribution, PixelLogistics):
        k = distribution.components
        c = distribution.channels
        moved[:, k : k + k * c] += base.repeat(1, k)
    return moved


def sample(of, parameters, base, slots, pool, **how):
    """Sample a step of a distribution by its kernel, IN PLACE. `how`: its other arguments."""
    arrays = SlotArrays(**{field.name: pool[field.name] for field in fields(SlotArrays)})
    if isinstance(of, PixelLogistics):
        sample_pixel_logistics(parameters, base, slots, arrays, distribution=of, **how)
    else:
        sample_categorical(parameters, slots, arrays, **{"guiding": guiding(pool), **how})
