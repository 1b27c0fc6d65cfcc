"""Guided images on every backend: two slots, one with a class and one without, draw the same bytes from both logits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from scanline.kernels import LN2
from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.philox import uniforms
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.self_test import WrongResultsError, run_self_test
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.kernels import native_vectors
from tests.support.kernels.native_vectors import CATEGORICAL, Case
from tests.support.sweeps import and_slow

NATIVE = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
BACKENDS = [pytest.param("cpu", marks=NATIVE), "eager"]
# of steps of a byte and of a pixel, that predict logits and mixtures of logistics
CASES = [
    pytest.param(variant, "cpu", marks=NATIVE) for variant in ("categorical", "strokes", "plain", "waves of pixels")
]
CASES += and_slow([("strokes", "eager")], ("categorical", "eager"), ("plain", "eager"), ("waves of pixels", "eager"))


LOGITS, PIXELS = {"predicts": CATEGORICAL}, {**native_vectors.COLOUR_PIXELS, "components": 10}


@cache
def model(variant: str) -> Transformer:
    return small_models.model(small_models.config(**small_models.VARIANTS[variant], **small_models.CLASSES))


def pair(index: int, guidance: float, label: int = 2, **known: np.ndarray) -> list[ImageSpec]:
    """The two specs of a guided image."""
    spec = ImageSpec(7, index, 0.9, label=label, guidance=guidance, **known)
    return [spec, replace(spec, label=0)]


def half_known(network: Transformer) -> dict[str, np.ndarray]:
    known = small_models.images(network.config, 1)[0]
    return {"known": known, "mask": np.arange(network.config.bytes) % 2 == 1}


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_bytes_are_drawn_from_the_mixed_logits_and_cost_what_the_class_says(variant: str, backend: str) -> None:
    network, guidance = model(variant), 2.5
    config, given = network.config, half_known(network)
    generator = Generator(network, 5, 1, backend=backend)
    generator.place_many([4, 1], pair(3, guidance, **given))
    generator.advance(config.steps)
    fetched = generator.fetch([4, 1]).wait()
    generator.close()
    images = torch.from_numpy(fetched.images)
    assert torch.equal(images[0], images[1])
    assert (fetched.images[0][given["mask"]] == given["known"][given["mask"]]).all()

    parameters = network.parallel(images, labels=torch.tensor([2, 0]))
    places = torch.arange(config.first, config.bytes).view(config.steps, config.step_bytes)
    draws = uniforms(torch.full_like(places, 7), torch.full_like(places, 3), places)
    weights, values, known = (
        torch.full((config.steps,), guidance),
        images[0][places],
        torch.from_numpy(given["mask"])[places],
    )
    temperature = torch.full((config.steps,), 0.9)
    drawn = network.distribution.sample_guided(*parameters, weights, draws, temperature, values, known)
    assert (drawn == values).float().mean() > 0.97  # a sum in another order may draw the value beside it
    costs = -network.distribution.log_prob(parameters, images[:, places]).double().sum(dim=-1) / LN2
    if not config.first:
        assert_close("bits", costs.sum(dim=1), torch.from_numpy(fetched.bits))


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_a_guided_image_is_the_same_alone_and_among_others_in_any_slots(variant: str, backend: str) -> None:
    network = model(variant)
    specs = [spec for i in range(14) for spec in pair(i, 1.5 + i / 7, 1 + i % 3)]
    specs += [ImageSpec(7, i, label=i % 4) for i in range(60)]
    slots = np.random.default_rng(0).permutation(len(specs)).tolist()  # partners lie in different tiles of 32
    together = Generator(network, len(specs), 3, backend=backend)
    together.place_many(slots, specs)
    for steps in (1, 5, network.config.steps):
        together.advance(steps)
    alone = Generator(network, 2, 1, backend=backend)
    for i in (0, 6, 26):
        alone.place_many([1, 0], specs[i : i + 2])
        alone.advance(network.config.steps)
        for mine, theirs in ((1, slots[i]), (0, slots[i + 1])):
            assert (alone.image(mine) == together.image(theirs)).all()
            assert alone.pool.bits[mine] == together.pool.bits[theirs]
    single = Generator(network, 1, 1, backend=backend)
    for i in (28, 60, 87):
        single.place(0, specs[i])
        single.advance(network.config.steps)
        assert (single.image(0) == together.image(slots[i])).all()
    for generator in (together, alone, single):
        generator.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_larger_guidance_paints_another_image_and_a_slot_that_is_used_again_forgets_its_partner(backend: str) -> None:
    network = model("strokes")
    generator = Generator(network, 2, 1, backend=backend)
    images = []
    for guidance in (1.5, 4.0):
        generator.place_many([0, 1], pair(0, guidance))
        generator.advance(network.config.steps)
        images.append(generator.image(0).tobytes())
    generator.place(0, ImageSpec(7, 0, 0.9, label=2))
    generator.advance(network.config.steps)
    images.append(generator.image(0).tobytes())
    generator.close()
    fresh = Generator(network, 1, 1, backend=backend)
    fresh.place(0, ImageSpec(7, 0, 0.9, label=2))
    fresh.advance(network.config.steps)
    assert fresh.image(0).tobytes() == images[2]
    fresh.close()
    assert len(set(images)) == 3


@NATIVE
@pytest.mark.parametrize(
    ("weights", "predicts"), [("float32", {}), ("float16", LOGITS), ("int8", LOGITS), ("int8", PIXELS)]
)
def test_guided_images_have_the_same_bits_on_every_instruction_set_and_number_of_threads(
    weights: str, predicts: dict[str, int]
) -> None:
    case = Case({"classes": 3, "layers": 2, "pre_norm": 1, **predicts}, weights, images=44)
    found = []
    for isa, threads in [(isa, 1) for isa in ISAS] + [(ISAS[0], 2), (ISAS[0], 5)]:
        slots = native_vectors.slots(case)
        for lower in range(0, 43, 4):
            slots["partner"][lower], slots["partner"][lower + 3] = 3, -3
            slots["label"][lower], slots["label"][lower + 3] = 1 + lower % 3, 0
            for name in ("images", "seed", "index", "temperature"):
                slots[name][lower + 3] = slots[name][lower]
        slots["guidance"].fill_(3.0)
        network = native_vectors.network(case, isa, threads)
        network.advance(slots, 5)
        network.advance(slots, 100)
        network.close()
        assert torch.equal(slots["images"][0::4], slots["images"][3::4])
        found.append([slots[name] for name in ("images", "bits", "s", "z")])
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


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
def test_slots_that_do_not_fit_each_other_are_refused(changes: dict[str, tuple[int, int]]) -> None:
    case = Case({"predicts": CATEGORICAL, "classes": 3})
    slots, network = native_vectors.slots(case), native_vectors.network(case, ISAS[0])
    slots["partner"][:2], slots["label"][:2] = torch.tensor([1, -1]), torch.tensor([2, 0])
    for name, (slot, value) in changes.items():
        slots[name][slot] = value
    with pytest.raises(ValueError, match=r"guided images need|a partner must be"):
        network.advance(slots, 1)
    network.close()


@pytest.mark.parametrize("variant", ["strokes", "pixels"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_not_finite_without_the_class_fail_the_guided_image(backend: str, variant: str) -> None:
    network = small_models.model(model(variant).config)
    generator = Generator(network, 4, 1, backend=backend)
    generator.place_many([0, 1, 2, 3], pair(0, 2.0) + pair(1, 2.0))
    generator.advance(3)
    generator.pool.state.s[0, 1] = float("nan")
    generator.advance(network.config.steps)
    assert generator.pool.bits[:2].isnan().all()
    assert generator.pool.bits[2:].isfinite().all()
    generator.close()


@NATIVE
def test_the_self_test_finds_a_backend_that_does_not_guide() -> None:
    class Unguided(CpuBackend):
        def place(self, pool: SlotPool, arrivals: object) -> None:
            super().place(pool, arrivals)  # type: ignore[arg-type]
            pool.partner.zero_()

    network = model("strokes")
    for kind, fails in ((CpuBackend, False), (Unguided, True)):
        backend, pool = kind(network, 1), SlotPool.empty(network.config, 8)
        if fails:
            with pytest.raises(WrongResultsError, match=r"guided image"):
                run_self_test(backend, pool, network)
        else:
            run_self_test(backend, pool, network)
        assert (pool.state.position == network.config.bytes).all()
        backend.close()
