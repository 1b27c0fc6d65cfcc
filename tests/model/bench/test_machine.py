"""The facts about a run: the commit is that of our own clone or absent, and a busy machine gives a warning."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scanline.model import machine


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
    monkeypatch.setattr(machine, "scanline", SimpleNamespace(__file__=str(folder / "scanline" / "__init__.py")))
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


@pytest.mark.skipif(not list(Path("/proc/self/task").glob("*/children")), reason="the system lists no children")
def test_the_work_of_running_children_is_our_own() -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    before = machine._processor_seconds()
    child = subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        after = machine._processor_seconds()
    finally:
        child.communicate(b"\n")
    assert before is not None
    assert after is not None
    assert after[2] - before[2] > 0.4
