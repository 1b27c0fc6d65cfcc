"""Quantised CDFs and the arithmetic coder: what is encoded is decoded, and
costs what the distributions say.
"""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from scanline.kernels.categorical import Categorical
from scanline.kernels.codec.coder import TOTAL, Decoder, encode
from scanline.kernels.codec.reference import find, for_each_channel, intervals, sigmoid
from scanline.kernels.codec.tables import BIT, ONE, SURE, exp2_table, log2_table, sigmoid_table
from scanline.kernels.pixel_logistics import PixelLogistics

ROWS = 500
SIZES = [
    (10, 1, "elu"),
    (10, 3, "exp"),
    (1, 2, "elu"),
    (7, 4, "exp"),
]
DISTRIBUTIONS = [Categorical(), *(PixelLogistics(*size) for size in SIZES)]


def channels(distribution):
    return getattr(distribution, "channels", 1)


def some_parameters(distribution):
    """Parameters [ROWS, width] such as trained networks have: scales
    of a byte to a fifth of the range.
    """
    parameters = torch.randn(ROWS, distribution.width, generator=torch.Generator().manual_seed(1))
    if isinstance(distribution, PixelLogistics):
        k = distribution.components
        c = distribution.channels
        parameters[:, k : k + k * c] *= 0.5
        parameters[:, k + k * c : k + 2 * k * c] -= 3
    return 2 * parameters if isinstance(distribution, Categorical) else parameters


def drawn(distribution, parameters):
    c = channels(distribution)
    uniforms = torch.rand(ROWS, c, 2, generator=torch.Generator().manual_seed(2)).clamp(
        1e-6, 1 - 1e-6
    )
    nothing = torch.zeros(ROWS, c, dtype=torch.uint8)
    return distribution.sample(
        parameters,
        uniforms,
        torch.ones(ROWS),
        nothing,
        nothing.bool(),
    )


@pytest.mark.parametrize(
    "distribution",
    DISTRIBUTIONS,
    ids=repr,
)
def test_whole_numbers_cost_what_the_distribution_does(
    distribution,
):
    parameters = some_parameters(distribution)
    values = drawn(distribution, parameters)
    widths = intervals(distribution, parameters, values)[..., 1]
    bits = -distribution.log_prob(parameters, values).double() / math.log(2)
    assert (24 - widths.double().log2()).mean().item() == pytest.approx(
        bits.mean().item(), rel=1e-5
    )


@pytest.mark.parametrize(
    "distribution",
    DISTRIBUTIONS,
    ids=repr,
)
def test_the_values_of_a_byte_divide_the_total(distribution):
    strange = [0.0, 1e30, -1e30, math.inf, -math.inf, math.nan]
    filled = torch.stack([torch.full((distribution.width,), number) for number in strange])
    for parameters in (
        some_parameters(distribution)[:3],
        1e3 * some_parameters(distribution)[:3],
        filled,
    ):
        every = torch.arange(256).view(-1, 1, 1).expand(-1, len(parameters), channels(distribution))
        found = intervals(distribution, parameters.expand(256, -1, -1), every)[:, :, 0]
        assert (found[:, :, 1] >= 1).all()
        assert (found[0, :, 0] == 0).all()
        assert torch.equal(found.sum(-1)[:-1], found[1:, :, 0])
        assert (found.sum(-1)[-1] == TOTAL).all()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_a_decoder_finds_the_bytes(distribution):
    parameters = some_parameters(distribution)[:20]
    values = torch.randint(256, (20, channels(distribution)), dtype=torch.uint8)
    decoder = Decoder(
        encode(map(tuple, intervals(distribution, parameters, values).view(-1, 2).tolist()))
    )
    decoded = []

    def choose(starts):
        value = find(starts, torch.tensor([decoder.target()]))
        decoder.take(int(starts(value)), int(starts(value + 1) - starts(value)))
        decoded.append(int(value))
        return value

    for row in parameters:
        for_each_channel(distribution, row[None], choose)
    assert decoded == values.flatten().tolist()


PAIRS = st.tuples(st.integers(0, TOTAL - 1), st.integers(1, TOTAL))
SYMBOLS = st.lists(PAIRS.map(lambda pair: (pair[0], min(pair[1], TOTAL - pair[0]))))


@given(SYMBOLS)
def test_a_code_is_as_long_as_its_bits(symbols):
    code = encode(symbols)
    assert (
        len(code)
        <= math.ceil(sum(24 - math.log2(width) for _, width in symbols) / 8 + 1e-5 * len(symbols))
        + 1
    )
    decoder = Decoder(code)
    for start, width in symbols:
        assert start <= decoder.target() < start + width
        decoder.take(start, width)


@pytest.mark.parametrize("width", [0, -1])
def test_an_interval_without_numbers_is_refused(width):
    with pytest.raises(ValueError, match="width"):
        encode([(0, TOTAL), (5, width)])


@given(st.binary(max_size=50), SYMBOLS)
@example(b"", [(1, 1), (0, 1)])
def test_any_bytes_are_decoded_to_something(code, symbols):
    decoder = Decoder(code)
    for start, width in symbols:
        assert 0 <= decoder.target() < TOTAL
        # A symbol is found by its target, which is never below its interval.
        decoder.take(min(start, decoder.target()), width)
        assert decoder.value < decoder.range


def test_tables():
    for entry, exact in (
        *((entry, ONE * 2 ** (-j / 256)) for j, entry in enumerate(exp2_table())),
        *((entry, BIT * math.log2(1 + j / 256)) for j, entry in enumerate(log2_table())),
        *((entry, SURE / (1 + 2 ** (j / 64))) for j, entry in enumerate(sigmoid_table())),
    ):
        assert -1e-5 < exact - entry < 1.00001
    assert (sigmoid(torch.arange(-30 * BIT, 30 * BIT, 5)).diff() >= 0).all()
