"""The positions of an update: all that are near paint, a sample of
the others, and right on average.
"""

import numpy as np
import pytest
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.data.positions import (
    COVERED,
    MULTIPLE,
    Positions,
    PositionSampler,
    draw,
    near_paint,
)
from scanline.model.training.optimise.loss import loss_of
from scanline.model.training.run.loop import train
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

SHEET = small_models.config_of("strokes", height=16, width=12, layers=1)
RECIPE = TrainingConfig(9, background=0.2)


def drawings(count, background=0):
    """Images [count, 192] uint8: a short stroke somewhere on an empty sheet."""
    made = np.full((count, 16, 12), background, np.uint8)
    random = np.random.default_rng(1)
    for image in made:
        row = random.integers(0, 12)
        column = random.integers(0, 9)
        image[row : row + 4, column : column + 2] = random.integers(1, 255, (4, 2))
    return made.reshape(count, -1)


@pytest.mark.parametrize("background", [0, 255])
def test_near_paint_is_whatever_has_paint_within_two_rows_and_columns_before_it(
    background,
):
    model = small_models.config_of("strokes", height=16, width=12, outside=background)
    images = drawings(5, background)
    near = near_paint(images, model).reshape(5, 16, 12)
    for image, found in zip(images.reshape(5, 16, 12), near, strict=True):
        for row in range(16):
            for column in range(12):
                before = [
                    image[r, c]
                    for r in range(max(0, row - 2), row + 1)
                    for c in range(max(0, column - 2), min(11, column + 2) + 1)
                    if (r, c) <= (row, column)
                ]
                assert found[row, column] == any(byte != background for byte in before)


def test_all_positions_near_paint_are_drawn_and_a_share_of_the_others():
    near = near_paint(drawings(1), SHEET)[0]
    counts = []
    for seed in range(50):
        position, weight = draw(near, 192, 0.2, np.random.default_rng(seed))
        drawn = position[weight > 0]
        assert (np.diff(drawn) > 0).all()
        assert set(np.flatnonzero(near)) <= set(drawn)
        assert (weight[near[position] & (weight > 0)] == 1).all()
        assert (weight[~near[position] & (weight > 0)] == 5).all()
        counts.append((~near[drawn]).sum())
    assert abs(np.mean(counts) - 0.2 * (~near).sum()) < 0.05 * len(near) * 0.2


def test_an_image_is_filled_up_with_its_last_position_and_cut_where_there_is_no_room():
    near = np.arange(192) < 60
    position, weight = draw(near, 140, 0.25, np.random.default_rng(0))
    assert len(position) == 140
    assert 60 < (weight > 0).sum() < 140
    assert (position[weight == 0] == 191).all()
    np.testing.assert_array_equal(
        draw(near, 64, 0.25, np.random.default_rng(0)), (position[:64], weight[:64])
    )


def test_whether_a_position_is_drawn_tells_nothing_about_the_next_one():
    """In even steps it would: a painted position between two steps would be known
    by the short way to the last one.
    """
    random = np.random.default_rng(0)
    chosen = np.zeros((4000, 192), bool)
    for row in chosen:
        position, weight = draw(np.zeros(192, bool), 192, 0.2, random)
        row[position[weight > 0]] = True
    for steps in (1, 2, 5, 10):
        assert abs(np.corrcoef(chosen[:, :-steps].ravel(), chosen[:, steps:].ravel())[0, 1]) < 0.01


