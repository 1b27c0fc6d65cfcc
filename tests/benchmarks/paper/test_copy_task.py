"""The copy task: sequences are what the paper says, and linear attention learns to copy."""

from pathlib import Path

import pytest
import torch

from benchmarks.paper import copy_task
from benchmarks.paper.attentions import attention
from benchmarks.paper.copy_task import SEPARATOR, SYMBOLS, Task
from benchmarks.paper.encoder import Sizes
from benchmarks.paper.results import Results

TINY = Task(Sizes(1, 2, 8, 16), longest=16, batch=4, updates=4, drop=2, points=2)


def test_a_sequence_is_symbols_a_separator_and_the_symbols_again() -> None:
    x, following, mask = copy_task.draw(TINY, 50, torch.Generator().manual_seed(0))
    lengths = set()
    for row, after, copied in zip(x.tolist(), following.tolist(), mask.tolist(), strict=True):
        n = row.index(SEPARATOR)
        assert row[:n] == row[n + 1 : 2 * n + 1]
        assert all(1 <= symbol <= SYMBOLS for symbol in row[:n])
        assert set(row[2 * n + 1 :]) <= {SEPARATOR}
        assert after == [*row[1:], SEPARATOR]
        assert [i for i, m in enumerate(copied) if m] == list(range(n, 2 * n))
        lengths.add(n)
    assert lengths == set(range(4, 7))  # N / 4 to (N - 1) / 2, the last excluded


@pytest.mark.parametrize("name", ["softmax", "linear"])  # LSH's chunks depend on all positions
def test_no_attention_reads_a_later_symbol(name: str) -> None:
    network = copy_task.CopyNetwork(TINY, attention(name))
    x = torch.randint(1, SYMBOLS + 1, (2, 16))
    changed = torch.cat((x[:, :12], torch.randint(1, SYMBOLS + 1, (2, 4))), dim=1)
    torch.testing.assert_close(network(x)[:, :12], network(changed)[:, :12])
    assert not torch.equal(network(x)[:, 12:], network(changed)[:, 12:])


@pytest.mark.slow
def test_linear_attention_learns_to_copy() -> None:
    task = Task(Sizes(2, 4, 16, 128), longest=16, batch=32, updates=1500, drop=1300, rate=3e-3, points=10)
    point = copy_task.train(task, attention("linear"), seed=0)
    assert point["accuracy"][-1] > copy_task.COPIED
    assert point["copies_from"] <= task.updates
    assert point["loss"][-1] < 0.1 < point["loss"][0]


def test_section_says_what_was_scaled_down_and_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path, "copy", quick=True)
    assert copy_task.section(results) == "Not run.\n"
    monkeypatch.setattr(copy_task, "QUICK", TINY)
    monkeypatch.setattr(copy_task, "ATTENTIONS", ("softmax", "linear"))
    copy_task.run(results, quick=True)
    text = copy_task.section(results)
    assert "positions 16 instead of 128" in text
    assert "layers 1 instead of 4" in text
    assert "| linear | 3 of 3 |" in text
    assert len(results.points) == 2 * len(copy_task.SEEDS)
    again = copy_task.train(TINY, attention("linear"), seed=0)
    assert (again["updates"], again["loss"]) == ([2, 4], results.points["linear/0"]["loss"])
    assert copy_task.summary(results) == ""
    results.quick = False
    assert "softmax with 0 of 3 seeds, linear with 0 of 3 seeds" in copy_task.summary(results)
    assert (results.plots / "copy.png").stat().st_size > 1000
