"""What an image costs under its label, and its known bytes: on every
backend that of the parallel view.
"""

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.base.config import ModelConfig
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

NATIVE = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
VARIANTS = ["plain", "concat", "histogram", "window", "strokes", "waves of pixels"]
# the eager backend is slower
CASES = [pytest.param(variant, "cpu", marks=NATIVE) for variant in VARIANTS]
CASES += and_slow(
    [("strokes", "eager")], *((variant, "eager") for variant in VARIANTS if variant != "strokes")
)
ODD_SIZES = {
    "height": 3,
    "width": 5,
    "heads": 3,
    "key_width": 7,
    "value_width": 6,
    "feed_forward": 19,
}
LABELS = [2, 0, 3, 1, 2]


def masked(config: ModelConfig, count: int) -> list[ImageSpec]:
    """Completions with labels, whose known bytes lie before, between and
    after hidden ones, and within steps.
    """
    images = small_models.images(config, count)
    mask = np.random.default_rng(1).random((count, config.bytes)) < 0.5
    mask[:, : config.bytes // 3] = True
    return [
        ImageSpec(3, i, images[i], mask[i], label=LABELS[i % len(LABELS)], temperature=0.9)
        for i in range(count)
    ]


@pytest.mark.parametrize(("variant", "backend"), CASES)
def test_bits_and_known_bits_are_the_cost_of_the_painted_image_under_its_label(
    variant: str, backend: str
) -> None:
    options = {**small_models.VARIANTS[variant], **ODD_SIZES, **small_models.CLASSES}
    network = small_models.model(small_models.config(**options))
    length = network.config.bytes
    specs = masked(network.config, 5)
    generator = Generator(network, 5, 2, backend=backend)
    prefixes = [generator.prefill(spec) for spec in specs]
    generator.place_many([4, 2, 0, 3, 1], specs, prefixes)
    generator.advance(length)
    fetched = generator.fetch([4, 2, 0, 3, 1]).wait()
    known_bits = generator.pool.known_bits[[4, 2, 0, 3, 1]]
    mask = np.stack([spec.mask for spec in specs if spec.mask is not None])
    assert (
        fetched.images[mask]
        == np.stack([spec.known for spec in specs if spec.known is not None])[mask]
    ).all()
    images = torch.from_numpy(fetched.images)
    found = network.bits(
        network.parallel(images, labels=torch.tensor(LABELS)), images, network.config.first, length
    )
    bits = torch.zeros(5, length, dtype=torch.float64)
    bits[:, network.config.first :] = found
    if network.config.first:
        histogram = torch.tensor(network.config.first_byte_histogram, dtype=torch.float64)
        bits[:, 0] = -histogram[images[:, 0].long()].log2()
    known = torch.from_numpy(mask)
    behind = torch.arange(length) >= torch.tensor(
        [prefix.position for prefix in prefixes]
    ).unsqueeze(1)
    assert_close("bits", bits.sum(dim=1), torch.from_numpy(fetched.bits))
    assert_close("known bits", (bits * (known & behind)).sum(dim=1), known_bits)
    assert_close("evidence", (bits * known).sum(dim=1), torch.from_numpy(fetched.evidence_bits))
    assert fetched.effective_particles.tolist() == [1.0] * 5
