"""`python -m benchmarks.gpu --dry-run`: the code of every part runs without a GPU, with tiny sizes."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.gpu.__main__ import main
from benchmarks.gpu.parts import PARTS


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # main sets it, also where there is a GPU


def run(out: Path, *arguments: str) -> int:
    """The exit status; parts run in processes of their own, as always."""
    return main(["--dry-run", "--out", str(out), *arguments])


def content(out: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(out.read_text())
    return parsed


def test_nothing_is_begun_that_the_minutes_are_too_few_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.json"
    assert run(out, "--minutes", "0.01") == 0
    parts = content(out)["parts"]
    assert list(parts) == [part.name for part in PARTS]
    assert all(part["status"] == "skipped" and "needs about" in part["reason"] for part in parts.values())
    assert "skipped: compile, tests" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(("--parts", "everything"), "invalid choice"), (("--minutes", "nan"), "--minutes must be finite and greater")],
)
def test_wrong_arguments_are_refused_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path / "results.json", *arguments)
    assert sentence in capsys.readouterr().err


def test_results_that_are_there_already_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.json"
    out.write_text("{}")
    assert run(out) == 2
    assert "give --resume" in capsys.readouterr().err
    assert out.read_text() == "{}"


@pytest.mark.slow
def test_every_part_runs(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    assert run(out, "--minutes", "60") == 0
    parts = content(out)["parts"]
    assert content(out)["gpu"]["name"] == "none: Triton's interpreter"
    assert {name: part["status"] for name, part in parts.items()} == {part.name: "done" for part in PARTS}
    assert [name for name, part in parts.items() if not part["findings"]] == []
    differing = [
        finding for part in parts.values() for finding in part["findings"] if finding["name"].endswith("/differing")
    ]
    assert differing
    assert all(finding["value"] == 0 for finding in differing)
    assert run(out, "--minutes", "60", "--resume") == 0
    assert content(out)["parts"] == parts
