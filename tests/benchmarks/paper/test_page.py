"""The page says what was found and what is missing, from the files alone; the command refuses what makes no sense."""

from pathlib import Path

import pytest

from benchmarks.paper import __main__ as command
from benchmarks.paper import copy_task, page, scaling, tables
from benchmarks.paper.results import Results

PARTS = {"tables": tables, "scaling": scaling, "copy": copy_task}


def painted(image_seconds: float) -> dict[str, object]:
    point = {"images_per_second": 1 / image_seconds, "image_seconds": image_seconds, "state_bytes": 270_336}
    return {**point, "extrapolated": True}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A run of the tables alone, with four points."""
    measured = Results(tmp_path / "runs", "tables")
    for method, seconds in {"softmax": 60.0, "linear, authors": 2.0, "linear": 0.5, "lsh-1": 40.0}.items():
        measured.measure(f"mnist/{method}/1", lambda seconds=seconds: painted(seconds))
    return tmp_path / "runs"


def test_the_page_has_every_part_and_ratios_beside_the_papers(results: Path, tmp_path: Path) -> None:
    text = page.write(PARTS, results, tmp_path / "docs").read_text()
    first, lines = text.split("\n## ")[0], text.splitlines()
    assert "120 times the images/s of softmax, the authors' library 30 times; in the paper 317 times." in first
    assert "on a GPU" in first
    assert all(f"`python -m benchmarks.paper {name}`" in text for name in PARTS)
    assert text.count("Not run.") == 2
    machine = Results.load(results, "tables").runs[0]
    assert machine["date"][:10] in text
    assert machine["machine"]["cpu"] in text
    assert "| softmax | ~0.0167 | 1 | 30 | 120 | 317 | ~60 | 30 | 120 | 13.2 | 270,336 |" in lines
    assert "| lsh-4 |  |  |  |  |  |  |  |  |  |  |" in lines
    assert any(line.startswith("lsh-4, batch 1: not measured") for line in lines)


def test_a_quick_run_is_no_measurement(tmp_path: Path) -> None:
    measured = Results(tmp_path, "tables", quick=True)
    for method in ("softmax", "linear"):
        measured.measure(f"mnist/{method}/1", lambda: painted(1.0))
    text = page.write(PARTS, tmp_path, tmp_path).read_text()
    assert "**tables: quick runs with shapes cut down, not measurements.**" in text
    assert "images/s of softmax" not in text


def test_minutes_zero_writes_the_page_alone(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    before = (results / "tables.json").read_text()
    monkeypatch.setattr("sys.argv", ["paper", "tables", "--minutes", "0", "--resume", "--out", str(results)])
    command.main()
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "docs" / "paper.md")
    assert (results / "tables.json").read_text() == before
    assert "| softmax | ~0.0167 |" in (tmp_path / "docs" / "paper.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figures"], "unknown part 'figures'"),
        (["tables", "--minutes", "-1"], "--minutes must not be negative"),
        (["tables"], "--resume goes on with them"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str],
    message: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["paper", *arguments, "--out", str(results)])
    with pytest.raises(SystemExit):
        command.main()
    assert message in capsys.readouterr().err
