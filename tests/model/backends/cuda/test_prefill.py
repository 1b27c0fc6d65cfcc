"""On the CUDA backend, prefilling known bytes is stepping through them, bit for
bit: alone, with others, in pieces.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.base.state import State
from scanline.model.sampling.base.digest import probe
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

SMALL = {"height": 1, "layers": 1}
IMAGES = 3
LABELS = torch.tensor([2, 0, 1])  # of the images, where the model has classes
# fewer images and steps at once than there are
OPTIONS = CudaOptions((4,), steps=1, prefill_graphs=((2, 2),))
# every way to read a step's bytes and to predict them; what only changes the
# layers between is tested with the step
KINDS = and_slow(
    ["histogram", "strokes", "waves of pixels"],
    "plain",
    "post",
    "authors",
    "colour",
    "categorical",
    "window",
    "pixels",
)


def model_of(variant, width=3):
    """A model of few steps; those that read windows have two rows, and classes."""
    options = {**small_models.VARIANTS[variant], **SMALL, "width": width}
    if "window_columns" in options:
        options |= {"height": 2, "width": 2, "window_columns": 2, **small_models.CLASSES}
    elif options.get("channels") == 3:
        options["width"] = 2
    return small_models.model(small_models.config(**options)).to(DEVICE)


def images_of(model):
    (images,) = there(small_models.tensor(model.config, IMAGES))
    return images


def stepped(backend, images):
    """For each image, after each of its steps: the state, and the bits of all bytes before."""
    config = backend.config
    pool = SlotPool.empty(config, IMAGES, DEVICE, backend.state_dtype, backend.deferred)
    pool.images.copy_(images)
    pool.label.copy_(LABELS)
    pool.known[:] = True
    pool.state.position.fill_(config.first)
    history = [[] for _ in images]
    for step in range(config.steps + 1):
        if step:
            backend.advance(pool, np.arange(IMAGES), 1).wait()
        state = pool.state.copy().complete(config.step_bytes)
        for i, known in enumerate(history):
            known.append((state.s[:, i], state.z[:, i], pool.bits[i].clone()))
    return history


def read(backend, images, *stops, labels=LABELS):
    """Reads images up to each of the stops [B], one after the other."""
    state = State.zeros(backend.config, len(images), DEVICE, backend.state_dtype, backend.deferred)
    bits = torch.zeros(len(images), backend.config.bytes, dtype=torch.float64)
    start = backend.config.first
    for ends in stops:
        found = backend.prefill(
            replace(PrefillBatch.of(images, state, np.array(ends), *there(labels)), start=start)
        )
        start = ends[0]
        assert found.shape == (len(images), max(ends))
        bits[:, : max(ends)] += found.cpu()
        assert state.position.tolist() == ends
    state = state.complete(backend.config.step_bytes)
    return [(state.s[:, i], state.z[:, i], bits[i]) for i in range(len(images))]


def check(history, backend, stop, found):
    """That an image read up to `stop` is as after its steps: every cost
    shows in the bits of the next step.
    """
    size = backend.config.step_bytes
    first = backend.config.first
    s, z, bits = found
    expected_s, expected_z, _ = history[(stop - first) // size]
    assert torch.equal(expected_s, s)
    assert torch.equal(expected_z, z)
    sums = np.cumsum(bits.numpy())[first + size - 1 : stop : size].tolist()
    assert sums == [total.item() for _, _, total in history[1 : len(sums) + 1]]
    assert not bits[stop:].any()


@pytest.mark.parametrize("variant", KINDS)
def test_states_and_costs_are_those_of_single_steps_bit_for_bit(variant):
    model = model_of(variant)
    backend = CudaBackend(model, options=OPTIONS)
    images = images_of(model)
    size = model.config.step_bytes
    history = stepped(backend, images)
    length = model.config.bytes
    stops = [length, length - 2 * size, model.config.first + size]
    for i, found in enumerate(read(backend, images, stops)):
        check(history[i], backend, stops[i], found)
    # The launches are those that were recorded: none of their numbers may be of the first call.
    recorded = dict(backend.kernel_prefill.graphs)
    others = [2, 0]
    half = [model.config.first + size] * 2
    assert len(recorded) == 1
    for i, found in zip(
        others,
        read(backend, images[others], half, [length] * 2, labels=LABELS[others]),
        strict=True,
    ):
        check(history[i], backend, length, found)
    assert backend.kernel_prefill.graphs == recorded


@pytest.mark.parametrize("state_dtype", and_slow([torch.bfloat16], torch.float32), ids=str)
def test_reads_that_end_between_the_steps_that_write_states_go_on_as_steps_do(
    state_dtype,
):
    """States in 16 bits are rounded where they are written."""
    model = model_of("plain", 9)
    backend = CudaBackend(model, state_dtype, options=OPTIONS)
    images = images_of(model)
    history = stepped(backend, images)
    stops = [9, 8, 6]
    for i, found in enumerate(read(backend, images, stops)):
        check(history[i], backend, stops[i], found)
    for stop in range(1, 5):
        check(
            history[0],
            backend,
            7,
            *read(backend, images[:1], [stop], [7]),
        )


def test_bytes_to_within_a_tolerance_cost_what_they_do_in_plain_torch():
    model = model_of("strokes")
    stops = np.array([4, 4, 3])
    tolerances = np.array([30, 0, 255])
    backend = CudaBackend(model, options=OPTIONS)
    images = images_of(model)
    intervals = torch.zeros(IMAGES, model.config.bytes, 2, dtype=torch.int32, device=DEVICE)
    exact = torch.zeros_like(intervals)

    def prefill(tolerances, intervals):
        state = State.zeros(model.config, IMAGES, DEVICE, backend.state_dtype, backend.deferred)
        return backend.prefill(
            PrefillBatch.of(images, state, stops, *there(LABELS), tolerances, intervals)
        )

    found = prefill(tolerances, intervals)
    batch = PrefillBatch.of(
        images.cpu(), State.zeros(model.config, IMAGES), stops, LABELS, tolerances
    )
    assert_close("bits", EagerBackend(model_of("strokes").cpu()).prefill(batch), found.cpu())
    assert not found[2].any()  # all values together cost nothing
    prefill(None, exact)  # intervals of bytes to be coded do not depend on tolerances
    assert torch.equal(intervals, exact)
    assert all(
        (own[:stop, 1] >= 1).all() for own, stop in zip(intervals, stops.tolist(), strict=True)
    )


@pytest.mark.parametrize("variant", and_slow(["plain"], "grey pixels"))
def test_a_launch_for_each_position_gives_the_same_bits(variant):
    model = model_of(variant)
    backend = CudaBackend(model, options=OPTIONS)
    images = images_of(model)
    size = model.config.step_bytes
    assert backend.kernel_prefill.one_launch_is_exact(torch.float32, backend.deferred)
    stops = [3 * size, 2 * size, size]
    at_once = read(backend, images, stops)
    backend.kernel_prefill.in_one_launch = False
    for expected, found in zip(at_once, read(backend, images, stops), strict=True):
        assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True))


def test_a_digest_probes_the_kernels():
    model = model_of("strokes")
    backend = CudaBackend(model, options=OPTIONS)
    assert (
        probe(model, backend)
        == probe(model, backend)
        != probe(model, CudaBackend(model, torch.float16))
    )
