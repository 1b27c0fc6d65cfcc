"""Labels: every backend adds an image's class to each step as the network does, whatever labels the others have."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.particles import Groups
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

NATIVE = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
VARIANTS = ["plain", "concat", "histogram", "window", "strokes", "waves of pixels"]
CASES = [pytest.param(variant, "cpu", marks=NATIVE) for variant in VARIANTS]  # the eager backend is slower
CASES += and_slow([("strokes", "eager")], *((variant, "eager") for variant in VARIANTS if variant != "strokes"))
ODD_SIZES = {"height": 3, "width": 5, "heads": 3, "key_width": 7, "value_width": 6, "feed_forward": 19}
LABELS = [2, 0, 3, 1, 2]


def config(variant: str, **sizes: int) -> ModelConfig:
    return small_models.config(**{**small_models.VARIANTS[variant], **sizes, **small_models.CLASSES})


@cache
def model(variant: str) -> Transformer:
    return small_models.model(config(variant))


@cache
def odd_model(variant: str) -> Transformer:
    return small_models.model(config(variant, **ODD_SIZES))


def masked(config: ModelConfig, count: int) -> list[ImageSpec]:
    """Completions with labels, whose known bytes lie before, between and after hidden ones, and within steps."""
    images, mask = small_models.images(config, count), np.random.default_rng(1).random((count, config.bytes)) < 0.5
    mask[:, : config.bytes // 3] = True
    return [ImageSpec(3, i, 0.9, images[i], mask[i], LABELS[i % len(LABELS)]) for i in range(count)]


@NATIVE
@pytest.mark.parametrize("isa", ISAS)
def test_the_native_kernel_reads_labelled_images_as_the_parallel_view_does(isa: str) -> None:
    labels = torch.tensor(LABELS)
    for variant, weights in product(VARIANTS, ("float32", "float16")):
        network = odd_model(variant)
        if weights == "float16":
            network = deepcopy(network).half().float()
        images = torch.from_numpy(small_models.images(network.config, len(LABELS)))
        backend = CpuBackend(network, 2, isa=isa, weights=weights)
        expected_state, state = (State.zeros(network.config, len(LABELS)) for _ in range(2))
        expected = network.parallel(images, expected_state, labels=labels)
        stops = np.full(len(LABELS), network.config.bytes)
        _, parameters = backend.prefill_parameters(PrefillBatch.of(images, state, stops, labels))
        backend.close()
        assert_close(f"parameters, {variant}, {weights}", expected, parameters)
        assert_close(f"s, {variant}, {weights}", expected_state.s, state.s)


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_bits_and_known_bits_are_the_cost_of_the_painted_image_under_its_label(variant: str, backend: str) -> None:
    network = odd_model(variant)
    length, specs = network.config.bytes, masked(network.config, 5)
    generator = Generator(network, 5, 2, backend=backend)
    prefixes = [generator.prefill(spec) for spec in specs]
    generator.place_many([4, 2, 0, 3, 1], specs, prefixes)
    generator.advance(length)
    fetched = generator.fetch([4, 2, 0, 3, 1]).wait()
    known_bits = generator.pool.known_bits[[4, 2, 0, 3, 1]]
    generator.close()
    mask = np.stack([spec.mask for spec in specs if spec.mask is not None])
    assert (fetched.images[mask] == np.stack([spec.known for spec in specs if spec.known is not None])[mask]).all()

    images = torch.from_numpy(fetched.images)
    found = network.bits(network.parallel(images, labels=torch.tensor(LABELS)), images, network.config.first, length)
    bits = torch.zeros(5, length, dtype=torch.float64)
    bits[:, network.config.first :] = found
    if network.config.first:
        histogram = torch.tensor(network.config.first_byte_histogram, dtype=torch.float64)
        bits[:, 0] = -histogram[images[:, 0].long()].log2()
    known = torch.from_numpy(mask)
    behind = torch.arange(length) >= torch.tensor([prefix.position for prefix in prefixes]).unsqueeze(1)
    assert_close("bits", bits.sum(dim=1), torch.from_numpy(fetched.bits))
    assert_close("known bits", (bits * (known & behind)).sum(dim=1), known_bits)
    assert_close("evidence", (bits * known).sum(dim=1), torch.from_numpy(fetched.evidence_bits))
    assert fetched.effective_particles.tolist() == [1.0] * 5


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_an_image_with_a_label_is_the_same_alone_and_among_others(variant: str, backend: str) -> None:
    network = model(variant)
    length, specs = network.config.bytes, masked(network.config, 7)
    specs += [ImageSpec(9, i, label=i % 4) for i in range(30)]
    together = Generator(network, 37, 2, backend=backend)
    together.place_many(range(37), specs)
    together.advance(length)
    alone = Generator(network, 2, 1, backend=backend)
    for i in (0, 3, 8, 11, 36):
        alone.place(1, specs[i])
        alone.advance(length)
        assert (alone.image(1) == together.image(i)).all(), i
        assert alone.pool.bits[1] == together.pool.bits[i]
        assert alone.pool.known_bits[1] == together.pool.known_bits[i]
    together.close()
    alone.close()


Completed = tuple[bytes, float, float, float]


def completed(network: Transformer, indices: range, backend: str) -> tuple[list[Completed], bool]:
    """Complete images of 8 particles each in one pool, resampled after each row: what is fetched of each, and whether
    any of them was resampled."""
    config, particles, resampled = network.config, 8, False
    row, spec = config.width * config.channels, masked(config, 1)[0]
    specs = [
        replace(spec, index=index, particle=particle, particles=particles)
        for index, particle in product(indices, range(particles))
    ]
    generator = Generator(network, len(specs), 2, backend=backend)
    slots = np.random.default_rng(len(specs)).permutation(len(specs)).reshape(-1, particles)
    prefix = generator.prefill(spec)
    generator.place_many(slots.ravel().tolist(), specs, [prefix] * len(specs))
    for stop in range(config.first + row, config.bytes + 1, row):
        generator.advance((stop - int(generator.positions()[0])) // config.step_bytes)
        generator.resample(Groups(slots, generator.positions()[slots[:, 0]]))
        resampled |= bool((generator.pool.evidence_bits[slots] > prefix.bits).any())
    generator.advance(config.steps)
    generator.choose(Groups(slots, np.full(len(indices), config.bytes)))
    found = generator.fetch(slots[:, 0].tolist()).wait()
    generator.close()
    assert (found.images[:, spec.mask] == spec.known[spec.mask]).all()
    numbers = (found.bits.tolist(), found.evidence_bits.tolist(), found.effective_particles.tolist())
    return list(zip([image.tobytes() for image in found.images], *numbers, strict=True)), resampled


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_completions_by_particles_are_the_same_alone_and_among_others(variant: str, backend: str) -> None:
    together, resampled = completed(model(variant), range(12), backend)
    assert resampled
    for index in (0, 7, 11):
        assert completed(model(variant), range(index, index + 1), backend)[0] == together[index : index + 1]
    assert all(1 <= effective <= 8 for _, _, _, effective in together)
    assert len({evidence for _, _, evidence, _ in together}) == 12
