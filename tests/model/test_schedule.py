"""The learning rate over a run, and which weights decay."""

import pytest
import torch

from model.training import TrainingConfig
from model.training.schedule import learning_rate, optimiser
from tests.model import small


def rates(schedule: str, **changes: float) -> list[float]:
    config = TrainingConfig(100, learning_rate=1.0, schedule=schedule, **{"warm_up": 10, "decay": 0.3, **changes})
    return [learning_rate(config, update) for update in range(100)]


@pytest.mark.parametrize("schedule", ["cosine", "trapezoid", "constant"])
def test_warm_up_is_linear_up_to_the_full_rate(schedule: str) -> None:
    assert rates(schedule)[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])


def test_constant_stays() -> None:
    assert rates("constant")[10:] == [1.0] * 90


def test_trapezoid_stays_and_then_falls_to_zero() -> None:
    after = rates("trapezoid")[10:]
    assert after[:63] == [1.0] * 63
    assert after[63:] == pytest.approx([(100 - update) / 27 for update in range(73, 100)])


def test_cosine_falls_from_the_full_rate_through_half_to_zero() -> None:
    after = rates("cosine")[10:]
    assert after == sorted(after, reverse=True)
    assert after[0] == 1
    assert after[45] == pytest.approx(0.5)
    assert 0 < after[-1] < 0.001


def test_no_warm_up_begins_at_the_full_rate() -> None:
    assert rates("constant", warm_up=0)[0] == 1


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("radam", torch.optim.RAdam)])
def test_every_weight_is_trained_by_the_optimiser_that_was_asked_for(name: str, kind: type) -> None:
    model = small.model(small.config())
    found = optimiser(model, TrainingConfig(1, optimiser=name))
    assert type(found) is kind
    trained = [parameter for group in found.param_groups for parameter in group["params"]]
    assert {id(p) for p in trained} == {id(p) for p in model.parameters()}
    assert len(trained) == len(list(model.parameters()))


def test_what_decays_are_matrices_of_the_layers() -> None:
    model = small.model(small.config())
    groups = optimiser(model, TrainingConfig(1, weight_decay=0.1)).param_groups
    decayed = {id(parameter) for group in groups if group["weight_decay"] == 0.1 for parameter in group["params"]}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in decayed}
    matrices = {name for name, parameter in model.layers.named_parameters("layers") if parameter.dim() == 2}
    assert matrices <= names <= matrices | {"head.weight"}
