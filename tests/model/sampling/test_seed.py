"""Same seed, same image: painting is a function of the model, the seed, the index and the temperature."""

import numpy as np
import pytest
import torch

from scanline.kernels import mixture
from scanline.kernels.philox import uniforms
from scanline.model.sampling.offline import paint
from tests.support import small_models


@pytest.fixture(scope="module")
def model():
    return small_models.model(small_models.config())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_every_byte_is_sampled_by_the_random_numbers_of_its_own_place(model, temperature: float) -> None:
    """The law of painting, a byte at a time through the parallel view."""
    seed, index = 2**40 + 3, 2
    image = torch.zeros(1, model.config.bytes, dtype=torch.uint8)
    for position in range(model.config.bytes):
        parameters = model.parallel(image)[:, position]
        draw = uniforms(torch.tensor([seed]), torch.tensor([index]), torch.tensor([position]))
        image[0, position] = mixture.sample(parameters, draw, torch.tensor([temperature]), model.config.scale)
    painted = paint(model, index + 1, seed=seed, temperature=temperature).images[index]
    np.testing.assert_array_equal(painted, image[0].numpy())


@pytest.mark.parametrize("variant", ["plain", "histogram", "colour"])
def test_same_seed_same_images_whatever_fits_into_a_tick(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    first = paint(model, 5, seed=11)
    monkeypatch.setattr("scanline.model.sampling.engine.MOST_STEPS", 3)
    again = paint(model, 5, seed=11)
    np.testing.assert_array_equal(first.images, again.images)
    np.testing.assert_array_equal(first.bits_per_dim, again.bits_per_dim)


def test_painting_reports_every_byte_and_leaves_torchs_random_stream_and_threads_alone(model) -> None:
    counts: list[int] = []
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    paint(model, 3, seed=0, progress=counts.append)
    assert counts == sorted(set(counts))
    assert counts[-1] == 60
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_every_index_and_every_seed_is_another_image(model) -> None:
    images = np.concatenate([paint(model, 20, seed=seed).images for seed in (0, 1, 2**32, 2**63 - 1)])
    assert len(np.unique(images, axis=0)) == 80


def test_more_images_than_slots_are_painted_in_their_order(model) -> None:
    many, few = paint(model, 600, seed=4), paint(model, 3, seed=4)
    np.testing.assert_array_equal(many.images[:3], few.images)
    assert len(np.unique(many.images, axis=0)) == 600
