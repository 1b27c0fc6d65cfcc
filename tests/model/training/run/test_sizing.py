"""The network and the recipe of a run without a preset: sized to the pictures and to the length of the run."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scanline.model.config import ModelConfig
from scanline.model.datasets.source import ImageSet
from scanline.model.network.transformer import Transformer
from scanline.model.training.run import sizing
from scanline.model.training.run.sizing import count_weights, network, recipe


def images(count: int, height: int, width: int, channels: int, background: int = 0) -> ImageSet:
    """`count` training images with a bright middle."""
    made = np.full((count, height, width, channels), background, np.uint8)
    made[:, 1:-1, 1:-1] = 99
    made = made.reshape(count, -1)
    return ImageSet(made, made[:2], height, width, channels, None, "")


def of_updates(data: ImageSet, updates: int) -> ModelConfig:
    return network(data, recipe(data, updates, None))


def test_more_updates_make_a_wider_network_and_few_images_a_narrower_one() -> None:
    many, few = images(5000, 28, 28, 1), images(300, 28, 28, 1)
    widths = [of_updates(many, updates).model_width for updates in (1, 1000, 5000)]
    assert widths[0] == 32
    assert widths == sorted(set(widths))
    assert recipe(few, 5, None, continued=True).learning_rate < recipe(few, 5, None).learning_rate
    assert of_updates(few, 5000).model_width < widths[-1]
    assert count_weights(of_updates(few, 5000)) <= 300 * 784 / sizing.BYTES_PER_WEIGHT


def test_a_run_of_minutes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves by 0.1 s with each update."""
    clock = itertools.count(step=0.1)
    monkeypatch.setattr(sizing, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(sizing, "MEASURED_SECONDS", 0.2)
    monkeypatch.setattr(sizing, "MEASURED_WIDTH", 32)
    data = images(20_000, 16, 16, 1)
    short, long = (network(data, recipe(data, None, minutes)) for minutes in (0.01, 60.0))
    assert short.model_width == 32
    assert long.model_width > 64
    contrasted = network(data, replace(recipe(data, None, 60.0), contrast=6.0))  # a quarter of the images is read again
    assert 0.7 * count_weights(long) < count_weights(contrasted) <= count_weights(long)


@pytest.mark.parametrize("shape", [(28, 28, 1), (3, 2, 1), (1, 1, 3), (64, 48, 3)])
def test_every_size_has_a_network_and_a_recipe(shape: tuple[int, int, int]) -> None:
    data = images(10, *shape)
    training = recipe(data, 10, None)
    chosen = network(data, training)
    assert (chosen.height, chosen.width, chosen.channels) == shape
    assert chosen.step == "pixel"
    assert chosen.predicts == ("categorical" if shape[2] == 1 else "pixel_logistics")
    assert chosen.causal_conv == (shape[2] == 3)
    assert 1 <= training.batch <= sizing.LARGEST_BATCH
    model = Transformer(chosen)
    assert model.parameter_count == count_weights(chosen)
    batch = torch.zeros(2, chosen.bytes, dtype=torch.uint8)
    assert model.parallel(batch).shape[:2] == (2, shape[0] * shape[1])


def test_outside_a_drawing_is_its_background() -> None:
    assert of_updates(images(10, 8, 8, 1, background=255), 5).outside == 255
    assert of_updates(images(10, 8, 8, 1, background=0), 5).outside == 0
    assert of_updates(images(10, 8, 8, 3, background=255), 5).outside == 128


def test_what_is_predicted_and_mixed_can_be_chosen() -> None:
    data = images(10, 8, 8, 1)
    assert network(data, recipe(data, 5, None), "pixel_logistics").predicts == "pixel_logistics"
    assert network(data, recipe(data, 5, None), "logistics").predicts == "logistics"
    assert network(data, recipe(data, 5, None), neighbours=True).causal_conv
    assert not network(data, recipe(data, 5, None), "pixel_logistics", neighbours=False).causal_conv
    with pytest.raises(ValueError, match="a step of 3 bytes predicts pixel_logistics, not categorical"):
        network(images(10, 8, 8, 3), recipe(data, 5, None), "categorical")
    with pytest.raises(ValueError, match="predicts must be one of logistics, categorical, pixel_logistics, not 'x'"):
        network(data, recipe(data, 5, None), "x")
