"""Comparisons of saved models: the files of a directory, and weights bit for bit."""

import torch


def files(directory):
    return sorted(path.name for path in directory.iterdir())


def assert_same_weights(expected, found):
    assert list(expected) == list(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
