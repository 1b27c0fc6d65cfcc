"""What is shipped of the page is what its sources build to."""

import shutil
import subprocess
from pathlib import Path

import pytest

from server.api.page import BUILT

SOURCES = BUILT.with_name("web")


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_page_is_built_from_its_sources(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or not (SOURCES / "node_modules").is_dir():
        pytest.skip("no npm, or nothing installed by `npm ci` in server/web")
    build = [npm, "run", "build", "--", "--outDir", str(tmp_path / "page")]
    ran = subprocess.run(build, cwd=SOURCES, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    built, shipped = files_of(tmp_path / "page"), files_of(BUILT)
    assert sorted(built) == sorted(shipped)
    assert [name for name in built if built[name] != shipped[name]] == [], "run `npm run build` in server/web"
