"""Same seed, same image: painting is a function of the model, the seed, the index and the temperature."""

import numpy as np
import pytest
import torch

from scanline.kernels.philox import uniforms
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.image_spec import ImageSpec
from scanline.model.tasks.offline import paint
from tests.support import small_models


@pytest.fixture(scope="module")
def model():
    return small_models.model(small_models.config())


MASKS = {
    "nothing known": lambda n: np.zeros(n, bool),
    "every second": lambda n: np.arange(n) % 2 == 1,  # of three channels: known green, unknown red, and the reverse
    "the first bytes, to the midst of a pixel": lambda n: np.arange(n) < 13,
}


@pytest.mark.parametrize(("mask", "temperature"), [(mask, 0.7) for mask in MASKS] + [("nothing known", 1.0)])
@pytest.mark.parametrize("variant", ["plain", "categorical", "strokes", "grey pixels", "pixels", "waves of pixels"])
def test_every_byte_is_sampled_by_the_random_numbers_of_its_place(temperature: float, variant: str, mask: str) -> None:
    """The rule of painting, a step at a time through the parallel view. Samples of a
    distribution follow its probabilities: test_reference.py in tests/kernels."""
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    seed, index, size = 2**40 + 3, 2, model.config.step_bytes
    given = small_models.images(model.config, 1)
    image, known = torch.from_numpy(given.copy()), torch.from_numpy(MASKS[mask](model.config.bytes))[None]
    image[~known] = 0
    for step in range(model.config.steps):
        places, parameters = torch.arange(step * size, (step + 1) * size), model.parallel(image)[:, step]
        draws = uniforms(torch.tensor(seed), torch.tensor(index), places)[None]
        kept = image[:, places], known[:, places]
        image[:, places] = model.distribution.sample(parameters, draws, torch.tensor([temperature]), *kept)
    options = {} if mask == "nothing known" else {"known": given[0], "mask": known[0].numpy()}
    painted = paint(model, index + 1, seed=seed, temperature=temperature, **options).images[index]
    np.testing.assert_array_equal(painted, image[0].numpy())


def test_painting_reports_every_byte_and_leaves_torchs_random_stream_and_threads_alone(model) -> None:
    counts: list[int] = []
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    paint(model, 3, seed=0, progress=counts.append)
    assert counts == sorted(set(counts))
    assert counts[-1] == 3 * model.config.bytes
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_every_index_and_every_seed_is_another_image(model) -> None:
    images = np.concatenate([paint(model, 20, seed=seed).images for seed in (0, 1, 2**32, 2**63 - 1)])
    assert len(np.unique(images, axis=0)) == 80


def test_the_first_byte_without_a_start_token_follows_the_histogram() -> None:
    count = 2000
    generator = Generator(small_models.model(small_models.config(**small_models.NO_START)), count)
    generator.place_many(range(count), [ImageSpec(1, index) for index in range(count)])
    first = generator.fetch(range(count)).wait().images[:, 0]
    found = np.bincount(first, minlength=256).reshape(16, 16).sum(axis=1)
    expected = np.reshape(small_models.HISTOGRAM, (16, 16)).sum(axis=1) * count
    assert ((found - expected) ** 2 / expected).sum() < 15 + 4 * 30**0.5
