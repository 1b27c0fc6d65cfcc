"""The number of replicas for a number of images in flight."""

from types import SimpleNamespace
from typing import Any

import pytest

from scanline.server.cluster.application import _autoscaling
from scanline.server.cluster.arguments import cluster_settings
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


@pytest.mark.parametrize("upscale_seconds", [2, 30, 100])
def test_the_last_replica_outlives_the_reports_of_the_request_that_started_it(upscale_seconds: float) -> None:
    args = {"min_replicas": 0, "upscale_seconds": upscale_seconds, "downscale_seconds": 1}
    config = _autoscaling(cluster_settings(args))
    assert config.downscale_to_zero_delay_s
    assert config.downscale_to_zero_delay_s >= config.look_back_period_s + config.metrics_interval_s
