"""The facts about a run: the commit is that of our own clone or absent, and a busy machine gives a warning."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from scanline.model.bench import machine


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit and a folder in it."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "file").write_text("one")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "--quiet"], ["add", "file"], ["commit", "--quiet", "--message", "one"]):
        subprocess.run([*git, *arguments], check=True)
    return tmp_path


def commit_of_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(machine, "scanline", SimpleNamespace(__file__=str(folder / "__init__.py")))
    return machine.facts()["commit"]


def test_the_commit_is_that_of_our_own_clone_and_marked_when_files_differ(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    head = subprocess.run(["git", "-C", str(repository), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    commit = commit_of_package(repository, monkeypatch)
    assert commit is not None
    assert head.startswith(commit)
    (repository / "file").write_text("two")
    assert commit_of_package(repository, monkeypatch) == f"{commit}-dirty"
    for elsewhere in (repository / "inside", tmp_path_factory.mktemp("outside")):
        assert commit_of_package(elsewhere, monkeypatch) is None


@pytest.mark.parametrize(("share", "warned"), [(None, False), (0.05, False), (0.2, True)])
def test_a_busy_machine_gives_a_warning(share: float | None, warned: bool) -> None:
    warning = machine.busy_warning({"others_share_of_cpu": share})
    assert (warning is not None) == warned
    if warning is not None:
        assert "other programs used 20% of the processors' time" in warning
