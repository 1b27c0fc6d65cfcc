"""What the benchmark holds before it measures: a wrong product is found, and said in one sentence."""

import dataclasses

import numpy as np
import pytest

from scanline.model.bench import correctness
from scanline.model.bench.correctness import SEED, WrongResultError, reference
from scanline.model.bench.scanline import Ours, alone
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from tests.support import small_models


@pytest.fixture(scope="module")
def model() -> Transformer:
    return small_models.model(small_models.config())


def test_the_reference_is_what_painting_gives(model: Transformer) -> None:
    found = reference(model, (1, 5))
    assert sorted(found.images) == [0, 1, 4]
    painted = paint(model, 5, seed=SEED).images
    np.testing.assert_array_equal(np.stack(list(found.images.values())), painted[[0, 1, 4]])
    assert found.views_differ < correctness.BOUND[True]


def test_other_bytes_are_found_in_every_measured_slot(model: Transformer) -> None:
    found = reference(model, (1, 5))
    for index in found.images:
        wrong = {**found.images, index: found.images[index] ^ 1}
        ours = Ours(model, 5, dataclasses.replace(found, images=wrong))
        with pytest.raises(WrongResultError, match=f"byte 0 of image {index} is another one with 5 images in flight"):
            ours.measure(0.0)
        ours.close()


def test_other_bytes_of_one_image_alone_are_found(model: Transformer) -> None:
    found = reference(model, (1,))
    found.images[0][-1] ^= 1
    with pytest.raises(WrongResultError, match="byte 19 of image 0 is another one with 1 images in flight"):
        alone(model, 0.0, found)


def test_views_that_differ_are_found(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    other = small_models.model(small_models.config(), seed=1)
    bits = correctness.bits
    monkeypatch.setattr(correctness, "bits", lambda _, images: bits(other, images))
    with pytest.raises(WrongResultError, match=r"recurrent steps and the parallel view differ by .* bits/dim"):
        reference(model, (1,))


def test_images_that_near_their_end_start_again_and_are_held_too(model: Transformer) -> None:
    ours = Ours(model, 2, reference(model, (2,)))
    for _ in range(3):  # of three calls each and one uncounted, 8 of 20 bytes a call
        ours.measure(0.0)
    assert ours.rate().calls == 9
    ours.close()
