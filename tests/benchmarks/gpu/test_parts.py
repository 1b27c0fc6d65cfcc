"""Parts of a GPU run: their findings are kept, their ends recorded, and the next one runs; what is found."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.gpu import worker
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.correctness import Snapshot, compare
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.results import Finding, ResultsFile
from benchmarks.gpu.setup import DRY, Sizes
from benchmarks.gpu.tests_here import files_of_tests

HEADER = {"schema": 1, "commit": "abc", "torch": "2", "triton": "3", "gpu": {"name": "none"}, "dry": True}


def works(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("works", os.getpid(), "process")


def raises(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("raises/before", 1.0)
    raise RuntimeError("CUDA error: an illegal memory access\nmore lines")


def dies(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("dies/before", 1.0)
    os._exit(7)


def hangs(sizes: Sizes) -> Iterator[Finding]:
    yield Finding("hangs/before", 1.0)
    time.sleep(600)


def never(sizes: Sizes) -> Iterator[Finding]:
    raise AssertionError("this part has no time")
    yield


def part(run: Callable[[Sizes], Iterator[Finding]], seconds: int = 1) -> Part:
    return Part(run.__name__, run, seconds, "a test")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def recorded(path: Path) -> dict[str, Any]:
    parts: dict[str, Any] = json.loads(path.read_text())["parts"]
    return parts


def test_whatever_a_part_does_it_is_recorded_and_the_next_one_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "METHOD", "fork")  # no part uses a device, and a spawned process imports torch
    monkeypatch.setattr(worker, "ENDING", 0.1)  # a fork has this process's end of its pipe, and does not see it closed
    parts = [
        part(works), part(raises), replace(part(works), name="after"), part(dies),
        part(never, seconds=10_000), replace(part(works), name="last"), part(hangs),
    ]  # fmt: skip
    shown: list[str] = []
    results = ResultsFile(path, HEADER, False)
    worker.run_parts(parts, DRY, results, time.monotonic() + 9_000, 13, shown.append)
    record = recorded(path)
    assert {name: part["status"] for name, part in record.items()} == {
        "works": "done", "raises": "failed", "after": "done", "dies": "failed",
        "never": "skipped", "last": "done", "hangs": "failed",
    }  # fmt: skip
    assert "RuntimeError: CUDA error: an illegal memory access more lines (" in record["raises"]["reason"]
    assert record["dies"]["reason"] == "its process ended with exit status 7"
    assert record["never"]["reason"].startswith("needs about 10000 s, and ")
    assert record["hangs"]["reason"] == "did not end within 13 s"
    assert record["works"]["reason"] is None
    for name in ("raises", "dies", "hangs"):
        assert [finding["name"] for finding in record[name]["findings"]] == [f"{name}/before"]
    assert any("illegal memory access" in line for line in shown)
    processes = [record[name]["findings"][0]["value"] for name in ("works", "after", "last")]
    assert len(set(processes)) == 3  # a new one after each failure
    assert (results.status("never"), results.status("of another run")) == ("skipped", "skipped")


def test_a_resumed_run_keeps_what_is_done_and_forgets_what_a_part_found_before_it_failed(path: Path) -> None:
    first = ResultsFile(path, HEADER, False)
    assert first.status("one") == "skipped"
    for name, failure in (("one", None), ("two", "it failed")):
        first.begin(name)
        first.add(name, Finding(f"{name}/x", 1.5, "us"))
        first.end(name, 2.0, failure)
    second = ResultsFile(path, HEADER, True)
    assert (second.status("one"), second.status("two")) == ("done", "failed")
    assert [part["findings"][0]["name"] for part in recorded(path).values()] == ["one/x", "two/x"]
    second.begin("two")
    assert recorded(path)["two"]["findings"] == []
    assert recorded(path)["two"]["reason"] == "the run ended before this part did"


@pytest.mark.parametrize(("key", "value"), [("commit", "other"), ("dry", False), ("gpu", {"name": "H100"})])
def test_results_of_another_machine_or_commit_are_not_mixed(path: Path, key: str, value: object) -> None:
    ResultsFile(path, HEADER, False)
    with pytest.raises(ValueError, match=f"has {key} "):
        ResultsFile(path, {**HEADER, key: value}, True)


def test_the_tests_that_run_on_a_gpu_are_found_by_what_they_import() -> None:
    files = files_of_tests()
    for kernel in ("attention", "step", "triton"):
        assert any(file.startswith(f"tests/kernels/{kernel}/test_") for file in files)
    assert "tests/model/backends/cuda/test_painting.py" in files
    assert not any(file.startswith("tests/benchmarks") for file in files)


def snapshot(images: int) -> Snapshot:
    torch.manual_seed(0)
    return Snapshot(
        images=torch.randint(0, 256, (5, 7), dtype=torch.uint8)[:images],
        bits=torch.rand(5, dtype=torch.float64)[:images],
        s=torch.rand(2, 5, 3, 4, 4)[:, :images],
        z=torch.rand(2, 5, 3, 4)[:, :images],
    )


@pytest.mark.parametrize("name", ["bits", "s", "z"])
def test_a_difference_in_the_last_bit_of_one_number_is_seen(name: str) -> None:
    mine = snapshot(4)
    assert mine.differences(snapshot(5)) == {"images": 0, "bits": 0, "s": 0, "z": 0}
    changed = getattr(mine, name).clone()
    number = changed[2] if name == "bits" else changed[1, 2].flatten()[3]
    number.copy_(torch.nextafter(number, torch.tensor(9.0, dtype=number.dtype)))
    assert mine.differences(replace(mine, **{name: changed})) == {"images": 0, "bits": 0, "s": 0, "z": 0, name: 1}


def test_later_snapshots_are_compared_with_the_largest_before() -> None:
    expected: dict[int, Snapshot] = {}
    assert list(compare("one", {1: snapshot(1)}, expected)) == []
    (finding,) = compare("three", {1: snapshot(3)}, expected)
    assert (finding.name, finding.value) == ("three/after_1_steps/differing", 0)
    assert "of 1 images compared" in finding.note
    assert len(expected[1].images) == 3


@pytest.fixture
def dry_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments with which the code of every part runs without a GPU, with tiny sizes."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # main sets it, also where there is a GPU
    return ["--dry-run", "--out", str(path), "--minutes", "60"]


def test_results_are_kept(path: Path, dry_run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("{}")
    assert main(dry_run) == 2
    assert "give --resume" in capsys.readouterr().err
    assert path.read_text() == "{}"


@pytest.mark.slow
def test_every_part_runs(path: Path, dry_run: list[str]) -> None:
    assert main(dry_run) == 0
    assert json.loads(path.read_text())["gpu"]["name"] == "none: Triton's interpreter"
    parts = recorded(path)
    assert {name: part["status"] for name, part in parts.items()} == {part.name: "done" for part in PARTS}
    assert [name for name, part in parts.items() if not part["findings"]] == []
    findings = [finding for part in parts.values() for finding in part["findings"]]
    assert {finding["value"] for finding in findings if finding["name"].endswith("/differing")} == {0}
    assert main([*dry_run, "--resume"]) == 0
    assert recorded(path) == parts
