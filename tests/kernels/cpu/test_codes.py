"""The kernel's codes: the reference's intervals on every instruction set, and
images that are painted from them.
"""

import numpy as np
import pytest
import torch

from scanline.kernels.categorical import Categorical
from scanline.kernels.codec.coder import WHOLE, Decoder, encode
from scanline.kernels.codec.reference import intervals as expected_intervals
from scanline.kernels.cpu.shape import PREDICTS
from scanline.kernels.pixel_logistics import PixelLogistics
from tests.support.kernels import native_vectors
from tests.support.kernels.native import ISAS, NATIVE
from tests.support.kernels.native_vectors import CASES

pytestmark = NATIVE

NAMES = [name for name, case in CASES.items() if not case.guided]


def distribution(case):
    shape = case.shape()
    if shape.predicts == PREDICTS["categorical"]:
        return Categorical()
    return PixelLogistics(
        shape.components,
        shape.step_bytes,
        "exp" if shape.exp_scale else "elu",
    )


def coded(case, decoders, width):
    slots = native_vectors.slots(
        case, known=torch.zeros(case.images, case.shape().bytes, dtype=torch.uint8)
    )
    slots["temperature"].fill_(1)
    rows = [np.frombuffer(decoder.code.ljust(width, b"\0"), np.uint8) for decoder in decoders]
    slots["code"] = torch.from_numpy(np.stack(rows))
    for name in ("at", "value", "range"):
        slots[f"code_{name}"] = torch.tensor([getattr(decoder, name) for decoder in decoders])
    return slots


@pytest.mark.compared(
    "images of codes, and their intervals",
    "reference in Python",
    "each instruction set and WebAssembly",
)
@pytest.mark.parametrize("name", NAMES)
def test_a_code_paints_its_image_on_every_instruction_set(name, compared):
    case = CASES[name]
    shape = CASES[name].shape()
    images = torch.randint(
        256, (case.images, shape.bytes), dtype=torch.uint8, generator=torch.manual_seed(3)
    )
    images[:, : shape.first] = native_vectors.slots(case)["images"][:, : shape.first]
    _, bits, parameters, intervals = native_vectors.read(
        case, native_vectors.network(case, ISAS[-1], 2), images
    )
    coded_bits = (24 - intervals[..., 1].double().log2()).sum().item()
    assert coded_bits == pytest.approx(bits.clamp(max=23.9).sum().item(), rel=0.02)
    values = images[:, shape.first :].unflatten(1, (-1, shape.step_bytes))
    assert torch.equal(
        expected_intervals(distribution(case), parameters, values).flatten(1, 2), intervals.long()
    )
    codes = [encode(each) for each in intervals.tolist()]
    for isa in ISAS:
        slots = coded(
            case,
            [Decoder(code) for code in codes],
            max(map(len, codes)),
        )
        slots["images"].fill_(0)
        slots["images"][:, : shape.first] = images[:, : shape.first]
        native_vectors.network(case, isa, threads=2).advance(slots, shape.bytes)
        assert torch.equal(slots["images"], images), isa
        for row, (code, of_image) in enumerate(zip(codes, intervals.tolist(), strict=True)):
            decoder = Decoder(code)
            for start, width in of_image:
                decoder.take(start, width)
            ended = [int(slots[f"code_{name}"][row]) for name in ("at", "value", "range")]
            assert ended == [decoder.at, decoder.value, decoder.range]
    compared(images, intervals)


@pytest.mark.parametrize("coefficient", [255.0, 256.0, 257.0])
def test_coefficients_at_their_limit_have_the_reference_s_intervals(coefficient):
    case = CASES["colour pixels"]
    shape = case.shape()
    k = shape.components
    tensors = native_vectors.tensors(case)
    bias = native_vectors.sizes(case).index((shape.parameters,))
    tensors[bias - 1].zero_()
    tensors[bias][4 * k : 7 * k] = 3.0  # wide components: how far a mean is moved matters
    tensors[bias][7 * k :] = coefficient * torch.tensor([1.0, -1.0, 1.0]).repeat(k)
    values = native_vectors.inputs(case)["images"].unflatten(1, (-1, 3))
    for isa in ISAS:
        network = native_vectors.open_network(case, tensors, isa)
        _, _, parameters, intervals = native_vectors.read(case, network)
        expected = expected_intervals(distribution(case), parameters, values).flatten(1, 2)
        assert torch.equal(expected, intervals.long()), isa


def test_what_is_no_decoder_is_refused():
    case = CASES["categorical"]
    network = native_vectors.network(case, ISAS[0], threads=1)
    for value, range_, at in (
        (0, 1, 0),
        (0, 2 * WHOLE, 0),
        (WHOLE, WHOLE, 0),
        (-1, WHOLE, 0),
        (0, WHOLE, -1),
    ):
        slots = coded(
            case,
            [Decoder(b"") for _ in range(case.images)],
            5,
        )
        slots["code_value"][1], slots["code_range"][1], slots["code_at"][1] = value, range_, at
        with pytest.raises(ValueError, match="a code has a range"):
            network.advance(slots, 1)
