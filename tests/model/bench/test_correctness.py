"""The benchmark's own check: a model that computes something wrong is found, and reported in one sentence."""

import dataclasses

import numpy as np
import pytest

from scanline.model.bench import correctness
from scanline.model.bench.correctness import SEED, WrongResultError, make_reference
from scanline.model.bench.measure import Scanline, one_image
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support import small_models


@pytest.fixture(scope="module", params=["plain", "waves of pixels"])
def model(request: pytest.FixtureRequest) -> Transformer:
    return small_models.model(small_models.config(**small_models.VARIANTS[request.param]))


def test_the_reference_is_what_painting_gives(model: Transformer) -> None:
    reference = make_reference(model, (1, 5))
    assert sorted(reference.images) == [0, 1, 4]
    painted = paint(model, 5, seed=SEED).images
    np.testing.assert_array_equal(np.stack(list(reference.images.values())), painted[[0, 1, 4]])
    assert reference.views_differ < correctness.BOUND_EXACT


def test_differing_bytes_are_found_in_every_checked_slot_and_in_one_image_alone(model: Transformer) -> None:
    reference = make_reference(model, (1, 5))
    for index in reference.images:
        wrong = {**reference.images, index: reference.images[index] ^ 1}
        program = Scanline(model, 5, dataclasses.replace(reference, images=wrong))
        with pytest.raises(WrongResultError, match=f"byte 0 of image {index} differs .* with 5 images in flight"):
            program.measure(0.0)
        program.close()
    reference.images[0][-1] ^= 1
    last = model.config.bytes - 1
    with pytest.raises(WrongResultError, match=f"byte {last} of image 0 differs .* with 1 images in flight"):
        one_image(model, 0.0, reference)


def test_views_that_differ_are_found(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    other = small_models.model(model.config, seed=1)
    bits = correctness.bits
    monkeypatch.setattr(correctness, "bits", lambda _, images: bits(other, images))
    with pytest.raises(WrongResultError, match=r"recurrent steps and the parallel view differ by .* bits/dim"):
        make_reference(model, (1,))


def test_images_near_their_end_are_checked_and_start_again(model: Transformer) -> None:
    program = Scanline(model, 2, make_reference(model, (2,)))
    for _ in range(3):  # of three timed calls and one that warms up, 8 of 20 steps each
        program.measure(0.0)
    assert program.rate().calls == 9
    assert program.generator.positions().max() <= model.config.bytes
    program.close()
