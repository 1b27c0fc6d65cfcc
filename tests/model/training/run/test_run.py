"""A run: its record and its clock; its network and its recipe without a preset, sized to
the pictures and to its length; and the first weights of one that continues from a model,
which compute what that model does."""

import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scanline.model.datasets.source import ImageSet
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.model_dir import RUN, check_out
from scanline.model.network.transformer import Transformer
from scanline.model.training import TrainingConfig
from scanline.model.training.optimise.optimiser import learning_rate
from scanline.model.training.run import sizing
from scanline.model.training.run.clock import LONGEST_WARM_UP, ROW_SECONDS, ROW_UPDATES, RunClock
from scanline.model.training.run.first_weights import first_weights
from scanline.model.training.run.record import check_same_images, describe, load_run
from scanline.model.training.run.sizing import count_weights, network, recipe
from scanline.model.training.run.state import ResumeError
from tests.support import small_models
from tests.support.close import assert_close

IMAGES = ImageSet(
    np.zeros((5, 6), np.uint8), np.ones((2, 6), np.uint8), 2, 3, 1, None, "abc", duplicates=4
)


def run(size=(3, 2)):
    return describe(IMAGES, Path("pictures"), size, True, None, "mnist-small", 5)


def with_size(size):
    return json.dumps(asdict(run()) | {"size": size})


@pytest.mark.parametrize("size", [(3, 2), None])
def test_it_is_read_back_as_it_was_written(tmp_path, size):
    saved = run(size)
    assert load_run(tmp_path) is None
    saved.save(tmp_path)
    assert load_run(tmp_path) == saved
    assert (saved.data, saved.train, saved.test, saved.duplicates) == (
        str(Path("pictures").absolute()),
        5,
        2,
        4,
    )


DAMAGE = ["", "[]", '{"data": "pictures"}', '{"size": [1, 2], "more": 3}', "[" * 10**5]


@pytest.mark.parametrize("damage", [*DAMAGE, *map(with_size, ([3], ["a", "b"], 5))])
def test_another_file_is_refused_in_one_sentence(tmp_path, damage):
    (tmp_path / RUN).write_text(damage)
    with pytest.raises(ResumeError) as error:
        load_run(tmp_path)
    assert str(error.value) == f"{tmp_path / RUN} is not the record of a run"


def test_other_images_are_refused_with_their_numbers():
    check_same_images(run(), IMAGES)
    with pytest.raises(ResumeError, match="have changed since the run began: 7 then, 6 now;"):
        check_same_images(run(), replace(IMAGES, digest="other", train=IMAGES.train[1:]))


def test_files_of_somebody_else_are_not_replaced(tmp_path):
    check_out(tmp_path / "new")
    (tmp_path / "README.md").write_text("# My thesis\n")
    with pytest.raises(ValueError, match=r"has a README\.md and is no model's directory"):
        check_out(tmp_path)
    run().save(tmp_path)
    check_out(tmp_path)


TIMED = TrainingConfig(updates=10**9, minutes=10, learning_rate=1.0, warm_up=100)


@pytest.mark.parametrize("seconds", [60, 300, 599])
def test_the_rate_falls_linearly_with_the_seconds_of_all_parts(seconds):
    assert RunClock(TIMED, seconds).rate(update=5000) == pytest.approx(1 - seconds / 600, abs=1e-3)


def test_a_plateau_is_kept_until_the_decay_begins_by_the_clock_or_by_updates():
    timed = replace(TIMED, decay=0.4)
    clocks = [RunClock(timed, seconds) for seconds in (100, 355, 480)]
    assert [clock.rate(5000) for clock in clocks] == [1, 1, pytest.approx(0.5, abs=1e-3)]
    assert [clock.cooling(5000) for clock in clocks] == [False, False, True]
    by_updates = RunClock(TrainingConfig(updates=10, warm_up=0, decay=0.4))
    assert [done for done in range(11) if by_updates.cooling(done)] == [6, 7, 8, 9, 10]
    assert not RunClock(TIMED, 599).cooling(5000)
    assert RunClock(replace(TIMED, schedule="constant"), 599).rate(5000) == 1


def test_warm_up_ends_with_its_updates_or_with_its_share_of_the_time():
    assert RunClock(TIMED, 0).rate(update=49) == pytest.approx(0.5, abs=1e-3)
    assert RunClock(TIMED, 600 * LONGEST_WARM_UP / 2).rate(update=0) == pytest.approx(
        0.5 * 0.975, abs=1e-3
    )


def test_the_first_update_which_compiles_is_no_part_of_the_warm_up():
    clock = RunClock(TIMED)
    clock.rate(update=0)
    clock.started -= 100
    assert clock.rate(update=1) == pytest.approx(0.02 * (1 - 100 / 600), abs=1e-3)
    clock.started -= 15
    assert clock.rate(update=2) == pytest.approx(0.5 * (1 - 115 / 600), abs=1e-3)