@pytest.mark.parametrize("seed", and_slow([0], 1, 2))
def test_a_prediction_does_not_know_its_own_byte_or_later_ones_by_the_positions_and_their_weights(
    seed,
):
    model = small_models.model(SHEET)
    for place in range(0, 180, 7):
        empty = drawings(1)
        painted = drawings(1)
        empty[0, place:], painted[0, place:] = 0, 200
        found = []
        for image in (empty, painted):
            position, weight = draw(
                near_paint(image, SHEET)[0], 192, 0.2, np.random.default_rng(seed)
            )
            arguments = (
                torch.from_numpy(position)[None],
                torch.from_numpy(weight.astype(np.float32))[None],
            )
            parameters = model.sampled(torch.from_numpy(image), *arguments)[0]
            found.append(
                {
                    int(at): row
                    for at, row, one in zip(position, parameters, weight, strict=True)
                    if one
                }
            )
        assert {at for at in found[0] if at < place} == {at for at in found[1] if at < place}
        for at in found[0]:
            if at <= place:
                assert_close(f"position {at}, painted from {place}", found[0][at], found[1][at])


def test_a_run_draws_as_many_positions_of_every_image_as_its_images_need():
    images = drawings(200)
    sampler = PositionSampler(images, RECIPE, SHEET)
    wanted = near_paint(images, SHEET).sum(1)
    assert sampler.count % MULTIPLE == 0
    assert np.mean(wanted + 0.2 * (192 - wanted) <= sampler.count) >= COVERED
    batch = torch.from_numpy(images[:8])
    drawn = sampler.at(batch, 3)
    again = sampler.at(batch, 3)
    later = sampler.at(batch, 4)
    assert drawn.position.shape == drawn.weight.shape == (8, sampler.count)
    assert torch.equal(drawn.position, again.position)
    assert not torch.equal(drawn.position, later.position)


@pytest.mark.parametrize("case", ["background of 1", "a model that reads bytes", "photographs"])
def test_otherwise_all_positions_are_computed(case):
    config = TrainingConfig(9) if case == "background of 1" else RECIPE
    model = (
        small_models.config(height=16, width=12) if case == "a model that reads bytes" else SHEET
    )
    images = small_models.images(model, 20) if case == "photographs" else drawings(20)
    assert PositionSampler(images, config, model).at(torch.from_numpy(images), 0) is None


@pytest.mark.parametrize("variant", ["strokes", "grey pixels"])
def test_of_all_positions_the_loss_is_that_without_a_sample(variant):
    model = small_models.model_of(variant).requires_grad_(True)
    batch = torch.from_numpy(small_models.images(model.config, 3))
    steps = model.config.steps
    every = Positions(torch.arange(steps).expand(3, -1), torch.ones(3, steps))
    found = loss_of(model, batch, positions=every)
    expected = loss_of(model, batch)
    assert_close("loss", expected, found)
    assert_close(
        "gradient",
        *(torch.autograd.grad(loss, [model.head.weight])[0] for loss in (expected, found)),
    )


def test_a_sample_estimates_the_loss():
    model = small_models.model(SHEET)
    images = drawings(16)
    batch = torch.from_numpy(images)
    sampler = PositionSampler(images, RECIPE, SHEET)
    found = [loss_of(model, batch, positions=sampler.at(batch, update)) for update in range(30)]
    expected = loss_of(model, batch)
    assert sampler.count < 0.6 * 192
    assert torch.stack(found).std() > 0
    assert abs(torch.stack(found).mean() - expected) < 0.03 * expected


@pytest.mark.slow
def test_a_run_learns_from_samples_in_one_process_and_in_two(tmp_path):
    recipe = {
        "updates": 60,
        "checkpoint_every": 60,
        "evaluate_images": 20,
        "warm_up": 5,
        "learning_rate": 2e-2,
    }
    config = TrainingConfig(batch=8, background=0.2, **recipe)
    images = drawings(60)
    losses = []
    for workers in (1, 2):
        train(
            SHEET, config, images, images, tmp_path / str(workers), workers=workers, compiled=False
        )
        rows = (tmp_path / str(workers) / "loss.csv").read_text().splitlines()[1:]
        losses.append(torch.tensor([float(row.split(",")[1]) for row in rows]))
    assert losses[0][-1] < 0.9 * losses[0][0]
    assert_close("loss curve", *losses, bound=1e-3)
