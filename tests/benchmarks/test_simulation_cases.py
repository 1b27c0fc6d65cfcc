"""The simulation's constants are the server's and the measured ones; its command prints its tables."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.simulation import cases, cluster
from benchmarks.simulation.autoscaler import Scaling
from scanline.model.training.presets import PRESETS
from scanline.server.cluster import replica_pool
from scanline.server.cluster.settings import ClusterSettings

ROOT = Path(__file__).parent.parent.parent


def test_shards_are_handed_out_as_the_server_does() -> None:
    for name in ("OVERCOMMIT", "SHARDS_PER_REPLICA", "MIN_SHARD", "MAX_SHARD"):
        assert getattr(cluster, name) == getattr(replica_pool, name)


def test_replicas_are_scaled_as_the_server_does() -> None:
    settings = ClusterSettings()
    scaling = Scaling(cases.TARGET, most=1)
    assert settings.target_share * cases.CPU.slots == cases.TARGET
    assert scaling.up_delay == settings.upscale_seconds


def test_images_are_those_of_the_papers_mnist_model() -> None:
    config = PRESETS["mnist"].model
    assert (config.steps, config.state_bytes_per_image) == (cases.STEPS, cases.STATE_BYTES)


def test_a_straight_line_fits_the_measured_steps() -> None:
    for images, ms in cases.CPU_STEPS.items():
        assert 1e3 * cases.SERVED * cases.CPU.step_seconds(images) == pytest.approx(ms, rel=0.04)


def test_the_traffic_has_the_given_rates_and_sizes() -> None:
    times, sizes = cases.traffic([(1000.0, 5.0), (2000.0, 50.0)], seed=1)
    assert (times[1:] >= times[:-1]).all()
    assert (times < 1000).sum() == pytest.approx(5_000, rel=0.05)
    assert len(times) == pytest.approx(55_000, rel=0.05)
    assert sizes.mean() == pytest.approx(cases.MEAN_SIZE, rel=0.1)


def test_ten_replicas_scale_as_the_documentation_says() -> None:
    row = cases.surge(10, seed=1)
    assert row["first new after s"] == 45.0
    assert cases.surge(10, seed=1) == row


def test_the_command_prints_a_table() -> None:
    command = [sys.executable, "-m", "benchmarks.simulation", "--only", "routing", "--replicas", "1"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "routing: Routers of CPU replicas at 70 % of capacity." in printed
    assert "random" in printed