def test_it_ends_with_the_minutes_or_the_updates():
    assert not RunClock(TIMED, 599).ended(1)
    assert RunClock(TIMED, 600).ended(1)
    assert RunClock(TIMED, 600.5).rate(1) == 0
    assert RunClock(TIMED, 5).ended(10**9)
    by_updates = RunClock(TrainingConfig(updates=7, checkpoint_every=3), 10**6)
    assert [done for done in range(1, 7) if by_updates.checkpoint_due(done)] == [3, 6]
    assert (by_updates.ended(6), by_updates.ended(7)) == (False, True)
    assert by_updates.rate(3) == learning_rate(TrainingConfig(updates=7), 3)


def test_a_long_run_is_saved_every_two_minutes_and_tested_ten_times_or_in_a_fifth_of_its_time():
    clock = RunClock(replace(TIMED, minutes=60), 100)
    assert not clock.checkpoint_due(1)
    clock.started -= 121
    assert clock.checkpoint_due(2)
    assert not clock.test_due()
    clock.checkpoint_written(clock.seconds, tested=False)
    clock.started -= 240
    assert clock.test_due()
    clock.started -= 100  # the test and the sheet take so long
    clock.checkpoint_written(clock.seconds - 100, tested=True)
    clock.started -= 499
    assert clock.checkpoint_due(3)
    assert not clock.test_due()
    clock.started -= 2
    assert clock.test_due()
    assert RunClock(TIMED, 100).between == 60  # a short run's checkpoints are all tests


def test_rows_of_a_run_of_minutes_are_at_most_ten_seconds_apart():
    clock = RunClock(TIMED, 100)
    assert not clock.row_due(1)
    assert clock.row_due(ROW_UPDATES)
    clock.started -= ROW_SECONDS + 1
    assert clock.row_due(ROW_UPDATES + 1)
    assert not clock.row_due(ROW_UPDATES + 2)  # the next interval has begun


def images(count, height, width, channels, background=0):
    """`count` training images with a bright middle."""
    made = np.full((count, height, width, channels), background, np.uint8)
    made[:, 1:-1, 1:-1] = 99
    made = made.reshape(count, -1)
    return ImageSet(made, made[:2], height, width, channels, None, "")


def of_updates(data, updates):
    return network(data, recipe(data, updates, None))


def test_more_updates_make_a_wider_network_and_few_images_a_narrower_one():
    many = images(5000, 28, 28, 1)
    few = images(300, 28, 28, 1)
    widths = [of_updates(many, updates).model_width for updates in (1, 1000, 5000)]
    assert widths[0] == 32
    assert widths == sorted(set(widths))
    assert recipe(few, 5, None, continued=True).learning_rate < recipe(few, 5, None).learning_rate
    assert of_updates(few, 5000).model_width < widths[-1]
    assert count_weights(of_updates(few, 5000)) <= 300 * 784 / sizing.BYTES_PER_WEIGHT


