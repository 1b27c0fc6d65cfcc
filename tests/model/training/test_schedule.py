"""The learning rate over a run."""

import pytest

from scanline.model.training import TrainingConfig
from scanline.model.training.schedule import learning_rate


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
