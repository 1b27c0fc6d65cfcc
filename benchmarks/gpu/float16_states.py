"""Cost in bits/dim of states stored in 16 bits, for the shipped models.

Images that the model itself has painted with float32 states are run again as known images with float16 states: the mean
difference of their bits is how far the second distribution is from the first (the Kullback-Leibler divergence a byte),
and needs no data set. Increments below half a unit of s's last place are lost, so CIFAR-10's 1,024 steps are the test.
"""

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import SHIPPED, Sizes, model
from benchmarks.gpu.timing import bits_of, make_generator
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.messages import ImageSpec

SIXTEEN_BITS = (torch.float16, torch.bfloat16)


def float16_states(sizes: Sizes) -> Iterator[Finding]:
    """Yield bits/dim more than with float32 states, and the share of bytes that stay the same for the same seeds."""
    for name in sizes.models(*SHIPPED):
        exact, bits = paint(model(name, sizes), sizes.judged, torch.float32)
        yield Finding(f"states/{name}/float32", float(bits.mean()), "bits/dim", f"of {sizes.judged} images it painted")
        for dtype in SIXTEEN_BITS[: 1 if sizes.dry else None]:
            what = f"states/{name}/{bits_of(dtype)}"
            more = paint(model(name, sizes), sizes.judged, dtype, exact)[1] - bits
            note = f"of an image: {more.min():.2g} to {more.max():.2g}"
            yield Finding(f"{what}/more", float(more.mean()), "bits/dim", note)
            images, _ = paint(model(name, sizes), sizes.judged, dtype)
            yield Finding(f"{what}/same_bytes", float((images == exact).mean()), "", "of the same seeds")


def paint(
    network: Transformer, count: int, dtype: torch.dtype, known: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return images [n, N] and their bits/dim [n]; of `known` images, where they are given, by the same steps."""
    generator = make_generator(network, count, dtype)
    length = generator.config.bytes
    mask = None if known is None else np.ones(length, np.bool_)
    images = [None] * count if known is None else list(known)
    specs = [ImageSpec(seed=1, index=index, known=image, mask=mask) for index, image in enumerate(images)]
    generator.place_many(range(count), specs)
    while generator.positions().min() < length:
        generator.advance(generator.config.steps)
    painted = np.stack([generator.image(slot) for slot in range(count)])
    bits = np.array([generator.bits_per_dim(slot) for slot in range(count)])
    generator.close()
    return painted, bits
