"""The stateful softmax baseline: cached steps must compute plain softmax attention over the whole image."""

import numpy as np
import pytest
import torch

from scanline.model.bench.baselines import SoftmaxCache, cache_bytes, project, too_large
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.close import assert_close


def whole_image(model: Transformer, images: torch.Tensor) -> torch.Tensor:
    """Parameters [B, N - first, 3K] of every byte by softmax(q k^T / sqrt(C)) v under a causal mask."""
    config = model.config
    places = torch.arange(config.first, config.bytes).unsqueeze(0)
    x = model.embedding(images, places)
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    for layer in model.layers:
        q, k, v = (part.transpose(1, 2) for part in project(layer, x))
        weights = (q @ k.mT / config.key_width**0.5).masked_fill(future, -torch.inf).softmax(dim=-1)
        x = layer._finish(x, (weights @ v).transpose(1, 2).flatten(2))
    return model._read_out(x, images, places)


@pytest.mark.parametrize("variant", ["plain", "authors", "anchored colour"])
def test_cached_steps_are_full_softmax_attention(variant: str) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    images = torch.from_numpy(small_models.images(model.config, 3))
    baseline = SoftmaxCache(model, 3)
    baseline.images.copy_(images)
    places = range(model.config.first, model.config.bytes)
    stepped = torch.stack([baseline.parameters(position) for position in places], dim=1)
    assert_close(variant, whole_image(model, images), stepped)


def test_every_image_is_painted_from_its_own_bytes() -> None:
    model = small_models.model(small_models.config())
    baseline = SoftmaxCache(model, 5)
    for position in range(model.config.bytes):
        baseline.paint_byte(position)
    assert len(np.unique(baseline.images.numpy(), axis=0)) == 5


def test_the_cache_grows_with_the_position_and_one_larger_than_memory_is_refused_with_its_size() -> None:
    model = small_models.model(small_models.config())
    sizes = [cache_bytes(model.config, positions) for positions in (1, 10, 20)]
    assert sizes[1] == 10 * sizes[0]
    baseline = SoftmaxCache(model, 2, positions=10)
    assert baseline.keys.nbytes + baseline.values.nbytes == 2 * sizes[1]
    assert too_large(model.config, 1, "cpu") is None
    reason = f"the softmax cache of {10**12} images needs {10**3 * sizes[2]:.1f} GB"
    assert (too_large(model.config, 10**12, "cpu") or "").startswith(reason)


def test_a_step_is_the_mean_over_positions() -> None:
    baseline = SoftmaxCache(small_models.model(small_models.config()), 2)
    assert (min(baseline.times), max(baseline.times)) == (0, 19)
    baseline.times = {position: [1e-3 * (1 + position)] * 3 for position in baseline.times}  # linear: mean at 9.5
    rate = baseline.rate()
    assert rate.step_ms_median == pytest.approx(10.5)
    assert rate.images_per_second == pytest.approx(2 / (20 * 10.5e-3))
