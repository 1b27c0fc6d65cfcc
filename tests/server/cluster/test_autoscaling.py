"""The number of replicas for a number of images in flight."""

from types import SimpleNamespace
from typing import Any

import pytest

from scanline.server.cluster.autoscaling import target_replicas


def replicas_for(images: list[float], per_replica: float) -> int:
    reports = {"images": dict(enumerate(images)), "target_images": dict.fromkeys(range(len(images)), per_replica)}
    context: Any = SimpleNamespace(aggregated_metrics=reports, target_num_replicas=1)
    return target_replicas(context)[0]


@pytest.mark.parametrize(("images", "replicas"), [(0, 0), (1, 1), (192, 1), (193, 2), (1920, 10)])
def test_there_are_as_many_as_hold_the_images(images: int, replicas: int) -> None:
    assert replicas_for([images], 192) == replicas


def test_the_largest_report_counts_and_without_reports_the_number_stays() -> None:
    assert replicas_for([100, 400, 300], 200) == 2
    context: Any = SimpleNamespace(aggregated_metrics={}, target_num_replicas=3)
    assert target_replicas(context)[0] == 3
