"""Measures of scanline bench, and the check of results before them."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from torch import nn

from scanline.model.bench import correctness, measure
from scanline.model.bench.correctness import SEED, WrongResultError, make_reference
from scanline.model.bench.measure import Ceilings, Scanline, known_bytes, one_image
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.kernels.native import NATIVE


@pytest.mark.parametrize("variant", ["plain", "authors", "window", "waves of pixels"])
def test_products_are_the_network_s_of_two_flop_a_weight(variant, monkeypatch):
    monkeypatch.setattr(measure, "COPY_BYTES", 2**10)
    model = model_of(variant)
    linear = [part for part in model.modules() if isinstance(part, nn.Linear)]
    expected = sorted((part.in_features, part.out_features) for part in linear)
    assert sorted(measure.product_shapes(model.config)) == expected
    ceilings = measure.measure_ceilings(
        model.config,
        [3],
        "cpu",
        seconds=0.0,
    )
    assert ceilings.flop_per_step == 2 * sum(part.weight.numel() for part in linear)
    assert ceilings.matrix_rows in (3, *measure.ROWS)


@pytest.mark.parametrize("variant", ["plain", "histogram", "pixels"])
def test_rates_prefill_and_scoring_count_the_steps_and_bytes_of_an_image(variant):
    model = model_of(variant)
    config = model.config
    reference = make_reference(model, (2,))
    program = Scanline(model, 2, reference)
    program.measure(0.0)
    rate = program.rate()
    assert rate.images_per_second == pytest.approx(2e3 / (config.steps * rate.step_ms_median))
    ceilings = Ceilings(100, 64, 3200, copy_bytes=1)
    prefill, scoring = known_bytes(model, 0.0, reference, ceilings)
    assert prefill["bytes_of_each"] == {"plain": 10, "histogram": 9, "pixels": 30}[variant]
    assert scoring["bytes_of_each"] == config.bytes - config.first
    steps = scoring["images"] * config.steps / scoring["seconds_median"]
    assert scoring["of_matrix_rate"] == pytest.approx(ceilings.against_torch_matmul(steps))
    alone = one_image(model, 0.0, reference)
    assert 1e-3 * alone["step_ms"] * config.steps == pytest.approx(alone["seconds_median"])
    assert 1e-3 * alone["byte_ms"] * config.bytes == pytest.approx(alone["seconds_median"])


def model_of(variant):
    return small_models.model_of(variant)


@pytest.fixture(scope="module", params=["plain", "waves of pixels"])
def model(request):
    return model_of(request.param)


def test_the_reference_is_what_painting_gives(model):
    reference = make_reference(model, (1, 5))
    assert sorted(reference.images) == [0, 1, 4]
    painted = paint(model, 5, seed=SEED).images
    assert_array_equal(np.stack(list(reference.images.values())), painted[[0, 1, 4]])
    assert reference.views_differ < correctness.BOUND_EXACT


def test_differing_bytes_are_found_in_every_checked_slot_and_in_one_image_alone(
    model,
):
    reference = make_reference(model, (1, 5))
    for index in reference.images:
        wrong = {**reference.images, index: reference.images[index] ^ 1}
        program = Scanline(model, 5, dataclasses.replace(reference, images=wrong))
        with pytest.raises(
            WrongResultError, match=f"byte 0 of image {index} differs .* with 5 images in flight"
        ):
            program.measure(0.0)
    reference.images[0][-1] ^= 1
    last = model.config.bytes - 1
    with pytest.raises(
        WrongResultError, match=f"byte {last} of image 0 differs .* with 1 images in flight"
    ):
        one_image(model, 0.0, reference)


def test_views_that_differ_are_found(model, monkeypatch):
    other = small_models.model(model.config, seed=1)
    bits = correctness.bits
    monkeypatch.setattr(correctness, "bits", lambda _, images: bits(other, images))
    with pytest.raises(
        WrongResultError, match=r"recurrent and parallel views differ by .* bits/dim"
    ):
        make_reference(model, (1,))


def test_images_near_their_end_are_checked_and_start_again(model):
    program = Scanline(model, 2, make_reference(model, (2,), backend="eager"))
    for _ in range(3):  # of three timed calls and one that warms up, 8 of 20 steps each
        program.measure(0.0)
    assert program.rate().calls == 9
    assert program.generator.positions().max() <= model.config.bytes


@NATIVE
def test_whole_images_are_timed_where_they_are_painted_ahead(model):
    program = Scanline(model, 2, make_reference(model, (2,), backend="cpu"))
    for _ in range(3):
        program.measure(0.0)
    assert program.rate().calls == 3
    assert program.generator.positions().min() == model.config.bytes
    assert program.work.passes <= model.config.steps <= program.work.rows
    limits = program.work.limits(Ceilings(100, 64, 3200, copy_bytes=1), 8.0)
    assert limits["images_by_products"] == pytest.approx(32 / program.work.rows)
    assert limits["images_by_state_traffic"] == pytest.approx(1 / (8 * program.work.passes))
