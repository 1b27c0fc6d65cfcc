"""Quantised CDFs in Triton: the intervals of the reference, and the
bytes and states of its decoder.
"""

import math

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.categorical import Categorical
from scanline.kernels.codec.coder import Decoder
from scanline.kernels.codec.reference import find, for_each_channel, intervals
from scanline.kernels.codec.triton import decode, write_intervals
from scanline.kernels.pixel_logistics import PixelLogistics
from tests.support.engine.pools import (
    BATCH,
    POOL,
    channels,
    copy,
    pool,
    some_slots,
    with_base,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter

SIZES = [
    (10, 1, "elu"),
    (5, 3, "exp"),
    (1, 4, "exp"),
    (7, 2, "elu"),
]
DISTRIBUTIONS = [Categorical(), *(PixelLogistics(*size) for size in SIZES)]
STRANGE = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30, 0.0])
STEPS = 2  # of an image
CODED = ("code", "code_at", "code_value", "code_range")


def case(distribution):
    """Parameters [BATCH, width], of scales up to half the range, one row of
    strange ones, and base [BATCH, C].
    """
    parameters = torch.randn(BATCH, distribution.width) * torch.logspace(-1, 1, BATCH)[:, None]
    if isinstance(distribution, PixelLogistics):
        k = distribution.components
        c = distribution.channels
        parameters[:, k + k * c : k + 2 * k * c] -= 3
    parameters[6] = STRANGE[torch.randint(len(STRANGE), (distribution.width,))]
    return there(parameters, torch.randn(BATCH, channels(distribution)) / 2)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_intervals_are_those_of_the_reference_and_rows_without_an_image_stay(
    distribution,
):
    (parameters, base), rows = case(distribution), torch.arange(BATCH)
    values = torch.randint(0, 256, (BATCH, channels(distribution)), dtype=torch.uint8)
    values[0], values[1], rows[[3, 7]] = 0, 255, -1
    values, rows = there(values, rows)
    out = torch.full((*values.shape, 2), -5, dtype=torch.int32, device=DEVICE)
    write_intervals(
        parameters,
        base,
        rows,
        values,
        out,
        distribution,
    )
    expected = intervals(distribution, with_base(distribution, parameters, base), values)
    assert torch.equal(expected[rows >= 0], out[rows >= 0].long())
    assert (out[rows < 0] == -5).all()


def coded(distribution, slots):
    """Slots of which every third has a code, of noise of another length; every
    second byte of the last one is known.
    """
    before = pool(STEPS * channels(distribution), channels(distribution))
    before["code"] = torch.zeros(
        POOL, 3 * STEPS * channels(distribution) + 16, dtype=torch.uint8, device=DEVICE
    )
    before |= {name: torch.zeros(POOL, dtype=torch.int64, device=DEVICE) for name in CODED[1:]}
    for slot in slots[::3].tolist():
        if slot >= 0:
            code = bytes(torch.randint(0, 256, (slot % 12,), dtype=torch.uint8))
            decoder = Decoder(code)
            before["code"][slot, : len(code)] = torch.tensor(list(code), dtype=torch.uint8)
            before["code_at"][slot], before["code_value"][slot] = decoder.at, decoder.value
            before["code_range"][slot] = decoder.range
            before["known"][slot] = False
    before["known"][slot, 1::2] = True
    return before


def decode_by_reference(distribution, parameters, pool, slot):
    """Decode a step of one slot by the reference, IN PLACE."""
    decoder = Decoder(
        bytes(pool["code"][slot].tolist()), *(int(pool[name][slot]) for name in CODED[1:])
    )
    place = int(pool["position"][slot])

    def choose(starts):
        nonlocal place
        if pool["known"][slot, place]:
            value = pool["images"][slot, place, None].long()
        else:
            value = find(starts, torch.tensor([decoder.target()], device=DEVICE))
            start = int(starts(value))
            decoder.take(start, int(starts(value + 1)) - start)
            pool["images"][slot, place] = value[0]
        place += 1
        return value

    for_each_channel(distribution, parameters[None], choose)
    for name, number in zip(CODED[1:], (decoder.at, decoder.value, decoder.range), strict=True):
        pool[name][slot] = number


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_bytes_and_states_are_those_of_the_decoder_of_the_reference(
    distribution,
):
    (parameters, base), slots = case(distribution), some_slots()
    expected = coded(distribution, slots)
    found = copy(expected)
    moved = with_base(distribution, parameters, base)
    for row in range(0, BATCH, 3):
        if slots[row] >= 0:
            decode_by_reference(distribution, moved[row], expected, int(slots[row]))
    launch(distribution, parameters, base, slots, found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def launch(
    distribution,
    parameters,
    base,
    slots,
    pool,
):
    """Decode a step by the kernel, IN PLACE."""
    arrays = {name: pool[name] for name in ("images", "known", "position", *CODED)}
    decode(parameters, base, slots, **arrays, distribution=distribution)