def test_a_run_of_minutes_is_measured(monkeypatch):
    """By a clock that moves by 0.1 s with each update."""
    clock = itertools.count(step=0.1)
    monkeypatch.setattr(sizing, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(sizing, "MEASURED_SECONDS", 0.2)
    monkeypatch.setattr(sizing, "MEASURED_WIDTH", 32)
    data = images(20_000, 16, 16, 1)
    short, long = (network(data, recipe(data, None, minutes)) for minutes in (0.01, 60.0))
    assert short.model_width == 32 < 64 < long.model_width


@pytest.mark.parametrize("shape", [(28, 28, 1), (3, 2, 1), (1, 1, 3), (64, 48, 3)])
def test_every_size_has_a_network_and_a_recipe(shape):
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


def test_layers_and_width_can_be_chosen():
    data = images(5000, 28, 28, 1)
    training = recipe(data, 5000, None)
    both = network(data, training, layers=8, width=320)
    assert (both.layers, both.model_width, both.heads, both.feed_forward, both.block_width) == (
        8,
        320,
        10,
        1280,
        640,
    )
    deeper = network(data, training, layers=6)
    assert deeper.model_width < network(data, training).model_width
    assert deeper.layers == 6


def test_outside_a_drawing_is_its_background():
    assert of_updates(images(10, 8, 8, 1, background=255), 5).outside == 255
    assert of_updates(images(10, 8, 8, 1, background=0), 5).outside == 0
    assert of_updates(images(10, 8, 8, 3, background=255), 5).outside == 128


def test_what_is_predicted_and_mixed_can_be_chosen():
    data = images(10, 8, 8, 1)
    training = recipe(data, 5, None)
    for predicts in ("pixel_logistics", "logistics"):
        assert network(data, training, predicts).predicts == predicts
    assert network(data, training, neighbours=True).causal_conv
    assert not network(data, training, "pixel_logistics", neighbours=False).causal_conv
    with pytest.raises(
        ValueError, match="a step of 3 bytes predicts pixel_logistics, not categorical"
    ):
        network(images(10, 8, 8, 3), training, "categorical")
    with pytest.raises(
        ValueError, match="predicts must be one of logistics, categorical, pixel_logistics, not 'x'"
    ):
        network(data, training, "x")


ANIMALS = (("cat",), ("dog", "hound"))
MORE = (("dog",), ("owl",), ("cat",))


def parameters(model, label):
    images = torch.from_numpy(small_models.images(model.config, 2))
    return model.parallel(images, labels=torch.full((2,), label))


def continued(directory, variant, before, after, biases=True):
    """A model with the classes `before`, and one that continues from its saved
    weights with the classes `after`.
    """
    model = small_models.model(
        small_models.config_of(variant, classes=before, class_biases=biases and bool(before))
    )
    save_model(model, directory, torch.float32)
    config, weights = first_weights(directory, after)
    assert config.classes == after
    new = Transformer(config)
    new.load_state_dict(weights)
    return model, new


@pytest.mark.parametrize("variant", ["authors", "strokes"])
def test_a_model_without_classes_paints_the_same_with_each_of_them(tmp_path, variant):
    old, new = continued(tmp_path, variant, (), ANIMALS)
    assert new.classes.shape == (3, new.config.model_width)
    assert new.config.class_biases == (variant == "strokes")  # the paper's networks stay plain
    for label in range(3):
        assert torch.equal(parameters(old, 0), parameters(new, label))


@pytest.mark.parametrize("biases", [False, True])
def test_classes_keep_their_vectors_by_name_and_new_ones_begin_without_a_class(tmp_path, biases):
    old, new = continued(tmp_path, "strokes", ANIMALS, MORE, biases)
    assert new.config.class_biases
    for label, before in ((0, 0), (1, 2), (2, 0), (3, 1)):
        assert torch.equal(parameters(old, before), parameters(new, label))
    assert not torch.equal(parameters(old, 1), parameters(old, 2))
    old, new = continued(tmp_path, "plain", ANIMALS, ANIMALS)
    assert all(map(torch.equal, old.state_dict().values(), new.state_dict().values()))


@pytest.mark.parametrize("variant", ["plain", "concat", "strokes"])
def test_without_its_classes_a_model_paints_as_it_did_without_one(tmp_path, variant):
    old, new = continued(tmp_path, variant, ANIMALS, ())
    assert "classes" not in new.state_dict()
    assert_close(variant, parameters(old, 0), parameters(new, 0))


def test_a_model_that_cannot_do_without_its_classes_says_so(tmp_path):
    with pytest.raises(
        ValueError, match="cannot be trained without its classes: its positions have no weights"
    ):
        continued(tmp_path, "authors", ANIMALS, ())


@pytest.mark.parametrize("variant", ["plain", "strokes"])
def test_layers_are_added_on_top_and_paint_the_same_until_they_learn(tmp_path, variant):
    old = small_models.model_of(variant, classes=ANIMALS)
    save_model(old, tmp_path, torch.float32)
    config, weights = first_weights(tmp_path, MORE, old.config.layers + 2, seed=1)
    assert config.layers == old.config.layers + 2
    new = Transformer(config)
    new.load_state_dict(weights)
    assert torch.equal(parameters(old, 1), parameters(new, 3))
    parameters(new, 0).square().sum().backward()
    for layer in new.layers[-2:]:
        assert layer.attention_out.weight.grad.norm() > 0
        assert layer.feed_forward_out.weight.grad.norm() > 0


def test_added_layers_are_drawn_from_the_seed_alone(tmp_path):
    old = small_models.model(small_models.config())
    save_model(old, tmp_path, torch.float32)
    drawn = [first_weights(tmp_path, (), old.config.layers + 1, seed)[1] for seed in (1, 1, 2)]
    name = f"layers.{old.config.layers}.query_key_value.weight"
    assert torch.equal(drawn[0][name], drawn[1][name])
    assert not torch.equal(drawn[0][name], drawn[2][name])
    own = old.state_dict()
    assert all(torch.equal(drawn[0][name], own[name]) for name in own)


def test_layers_that_cannot_be_had_are_refused_in_a_sentence(tmp_path):
    old = small_models.model(small_models.config())
    save_model(old, tmp_path / "pre", torch.float32)
    with pytest.raises(
        ValueError, match=f"has {old.config.layers} layers, and --layers can only add to them"
    ):
        first_weights(tmp_path / "pre", (), old.config.layers)
    with pytest.raises(ValueError, match="layers must be"):
        first_weights(tmp_path / "pre", (), 10**6)
    save_model(
        small_models.model_of("authors"),
        tmp_path / "post",
    )
    with pytest.raises(ValueError, match="a new layer would change what it paints"):
        first_weights(tmp_path / "post", (), 9)
