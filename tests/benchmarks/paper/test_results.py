"""Points survive the process that measured them, are measured once, and are never mixed with those of a quick run."""

import json
from pathlib import Path

import pytest

from benchmarks.paper.markdown import number, plot, table
from benchmarks.paper.results import Point, Results


def test_a_killed_run_resumes_where_it_was(tmp_path: Path) -> None:
    def killed() -> Point:
        raise KeyboardInterrupt

    results = Results(tmp_path, "scaling")
    results.measure("a", lambda: {"value": 1})
    with pytest.raises(KeyboardInterrupt):
        results.measure("b", killed)

    resumed = Results(tmp_path, "scaling", resume=True)
    again = resumed.measure("a", killed)
    assert again is not None
    assert again["value"] == 1
    assert resumed.get("b") is None
    resumed.measure("b", lambda: {"value": 2})
    held = json.loads((tmp_path / "scaling.json").read_text())
    assert {key: (point["value"], point["run"]) for key, point in held["points"].items()} == {"a": (1, 0), "b": (2, 1)}
    assert len(held["runs"]) == 2
    assert all(run["date"] and run["machine"]["cpu"] for run in held["runs"])


def test_a_quick_run_starts_anew_and_no_full_run_resumes_it(tmp_path: Path) -> None:
    Results(tmp_path, "scaling", quick=True).measure("a", lambda: {"value": 1})
    Results(tmp_path, "scaling", quick=True).measure("b", lambda: {"value": 2})
    assert list(Results.load(tmp_path, "scaling").points) == ["b"]
    with pytest.raises(ValueError, match="a full run cannot resume a quick run"):
        Results(tmp_path, "scaling", resume=True)
    assert Results.load(tmp_path, "scaling").quick


@pytest.mark.parametrize("quick", [False, True])
def test_results_of_a_full_run_are_not_lost(quick: bool, tmp_path: Path) -> None:
    Results(tmp_path, "scaling").measure("a", lambda: {"value": 1})
    with pytest.raises(ValueError, match="--resume"):
        Results(tmp_path, "scaling", quick=quick)


def test_nothing_is_measured_after_the_time_is_up(tmp_path: Path) -> None:
    results = Results(tmp_path, "scaling", seconds=0)
    assert results.measure("a", lambda: {"value": 1}) is None
    assert not results.path.exists()


def test_a_number_that_json_cannot_hold_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    results = Results(tmp_path, "scaling")
    results.measure("a", lambda: {"value": 1})
    with pytest.raises(ValueError, match="JSON"):
        results.measure("b", lambda: {"value": float("nan")})
    assert list(Results.load(tmp_path, "scaling").points) == ["a"]


def test_tables_and_plots(tmp_path: Path) -> None:
    assert table(["N", "ms"], [["512", "1.5"]]) == "| N | ms |\n| --- | ---: |\n| 512 | 1.5 |\n"
    assert [number(value) for value in (1234.5, 0.012345, 12.0, None)] == ["1,234", "0.0123", "12", ""]
    results = Results(tmp_path, "scaling")
    curves = {"linear": [[(1.0, 2.0), (2.0, 4.0)], [(1.0, 2.5)]], "softmax": [[(1.0, 1.0)]], "none": []}
    link = plot(results, "time", "Time", curves, "N", "ms")
    assert link.startswith("![Time](paper/time.png)\n")
    assert "python -m benchmarks.paper scaling" in link
    assert (tmp_path / "paper" / "time.png").read_bytes().startswith(b"\x89PNG")
