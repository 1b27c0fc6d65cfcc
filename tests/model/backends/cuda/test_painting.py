"""The CUDA backend: the parameters, images and costs of torch's step, and the same bits alone and
in a batch.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, ON_GPU  # isort: skip

from scanline.kernels.triton import linear
from scanline.model import backends
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.cuda_ahead import Pass
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.slots import SlotPool
from scanline.model.base.state import State
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.engine.batch_composition import (
    PARTICLES,
    Painter,
    in_a_batch,
    painted_alone,
    watched,
)
from tests.support.engine.mixed_arrivals import mixed_arrivals, small_model
from tests.support.engine.pools import with_base
from tests.support.sweeps import and_slow

SMALL = {"height": 2, "width": 2, "layers": 1}  # the interpreter takes its time


def model_of(variant, **changes):
    return small_model({**small_models.VARIANTS[variant], **changes}).to(DEVICE)


@pytest.mark.parametrize("variant", and_slow(small_models.CORE, *small_models.REST))
def test_parameters_and_states_are_those_of_the_step(variant):
    model = model_of(variant)
    config = model.config
    backend = CudaBackend(model, options=CudaOptions(sizes=(1, 4), steps=2, few=1))
    slots = SlotPool.empty(config, 5, DEVICE, deferred=3)
    chosen = [0, 2, 3]
    slots.state.position[chosen] = config.first
    slots.label[chosen] = torch.tensor(chosen, device=DEVICE)
    slots.index[chosen] = torch.tensor(chosen, device=DEVICE)
    state = State.zeros(config, len(chosen), DEVICE)
    for _ in range(2):
        expected = model.step(slots.images[chosen], state, slots.label[chosen])
        backend.advance(slots, np.array(chosen), 1).wait()
        found = backend.buffers.part(0, len(chosen))
        parameters = with_base(model.distribution, found.parameters, found.base)
        assert_close("parameters", expected, parameters)
    assert slots.state.position[chosen].tolist() == state.position.tolist()
    complete = slots.state.complete(config.step_bytes)
    assert_close("s", state.s, complete.s[:, chosen])
    assert_close("z", state.z, complete.z[:, chosen])
    shown_s, shown_z = slots.snapshot(2, 0, 1, config.step_bytes).wait()
    assert (shown_s == complete.s[0, 2, 1].cpu().numpy()).all()
    assert (shown_z == complete.z[0, 2, 1].cpu().numpy()).all()


def painted(model, backend):
    config = model.config
    pool = SlotPool.empty(config, max(5, backend.rows), DEVICE, deferred=backend.deferred)
    backend.place(pool, mixed_arrivals(config, pinned=not pool.on_host))
    backend.advance(pool, np.arange(5), config.steps).wait()
    return pool


@pytest.mark.parametrize(
    # each way to read a step's bytes and each distribution
    "variant",
    and_slow(["plain", "pixels", "strokes"], "categorical", "authors", "grey pixels"),
)
def test_images_and_costs_are_those_of_torch(variant):
    model = model_of(variant, **SMALL)
    expected = painted(model, EagerBackend(model))
    found = painted(model, CudaBackend(model, options=CudaOptions(sizes=(6,), steps=1)))
    # but where a byte is rounded from near a half
    same = (expected.images[:5] == found.images[:5]).all(dim=1)
    assert same[[0, 3, 4]].all()
    assert same.sum() >= 4
    for name in ("bits", "known_bits"):
        assert_close(name, getattr(expected, name)[:5][same], getattr(found, name)[:5][same])
    assert found.known_bits[0] == found.bits[0] > 0
    assert 0 < found.known_bits[1] < found.bits[1]
    assert found.known_bits[2] == 0
    assert torch.equal(found.images[3], found.images[4])
    assert found.bits[3] != found.bits[4]


# the fourth step writes states; the interpreter takes its time
SIZES = {"height": 3, "width": 2, "layers": 1}
# in the interpreter
SOME = ["of a class", "known prefix, of a class", "guided", "particles", "code"]
NEVER = 10**9  # programs from which on tiles are wide


@dataclass(frozen=True)
class Run:
    slots: int
    options: CudaOptions
    wide_from: int  # programs of a product


def options(*sizes, steps=1, streams=1, ahead=()):
    prefill_graphs = ((1, 4), (2, 4))
    return CudaOptions(
        sizes,
        steps,
        few=2,
        streams=streams,
        many=4,
        at_once=2,
        prefill_graphs=prefill_graphs,
        ahead=ahead,
    )


ALONE = Run(0, options(1, 2, PARTICLES + 1), NEVER)
CROWDS = [
    Run(11, options(2, 4, steps=2, streams=2), 1),
    Run(7, options(4, steps=2), NEVER),
    Run(PARTICLES, options(2, 8), 1),
    Run(7, options(4, ahead=(Pass(2, 4, 2), Pass(4, 6, 2))), 1),
]
if ON_GPU:
    CROWDS += [
        Run(70, CudaOptions(), 1),
        Run(5000, CudaOptions(), 1),
    ]
SWEEP = ("strokes", "plain", "post", "categorical", "grey pixels", "waves of pixels")
CASES = and_slow(
    [("strokes", CROWDS if ON_GPU else CROWDS[:1])], *((variant, CROWDS) for variant in SWEEP)
)


def use(run, patch):
    patch.setattr(
        backends, "_new_backend", lambda name, model, *_: CudaBackend(model, options=run.options)
    )
    patch.setattr(linear, "ENOUGH", run.wide_from)


@pytest.mark.parametrize(("variant", "crowds"), CASES)
def test_alone_is_in_a_batch(variant, crowds, monkeypatch):
    if not ON_GPU:  # where the self-test of each generator would take longer than the test
        monkeypatch.setattr(backends, "run_self_test", lambda *arguments: None)
        monkeypatch.setattr(CudaBackend, "warm_up", lambda *arguments: None)
    model = model_of(variant, **SIZES)
    if variant == "strokes":
        model.head.weight.mul_(16)  # so that particles are resampled
    painter = Painter(model, "cuda", "exact")
    use(ALONE, monkeypatch)
    images = watched(painter)
    images = images if ON_GPU else {name: images[name] for name in SOME}
    alone = painted_alone(painter, images)
    assert variant != "strokes" or alone["particles"][3] < PARTICLES / 2
    assert alone["code"][0] == small_models.images(model.config, 1).tobytes()
    for run in crowds:
        use(run, monkeypatch)
        for name, image in in_a_batch(painter.generator(run.slots), images).items():
            assert image == alone[name], (name, run)
