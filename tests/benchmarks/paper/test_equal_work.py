"""Trainings by equal work see the same batches, learn, and are repeatable; without MNIST there are none."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import equal_work
from benchmarks.paper.attentions import unavailable
from benchmarks.paper.results import Results

OTHERS = (pytest.param(name, marks=pytest.mark.slow) for name in equal_work.ATTENTIONS if name != "linear")


@pytest.mark.parametrize("name", ["linear", *OTHERS])
def test_a_training_learns_and_is_repeatable(name: str, images: np.ndarray) -> None:
    if reason := unavailable(name):
        pytest.skip(reason)
    first, again = (equal_work.trained(name, 1, images, images[:2], 12, quick=True) for _ in range(2))
    assert first["updates"] == [0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12]
    assert first["train_seconds"] == sorted(first["train_seconds"])
    assert first["bits_per_dim"] == again["bits_per_dim"]
    assert first["bits_per_dim"][-1] < first["bits_per_dim"][0]


def test_the_section_has_the_mean_of_the_seeds(tmp_path: Path) -> None:
    results = Results(tmp_path, "tables")
    results.measure(equal_work.PLAN, lambda: {"updates": 10, "update_seconds": {}})
    for seed, bits in ((0, 1.0), (1, 1.2), (2, 1.4)):
        point = {"updates": [0, 10], "train_seconds": [0.0, 5.0], "bits_per_dim": [4.0, bits]}
        results.measure(f"equal work/linear/{seed}", lambda point=point: point)
    text = equal_work.section(results)
    assert "| linear | 3 | 1.200 +- 0.200 | 5 | 0.644 |" in text.splitlines()
    assert (results.plots / "bits-time.png").exists()


def test_without_mnist_nothing_is_trained(tmp_path: Path) -> None:
    results = Results(tmp_path, "tables", quick=True, data=tmp_path)
    equal_work.run(results, quick=True)
    assert not results.points
    assert "MNIST" in equal_work.section(results)
