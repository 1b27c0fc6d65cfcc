"""Painting ahead with the CUDA backend: bytes, bits and states are those of step by step."""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW  # isort: skip

from scanline.kernels.codec.coder import Decoder
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.cuda_ahead import Pass
from scanline.model.backends.slots import SlotPool
from tests.support import small_models
from tests.support.engine.mixed_arrivals import mixed_arrivals, small_model
from tests.support.sweeps import and_slow

SIZES = {"height": 3, "width": 4, "layers": 2}  # the interpreter takes its time
COUNT = 6
COLOUR = {**small_models.WINDOW, **small_models.COLOUR_PIXELS}
VARIANTS = {**small_models.VARIANTS, "colour pixels": COLOUR}
# three images a pass at most, of which guided ones are in one
FLAT = (Pass(2, 6, 4), Pass(4, 8, 4))
FULL = (Pass(6, 24, 4),)


def model_of(variant):
    return small_model({**VARIANTS[variant], **SIZES}).to(DEVICE)


def backend_of(model, passes, state_dtype=torch.float32):
    options = CudaOptions((COUNT,), steps=1, prefill_graphs=((1, 2),), ahead=passes)
    return CudaBackend(model, state_dtype, options=options)


def started(backend):
    """A pool of images of which all, some or no bytes are known, a guided one in slots 3 and 4, and
    one from a code in slot 5. Some are cold, so that their pixels are alike."""
    config = backend.config
    pool = SlotPool.empty(config, COUNT + 1, DEVICE, backend.state_dtype, deferred=backend.deferred)
    arrivals = mixed_arrivals(config, COUNT, pinned=not pool.on_host)
    arrivals.temperature[2:5] = 0.01
    backend.place(pool, arrivals)
    code = Decoder(np.random.default_rng(0).bytes(3 * config.bytes))
    backend.put_codes(pool, np.array([5]), [code])
    return pool


def assert_same(expected, found, step_bytes):
    for name in ("images", "bits", "known_bits", "code_at", "code_value", "code_range"):
        assert torch.equal(getattr(expected, name), getattr(found, name)), name
    assert torch.equal(expected.state.position, found.state.position)
    expected_state = expected.state.complete(step_bytes)
    found_state = found.state.complete(step_bytes)
    assert torch.equal(expected_state.s, found_state.s)
    assert torch.equal(expected_state.z, found_state.z)


@pytest.mark.compared(
    "small models, exact: images, states, costs",
    "steps in Triton's interpreter",
    "passes that paint ahead",
)
@pytest.mark.parametrize(
    ("variant", "passes"),
    and_slow(
        [("strokes", FLAT), ("grey pixels", FULL)],
        ("strokes", FULL),
        ("colour pixels", FLAT),
        ("colour pixels", FULL),
        ("plain", FULL),
        ("categorical", FLAT),
    ),
)
def test_bytes_bits_and_states_are_those_of_steps(variant, passes, compared):
    model = model_of(variant)
    backend = backend_of(model, passes)
    size = backend.config.step_bytes
    length = backend.config.bytes
    expected = started(backend)
    found = started(backend)
    slots = np.arange(COUNT)
    computed = 0
    painted = 0
    # Up to a stop first, some images more steps than others.
    for stop, most in ((length - 2 * size, 1), (length - 2 * size, length), (length, length)):
        stops = np.full(COUNT, stop)
        stops[:2] -= size * (stop < length)
        done = backend.paint_ahead(found, slots, most, stops).wait()
        computed += done.computed
        painted += done.painted
        assert done.images == COUNT - 1
        positions = found.state.position[:COUNT].cpu().numpy()
        if most > 1:
            assert (positions == stops).all()
        while len(behind := slots[expected.state.position[:COUNT].cpu().numpy() < positions]):
            backend.advance(expected, behind, 1).wait()
        # Bytes that are not painted are of no meaning, but known ones are the request's.
        for slot, position in enumerate(positions):
            unknown = ~expected.known[slot, position:]
            expected.images[slot, position:][unknown] = 0
            found.images[slot, position:][unknown] = 0
        assert_same(expected, found, size)
    assert painted == (COUNT - 1) * ((length - backend.config.first) // size)
    assert computed >= painted
    compared(expected.images, expected.bits, expected.state.s, expected.state.z)


@pytest.mark.parametrize("state_dtype", NARROW)
def test_states_of_16_bits_are_rounded_where_steps_round_them(state_dtype):
    backend = backend_of(model_of("strokes"), FULL, state_dtype)
    expected = started(backend)
    found = started(backend)
    # of which all bytes are known, so that a pass crosses the place where states are written
    slots = np.array([0])
    length = backend.config.bytes
    done = backend.paint_ahead(found, slots, 2, np.array([length])).wait()
    assert done.painted == done.computed == 8
    backend.advance(expected, slots, 8).wait()
    assert_same(expected, found, backend.config.step_bytes)


def test_a_pass_is_left_out_of_models_whose_convolutions_keep_pixels():
    assert backend_of(model_of("pixels"), FULL).kernel_ahead is None
