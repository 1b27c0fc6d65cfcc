"""Alone == in a full batch with arrivals and departures, byte for byte, with
every backend and precision of a CPU.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from tests.support import small_models
from tests.support.engine.batch_composition import (
    PARTICLES,
    Painter,
    in_a_batch,
    painted_alone,
    watched,
)
from tests.support.engine.mixed_requests import Mix
from tests.support.kernels.native import NATIVE

WIDE = {"heads": 4, "key_width": 16, "value_width": 16, "feed_forward": 128, "components": 10}
SIZES = {"cpu": {"height": 4, "width": 3, **WIDE}, "eager": {"height": 3, "width": 3}}
VARIANTS = ["plain", "strokes", "pixels", "waves of pixels"]
RUNS = [("eager", "exact"), ("cpu", "exact"), ("cpu", "int8")]
LARGEST = {"cpu": 1000, "eager": 200}  # slots; the eager backend is slower
SLOW = [("pixels", "eager"), ("strokes", "eager")]
PAINTERS = [
    pytest.param((variant, *run), marks=[pytest.mark.slow] if (variant, run[0]) in SLOW else [])
    for variant in VARIANTS
    for run in RUNS
]
SWEEP = [pytest.param(*case, marks=pytest.mark.slow) for case in [(5, 1), (64, 2), ("largest", 2)]]


@pytest.fixture(scope="module", params=PAINTERS, ids="-".join)
def painter(request):
    variant, backend, precision = request.param
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("the cpu kernel was not compiled")
    options = {**SIZES[backend], **small_models.VARIANTS[variant], **small_models.CLASSES}
    model = small_models.model(small_models.config(**options))
    if variant == "strokes":
        # so that known bytes say much about those before them, and particles are resampled
        model.head.weight.mul_(3)
    return Painter(model, backend, precision)


@pytest.fixture
def threads(request):
    """A number of threads, two unless given, for torch's operations too."""
    before = torch.get_num_threads()
    number = getattr(request, "param", 2)
    torch.set_num_threads(number)
    yield number
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone(painter):
    return painted_alone(painter, watched(painter))


@pytest.mark.compared(
    "images of every kind", "alone", "in batches of 5 to 1,000 slots, 1 and 2 threads"
)
@pytest.mark.parametrize(("slots", "threads"), [(7, 2), (64, 1), *SWEEP], indirect=["threads"])
def test_alone_is_in_a_batch(painter, alone, slots, threads, compared):
    generator = painter.generator(
        slots if isinstance(slots, int) else LARGEST[painter.backend], threads
    )
    for name, image in in_a_batch(generator, watched(painter)).items():
        assert image == alone[name], name
    compared(*(image for image, *_ in alone.values()))
    assert torch.get_num_threads() == threads


def test_the_images_are_of_their_kinds(painter, alone):
    """Each is another one, but that two so small ones may be alike; codes paint what was encoded,
    known bytes are kept, and particles are resampled."""
    assert len({image for image, *_ in alone.values()}) >= len(alone) - 1
    for name, (first, *_) in watched(painter).items():
        image, _, evidence, effective = alone[name]
        assert name != "code" or image == small_models.images(painter.model.config, 1).tobytes()
        if first.known is not None and first.mask is not None:
            assert (np.frombuffer(image, np.uint8) == first.known)[first.mask].all()
            assert evidence > 0
        assert effective < PARTICLES if first.particles > 1 else effective == 1
    assert min(effective for *_, effective in alone.values() if effective > 1) < PARTICLES / 2


def test_every_slot_paints_the_same(painter, alone, threads):
    generator, (free,) = painter.generator(70, threads), watched(painter)["free"]
    image, bits, *_ = alone["free"]
    known = replace(free, known=np.frombuffer(image, np.uint8), mask=np.arange(len(image)) % 2 == 1)
    for slot in range(70):
        generator.place(slot, known if slot == 37 else free)
    generator.advance(painter.model.config.steps)
    found = generator.fetch(range(70)).wait()
    assert [
        (each.tobytes(), cost) for each, cost in zip(found.images, found.bits, strict=True)
    ] == [(image, bits)] * 70


MORE = [*((seed, "cpu") for seed in range(1000, 1200)), *((seed, "eager") for seed in range(5))]
MIXES = [
    *((seed, "cpu") for seed in range(40)),
    *(pytest.param(*mix, marks=pytest.mark.fuzz) for mix in MORE),
]


@NATIVE
@pytest.mark.parametrize(("seed", "backend"), MIXES)
def test_each_request_of_a_mix_gets_what_it_gets_alone(seed, backend):
    mix = Mix(seed, backend)
    if faults := mix.run():
        pytest.fail(f"{mix}:\n" + "\n".join(faults[:6]))
