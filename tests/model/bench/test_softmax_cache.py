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


def test_the_cache_is_that_large() -> None:
    model = small_models.model(small_models.config())
    baseline = SoftmaxCache(model, 2)
    assert baseline.keys.nbytes + baseline.values.nbytes == 2 * cache_bytes(model.config)


def test_caches_larger_than_memory_are_refused_with_their_size() -> None:
    config = small_models.config()
    assert too_large(config, 1, "cpu") is None
    reason = too_large(config, 10**12, "cpu")
    assert reason is not None
    assert reason.startswith(f"the softmax cache of {10**12} images needs {10**3 * cache_bytes(config):.1f} GB")


def test_a_step_is_the_mean_over_positions() -> None:
    baseline = SoftmaxCache(small_models.model(small_models.config()), 2)
    assert (min(baseline.times), max(baseline.times)) == (0, 19)
    baseline.times = {position: [1e-3 * (1 + position)] * 3 for position in baseline.times}  # linear: mean at 9.5
    rate = baseline.rate()
    assert rate.step_ms_median == pytest.approx(10.5)
    assert rate.images_per_second == pytest.approx(2 / (20 * 10.5e-3))
