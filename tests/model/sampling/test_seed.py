"""Same seed, same image: painting is a function of the model, the
seed, the index and the temperature.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from scanline.kernels.philox import uniforms
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.tasks.offline import paint
from tests.support import small_models


@pytest.fixture(scope="module")
def model():
    return small_models.model(small_models.config())


MASKS = {
    "nothing known": lambda n: np.zeros(n, bool),
    # of three channels: known green, unknown red, and the reverse
    "every second": lambda n: np.arange(n) % 2 == 1,
    "the first bytes, to the midst of a pixel": lambda n: np.arange(n) < 13,
}


@pytest.mark.parametrize(
    ("mask", "temperature"), [(mask, 0.7) for mask in MASKS] + [("nothing known", 1.0)]
)
@pytest.mark.parametrize(
    "variant", ["plain", "categorical", "strokes", "grey pixels", "pixels", "waves of pixels"]
)
def test_every_byte_is_sampled_by_the_random_numbers_of_its_place(temperature, variant, mask):
    """The rule of painting, a step at a time through the parallel view. Samples of a
    distribution follow its probabilities: test_reference.py in tests/kernels."""
    model = small_models.model_of(variant)
    seed = 2**40 + 3
    index = 2
    size = model.config.step_bytes
    given = small_models.images(model.config, 1)
    image = torch.from_numpy(given.copy())
    known = torch.from_numpy(MASKS[mask](model.config.bytes))[None]
    image[~known] = 0
    for step in range(model.config.steps):
        places = torch.arange(step * size, (step + 1) * size)
        parameters = model.parallel(image)[:, step]
        draws = uniforms(torch.tensor(seed), torch.tensor(index), places)[None]
        kept = image[:, places], known[:, places]
        image[:, places] = model.distribution.sample(
            parameters, draws, torch.tensor([temperature]), *kept
        )
    options = {} if mask == "nothing known" else {"known": given[0], "mask": known[0].numpy()}
    painted = paint(model, index + 1, seed=seed, temperature=temperature, **options).images[index]
    assert_array_equal(painted, image[0].numpy())


@pytest.mark.parametrize(
    "how", [{}, {"label": 2}, {"label": 2, "guidance": 2.5}], ids=["none", "class", "guided"]
)
@pytest.mark.parametrize("variant", small_models.CORE)
def test_at_temperature_0_every_byte_is_the_likeliest_whatever_the_seed(variant, how):
    """Of a mixture the mean of its likeliest component, given the pixel's
    earlier bytes, but for guided bytes.
    """
    model = small_models.model_of(variant, **small_models.CLASSES)
    images = paint(model, 3, seed=1, temperature=0, **how)
    (image,) = np.unique(images.images, axis=0)
    for seed, backend, temperature in ((2**63 - 1, "cpu", 0), (5, "eager", 0), (1, "eager", 1e-46)):
        others = paint(
            model, 2, seed=seed, temperature=temperature, options={"backend": backend}, **how
        )
        assert (others.images == image).all()
        assert_allclose(others.bits_per_dim, images.bits_per_dim[:2], rtol=1e-5)
    config = model.config
    if config.predicts == "categorical":
        labels = torch.tensor([how.get("label", 0), 0])
        with_class, without = model.parallel(
            torch.from_numpy(image[None].repeat(2, 0)), labels=labels
        )
        logits = without + how.get("guidance", 1.0) * (with_class - without)
        assert_array_equal(logits.argmax(-1).numpy(), image[config.first :])


def test_at_temperature_0_known_bytes_stay_and_all_completions_are_alike():
    model = small_models.model_of("pixels")
    known = small_models.images(model.config, 1)[0]
    mask = np.arange(model.config.bytes) % 7 == 0
    (image,) = np.unique(
        paint(model, 4, seed=1, temperature=0, known=known, mask=mask, particles=4).images, axis=0
    )
    assert_array_equal(image[mask], known[mask])


def test_painting_reports_every_byte_and_leaves_torchs_random_stream_and_threads_alone(
    model,
):
    counts = []
    before = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    paint(model, 3, seed=0, progress=counts.append)
    assert counts == sorted(set(counts))
    assert counts[-1] == 3 * model.config.bytes
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_every_index_and_every_seed_is_another_image(model):
    images = np.concatenate(
        [paint(model, 20, seed=seed).images for seed in (0, 1, 2**32, 2**63 - 1)]
    )
    assert len(np.unique(images, axis=0)) == 80


def test_the_first_byte_without_a_start_token_follows_the_histogram():
    count = 2000
    generator = Generator(small_models.model(small_models.config(**small_models.NO_START)), count)
    generator.place_many(range(count), [ImageSpec(1, index) for index in range(count)])
    first = generator.fetch(range(count)).wait().images[:, 0]
    found = np.bincount(first, minlength=256).reshape(16, 16).sum(axis=1)
    expected = np.reshape(small_models.HISTOGRAM, (16, 16)).sum(axis=1) * count
    assert ((found - expected) ** 2 / expected).sum() < 15 + 4 * 30**0.5
