"""The programs that benchmarks/ compares Scanline with, and memory over
an image's positions.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import baselines, memory_over_position
from benchmarks.baselines import FastTransformers, SoftmaxCache, missing_library, too_large
from scanline.kernels.causal_conv import causal_conv
from scanline.model.bench.correctness import make_reference
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.close import assert_close


def model_of(variant: str) -> Transformer:
    return small_models.model(small_models.config(**small_models.VARIANTS[variant]))


def test_programs_are_measured_in_turns_and_a_missing_one_has_a_reason(
    grey_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(baselines, "missing_library", lambda: "it is not here")
    options = ["--model", str(grey_directory), "--device", "cpu", "--seconds", "0.01"]
    baselines.main([*options, "--batches", "1,3"])
    *lines, last = capsys.readouterr().out.splitlines()
    assert "1 in flight, authors: it is not here" in lines
    assert any(line.startswith("3 in flight, softmax: ") for line in lines)
    rows = json.loads(last)["rows"]
    assert [row["batch"] for row in rows] == [1, 3]
    assert all(row.keys() == {"batch", "ours", "softmax"} for row in rows)


def test_memory_of_an_image_is_the_same_at_every_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_over_position, "IMAGES", {"cpu": 4})
    reference = make_reference(model_of("waves of pixels"), (4,))
    samples = memory_over_position.sample_memory(reference.model, reference)
    assert len({sample.tensor_bytes for sample in samples}) == 1
    assert [sample.position % 3 for sample in samples] == [0] * 8


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_transformers", None)
    monkeypatch.delitem(sys.modules, "fast_transformers.builders", raising=False)
    assert str(missing_library()).startswith("pytorch-fast-transformers is not installed")


@pytest.mark.skipif(
    missing_library() is not None, reason="pytorch-fast-transformers is not installed"
)
@pytest.mark.parametrize("variant", ["plain", "colour", "pixels"])
def test_it_paints_whole_images_one_after_the_other(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    baseline = FastTransformers(config, 3, "cpu")
    for _ in range(config.bytes + 1):
        baseline.paint_byte()
    assert baseline.position == 2
    assert len(baseline.images[:, 1:].unique()) > 2
    baseline.measure(0.0)
    rate = baseline.rate()
    assert rate.calls == baselines.MINIMUM_BYTES
    assert rate.images_per_second == pytest.approx(3e3 / (config.bytes * rate.step_ms_median))


def whole_image(model: Transformer, images: torch.Tensor) -> torch.Tensor:
    """Parameters [B, n, P] of every step by softmax(q k^T / sqrt(C)) v under a causal mask."""
    config = model.config

    def conv(
        x: torch.Tensor, norm: torch.nn.Module, conv_weight: torch.Tensor, number: int
    ) -> torch.Tensor:
        return causal_conv(norm(x), conv_weight, 0, config.width)

    positions = torch.arange(config.first, config.bytes, config.step_bytes).unsqueeze(0)
    x, base = model._read_in(images, positions, None, conv)
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    for layer in model.layers:
        q, k, v = (part.transpose(1, 2) for part in baselines.project(layer, x))
        weights = (q @ k.mT / config.key_width**0.5).masked_fill(future, -torch.inf).softmax(dim=-1)
        x = layer._finish(x, (weights @ v).transpose(1, 2).flatten(2), conv, None)
    return model._read_out(x, base)


@pytest.mark.parametrize("variant", ["plain", "authors", "waves of pixels"])
def test_cached_steps_are_full_softmax_attention(variant: str) -> None:
    model = model_of(variant)
    images = torch.from_numpy(small_models.images(model.config, 3))
    baseline = SoftmaxCache(model, 3)
    baseline.images.copy_(images)
    stepped = torch.stack([baseline.parameters(step) for step in range(model.config.steps)], dim=1)
    assert_close(variant, whole_image(model, images), stepped)


@pytest.mark.parametrize("variant", ["plain", "histogram", "pixels"])
def test_every_byte_of_an_image_is_painted_from_its_own_bytes(variant: str) -> None:
    model = model_of(variant)
    baseline = SoftmaxCache(model, 5)
    assert baseline.keys.nbytes + baseline.values.nbytes == 5 * baselines.cache_bytes(model.config)
    baseline.images.fill_(77)
    for step in range(model.config.steps):
        baseline.paint_step(step)
    assert len(np.unique(baseline.images.numpy(), axis=0)) == 5
    assert (baseline.images.numpy()[:, model.config.first :] != 77).any(axis=0).all()


def test_caches_larger_than_memory_are_refused_with_their_size() -> None:
    config = small_models.config()
    assert too_large(config, 1, "cpu") is None
    sentence = (
        f"the softmax cache of {10**12} images needs {10**3 * baselines.cache_bytes(config):.1f} GB"
    )
    assert str(too_large(config, 10**12, "cpu")).startswith(sentence)


def test_a_step_is_the_mean_over_the_steps_of_an_image() -> None:
    baseline = SoftmaxCache(small_models.model(small_models.config()), 2)
    assert (min(baseline.times), max(baseline.times)) == (0, 19)
    # linear: mean at 9.5
    baseline.times = {step: [1e-3 * (1 + step)] * 3 for step in baseline.times}
    rate = baseline.rate()
    assert rate.step_ms_median == pytest.approx(10.5)
    assert rate.images_per_second == pytest.approx(2 / (20 * 10.5e-3))
