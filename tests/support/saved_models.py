"""Comparisons of saved models: the files of a directory, and weights bit for bit."""

from pathlib import Path

import torch


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def assert_same_weights(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> None:
    assert list(expected) == list(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
