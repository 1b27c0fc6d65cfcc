"""How many replicas a number of images wants."""

from types import SimpleNamespace
from typing import Any

import pytest

from scanline.server.cluster.autoscaling import by_images


def wanted(images: list[float], room: float, target: int = 1) -> int:
    told = {"images": dict(enumerate(images)), "room": dict.fromkeys(range(len(images)), room)}
    context: Any = SimpleNamespace(aggregated_metrics=told, target_num_replicas=target)
    return by_images(context)[0]


@pytest.mark.parametrize(("images", "replicas"), [(0, 0), (1, 1), (192, 1), (193, 2), (1920, 10)])
def test_as_many_as_hold_the_images(images: int, replicas: int) -> None:
    assert wanted([images], 192) == replicas


def test_what_the_best_informed_replica_tells_counts() -> None:
    assert wanted([100, 400, 300], 200) == 2


def test_nothing_told_changes_nothing() -> None:
    context: Any = SimpleNamespace(aggregated_metrics={}, target_num_replicas=3)
    assert by_images(context)[0] == 3
