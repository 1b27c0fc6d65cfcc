"""The page says what was found and what is missing, from the files alone; the command refuses what makes no sense."""

from pathlib import Path

import pytest

from benchmarks.paper import __main__ as command
from benchmarks.paper import blog, page, painting, scaling, tables
from benchmarks.paper.results import Results

PARTS = {"tables": tables, "scaling": scaling, "blog": blog}


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


def test_the_first_paragraph_sets_ratios_beside_the_papers(results: Path, tmp_path: Path) -> None:
    text = page.write(PARTS, results, tmp_path / "docs").read_text()
    first = text.split("\n## ")[0]
    assert "120 times the images/s of softmax, the authors' library 30 times; in the paper 317 times." in first
    assert "on a GPU" in first


def test_every_part_has_its_command_and_says_if_it_was_not_run(results: Path, tmp_path: Path) -> None:
    text = page.write(PARTS, results, tmp_path / "docs").read_text()
    for name in PARTS:
        assert f"`python -m benchmarks.paper {name}`" in text
    assert text.count("Not run.") == 2
    machine = Results.load(results, "tables").runs[0]
    assert machine["date"][:10] in text
    assert machine["machine"]["cpu"] in text


def test_a_row_has_the_ratios_to_both_linear_attentions_and_the_papers(results: Path, tmp_path: Path) -> None:
    lines = page.write(PARTS, results, tmp_path / "docs").read_text().splitlines()
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
        (["tables", "--quick", "--resume"], "a quick run cannot resume a full run"),
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


def test_the_papers_ratios_are_those_of_its_tables() -> None:
    """The models whose numbers the paper gives are those that are measured."""
    for size in painting.SIZES:
        assert set(tables.PAPER[size.name]) == set(painting.METHODS) - {"linear", "linear, int8"}
