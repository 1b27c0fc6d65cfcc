"""Painting ahead: passes of many steps of an image leave the bytes, bits and states of single steps.

The distributions are made to have a favourite byte, so that many guesses are right and some are
not, wherever the favourite is not drawn.
"""

import numpy as np
import pytest
import torch

from scanline.kernels.codec.coder import Decoder
from scanline.kernels.cpu import Passes
from tests.support.kernels import native_vectors
from tests.support.kernels.compilers import COMPILER, compile_program, run_program
from tests.support.kernels.native import ISAS, NATIVE
from tests.support.kernels.native_vectors import CASES, Case

pytestmark = NATIVE

TILE = 42
WIDTHS = [0, 2, 3, 7, TILE, 1000]


def network(case, isa, threads=1):
    """A network whose draws are mostly one byte."""
    tensors = native_vectors.with_favourite(case, native_vectors.tensors(case))
    return native_vectors.open_network(case, tensors, isa, threads)


def unknown(case):
    return torch.zeros(case.images, case.shape().bytes, dtype=torch.uint8)


def runs_known(case):
    """Hidden bytes, then known ones, and so on, of other lengths in each image."""
    length = case.shape().bytes
    pair = torch.arange(case.images) // (2 if case.guided else 1)
    return ((torch.arange(length) + pair[:, None]) // 5 % 2).to(torch.uint8)


def paint(native, slots, widest, passes=1 << 40):
    painted = {name: tensor.clone() for name, tensor in slots.items()}
    done = native.advance(painted, passes, widest=widest)
    return painted, done


def assert_equal(painted, expected, what):
    for name, tensor in expected.items():
        assert np.array_equal(tensor, painted[name], equal_nan=tensor.is_floating_point()), (
            name,
            what,
        )


@pytest.mark.parametrize("known", [unknown, runs_known])
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_passes_leave_what_single_steps_do(name, isa, known):
    case = CASES[name]
    slots = native_vectors.slots(case, known=known(case))
    native = network(case, isa)
    expected, steps = paint(native, slots, widest=1)
    images = case.images // (2 if case.guided else 1)
    shape = case.shape()
    assert steps.passes == steps.painted == steps.computed
    assert steps.painted == images * (shape.bytes - shape.first) // shape.step_bytes
    for widest in WIDTHS:
        painted, done = paint(native, slots, widest)
        assert_equal(painted, expected, widest)
        assert done.painted == steps.painted
        assert done.computed >= done.painted >= done.passes


@pytest.mark.parametrize("name", CASES)
def test_most_steps_of_flat_images_share_a_pass(name):
    case = CASES[name]
    few = Case(case.fields, case.weights, images=2, guided=case.guided)
    native = network(few, ISAS[0])
    _, steps = paint(native, native_vectors.slots(few, known=unknown(few)), widest=1)
    _, done = paint(native, native_vectors.slots(few, known=unknown(few)), widest=TILE)
    assert done.passes < 0.8 * steps.passes
    assert done.wrong


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("name", CASES)
def test_passes_stop_where_they_are_told_and_go_on(name, threads):
    case, shape = CASES[name], CASES[name].shape()
    random = np.random.default_rng(len(name) + threads)
    slots = native_vectors.slots(case, known=runs_known(case))
    native = network(case, ISAS[0], threads)
    expected, _ = paint(network(case, ISAS[0]), slots, widest=1)
    steps = (shape.bytes - shape.first) // shape.step_bytes
    while bool((slots["position"] < shape.bytes).any()):
        before = slots["position"].numpy().copy()
        stop = shape.first + shape.step_bytes * random.integers(0, steps + 2, case.images)
        if case.guided:
            stop[1::2] = stop[::2]
        widest = int(random.choice(WIDTHS))
        native.advance(
            slots,
            int(random.integers(0, 4)),
            widest=widest,
            stop=stop,
        )
        position = slots["position"].numpy()
        assert (position <= np.maximum(before, np.minimum(stop, shape.bytes))).all()
        # of bytes that are not painted, no guess is left
        hidden = np.arange(shape.bytes) >= position[:, None]
        given = native_vectors.slots(case)["images"].numpy()
        assert np.array_equal(slots["images"].numpy()[hidden], given[hidden])
    assert_equal(slots, expected, threads)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.guided])
def test_images_are_painted_from_codes_alike(name):
    case, random = CASES[name], np.random.default_rng(2)
    slots = native_vectors.slots(case, known=unknown(case))
    code = random.integers(0, 256, (case.images, 99), np.uint8)
    decoders = [Decoder(row.tobytes()) for row in code]
    slots["code"] = torch.from_numpy(code)
    for name_of, values in (
        ("at", [decoder.at for decoder in decoders]),
        ("value", [decoder.value for decoder in decoders]),
        ("range", [decoder.range for decoder in decoders]),
    ):
        slots[f"code_{name_of}"] = torch.tensor(values)
    for isa in ISAS:
        native = network(case, isa)
        expected, steps = paint(native, slots, widest=1)
        painted, done = paint(native, slots, widest=TILE)
        assert_equal(painted, expected, isa)
        assert done.passes < steps.passes or case.images > TILE / 2


def test_a_pass_paints_a_run_of_known_bytes():
    case = Case({**native_vectors.PIXELS, "height": 6, "width": 7}, images=2)
    native = network(case, ISAS[0])
    slots = native_vectors.slots(case, known=torch.ones(2, 42, dtype=torch.uint8))
    _, done = paint(native, slots, widest=TILE)
    assert done == Passes(passes=4, computed=84, painted=84, wrong=0)
    _, done = paint(native, slots, widest=6, passes=3)
    assert done == Passes(passes=6, computed=36, painted=36, wrong=0)


def test_stops_of_another_size_are_refused():
    case = CASES["odd"]
    with pytest.raises(ValueError, match=r"stop must be \[3\], not \[2\]"):
        network(case, ISAS[0]).advance(
            native_vectors.slots(case),
            1,
            stop=np.zeros(2, np.int64),
        )


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_a_row_is_taken_where_it_costs_less_than_the_steps_it_saves(tmp_path):
    """What ahead.h decides of costs and chances that are given."""
    program = compile_program(str(COMPILER), "ahead.cpp", tmp_path, "-DISA=tested")
    assert run_program(program).splitlines() == [
        "one image, a pass that costs ten rows, sure: 42 rows",
        "one image, a pass that costs ten rows, chance 0.5: 3 rows",
        "one image, a pass that costs nothing beside its rows: 1 rows",
        "ten images, a pass that costs ten rows, sure: 42 rows",
        "ten images, states that cost three rows, sure: 42 rows",
        "ten images, states that cost three rows, chance 0.9: 42 rows",
        "noise: 10 rows",
        "chance 0.83, runs of 4.0 steps",
        "chance 0.00, runs of 1.0 steps",
    ]
