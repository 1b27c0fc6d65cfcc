"""Parts of a GPU run: whatever one does, its findings are kept, its end is recorded, and the next one runs."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.gpu import worker
from benchmarks.gpu.parts import Part
from benchmarks.gpu.results import Finding, ResultsFile
from benchmarks.gpu.setup import DRY, Sizes

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


def test_whatever_a_part_does_its_findings_and_its_end_are_recorded_and_the_next_one_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "METHOD", "fork")  # no part uses a device, and a spawned process imports torch
    parts = [
        part(works), part(raises), replace(part(works), name="after"), part(dies),
        part(never, seconds=10_000), replace(part(works), name="last"), part(hangs),
    ]  # fmt: skip
    shown: list[str] = []
    results = ResultsFile(path, HEADER, False)
    worker.run_parts(parts, DRY, results, time.monotonic() + 9_000, 3, shown.append)
    record = recorded(path)
    assert {name: part["status"] for name, part in record.items()} == {
        "works": "done", "raises": "failed", "after": "done", "dies": "failed",
        "never": "skipped", "last": "done", "hangs": "failed",
    }  # fmt: skip
    assert "RuntimeError: CUDA error: an illegal memory access more lines (" in record["raises"]["reason"]
    assert record["dies"]["reason"] == "its process ended with exit status 7"
    assert record["never"]["reason"].startswith("needs about 10000 s, and ")
    assert record["hangs"]["reason"] == "did not end within 3 s"
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


def test_what_is_no_number_is_a_finding_without_one(path: Path) -> None:
    results = ResultsFile(path, HEADER, False)
    results.begin("one")
    results.add("one", Finding("one/bits", float("nan"), "bits/dim", "of 3 images"))
    (finding,) = recorded(path)["one"]["findings"]
    assert (finding["value"], finding["note"]) == (None, "nan of 3 images")


@pytest.mark.parametrize(("key", "value"), [("commit", "other"), ("dry", False), ("gpu", {"name": "H100"})])
def test_results_of_another_machine_or_commit_are_not_mixed(path: Path, key: str, value: object) -> None:
    ResultsFile(path, HEADER, False)
    with pytest.raises(ValueError, match=f"has {key} "):
        ResultsFile(path, {**HEADER, key: value}, True)
