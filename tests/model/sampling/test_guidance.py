"""Guided images: two slots each, one with a class and one without, draw the
same bytes from the logits of both.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from scanline.kernels import LN2
from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.philox import uniforms
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Failed, Finished, GenerateRequest
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.engine.engine_ticks import ended, of_kind, run_until_idle
from tests.support.kernels import native_vectors
from tests.support.kernels.native import BACKENDS, NATIVE
from tests.support.kernels.native_vectors import CATEGORICAL, Case
from tests.support.sweeps import and_slow

# of steps of a byte and of a pixel, that predict logits and mixtures of logistics
VARIANTS = ["categorical", "strokes", "plain", "waves of pixels"]
CASES = [pytest.param(variant, "cpu", marks=NATIVE) for variant in VARIANTS]
CASES += and_slow(
    [("strokes", "eager")], *((variant, "eager") for variant in VARIANTS if variant != "strokes")
)


@cache
def model(variant):
    return small_models.model_of(variant, **small_models.CLASSES)


def pair(index, guidance, label=2, **known):
    spec = ImageSpec(7, index, temperature=0.9, label=label, guidance=guidance, **known)
    return [spec, replace(spec, label=0)]


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_bytes_are_drawn_from_the_mixed_logits_and_cost_what_the_class_says(variant, backend):
    network = model(variant)
    guidance = 2.5
    config = network.config
    given = {"known": small_models.images(config, 1)[0], "mask": np.arange(config.bytes) % 2 == 1}
    generator = Generator(network, 5, 1, backend=backend)
    generator.place_many([4, 1], pair(3, guidance, **given))
    generator.advance(config.steps)
    fetched = generator.fetch([4, 1]).wait()
    images = torch.from_numpy(fetched.images)
    assert torch.equal(images[0], images[1])
    assert (fetched.images[0][given["mask"]] == given["known"][given["mask"]]).all()
    parameters = network.parallel(images, labels=torch.tensor([2, 0]))
    places = torch.arange(config.first, config.bytes).view(config.steps, config.step_bytes)
    draws = uniforms(torch.full_like(places, 7), torch.full_like(places, 3), places)
    values = images[0][places]
    known = torch.from_numpy(given["mask"])[places]
    weights, temperature = (torch.full((config.steps,), value) for value in (guidance, 0.9))
    drawn = network.distribution.sample_guided(
        *parameters, weights, draws, temperature, values, known
    )
    # a sum in another order may draw the value beside it
    assert (drawn == values).float().mean() > 0.97
    costs = -network.distribution.log_prob(parameters, images[:, places]).double() / LN2
    assert_close("bits", costs.sum(dim=(1, 2)), torch.from_numpy(fetched.bits))
    assert_close(
        "evidence", (costs * known).sum(dim=(1, 2)), torch.from_numpy(fetched.evidence_bits)
    )


@NATIVE
@pytest.mark.parametrize(
    "changes",
    [
        {"partner": (0, 5)},  # there is no such slot
        {"partner": (1, 0)},  # whose partner has none
        {"label": (1, 2)},  # both have a class
        {"position": (1, 3)},
    ],
)
def test_slots_that_do_not_fit_each_other_are_refused(changes):
    case = Case({"predicts": CATEGORICAL, "classes": 3})
    slots = native_vectors.slots(case)
    network = native_vectors.network(case, cpu_kernels.instruction_sets()[0])
    slots["partner"][:2], slots["label"][:2] = torch.tensor([1, -1]), torch.tensor([2, 0])
    for name, (slot, value) in changes.items():
        slots[name][slot] = value
    with pytest.raises(ValueError, match=r"guided images need|a partner must be"):
        network.advance(slots, 1)


@pytest.mark.parametrize("variant", ["strokes", "pixels"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_not_finite_without_the_class_fail_the_guided_image(backend, variant):
    network = small_models.model(model(variant).config)
    generator = Generator(network, 4, 1, backend=backend)
    generator.place_many([0, 1, 2, 3], pair(0, 2.0) + pair(1, 2.0))
    generator.advance(3)
    generator.pool.state.s[0, 1] = float("nan")
    generator.advance(network.config.steps)
    assert generator.pool.bits[:2].isnan().all()
    assert generator.pool.bits[2:].isfinite().all()


GUIDED = GenerateRequest(0, 3, 77, label=2, guidance=2.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_images_that_the_engine_starts_from_prefixes_are_those_of_single_steps(
    backend,
):
    network = model("strokes")
    found = []
    known = small_models.images(network.config, 2)
    mask = np.arange(network.config.bytes) % 7 < 3
    edit = GenerateRequest(
        5, 4, 78, tuple(map(bytes, known)), (mask.tobytes(),) * 2, label=1, guidance=3.0
    )
    generator = Generator(network, 2, 1, backend=backend)
    found += of_kind(run_until_idle(Engine(generator), edit), Finished)
    assert len(found) == 4
    for event in found:
        spec = edit.image(event.index)
        generator.place_many([0, 1], [spec, replace(spec, label=0)])
        generator.advance(network.config.steps)
        assert generator.image(0).tobytes() == event.image
        rounding = 0 if backend == "cpu" else 1e-6  # torch adds in another order when it reads
        assert generator.bits_per_dim(0) == pytest.approx(event.bits_per_dim, rel=rounding, abs=0)


def test_a_guided_image_takes_two_slots_and_counts_as_one_image():
    engine = Engine(Generator(model("strokes"), 5, 1, backend="eager"))
    engine.accept(GUIDED)
    engine.tick()
    assert engine.stats().images_waiting == len(engine.scheduler.free) == 1
    assert engine.scheduler.held == {"": 4}
    assert 0 < engine.stats().painted_bytes <= 2 * engine.length
    run_until_idle(engine)
    assert engine.stats().painted_bytes == 3 * engine.length


def test_an_engine_of_one_slot_refuses_guidance_with_a_sentence_and_paints_others():
    one_slot = Engine(Generator(model("strokes"), 1, 1, backend="eager"))
    events = run_until_idle(one_slot, GUIDED, GenerateRequest(1, 2, 0, label=1))
    sentence = "This server has one slot, and a guided image needs two."
    assert of_kind(events, Failed) == [Failed(0, sentence, "guidance_not_supported", "guidance")]
    assert ended(events, Finished) == [1, 1]
