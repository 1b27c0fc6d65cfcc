"""The built page in server/web/dist is what its sources build to."""

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from scanline.server.api.routes.page import BUILT

SOURCES = BUILT.parent


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): content_of(path) for path in directory.rglob("*") if path.is_file()}


def content_of(path: Path) -> bytes:
    """The content of a file, decompressed: another version of gzip may write other bytes."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.compilers
def test_the_page_is_built_from_its_sources(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or not (SOURCES / "node_modules").is_dir():
        pytest.skip("needs npm, and `npm ci` in server/web")
    build = [npm, "run", "build", "--", "--outDir", str(tmp_path / "page")]
    ran = subprocess.run(build, cwd=SOURCES, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    built, shipped = files_of(tmp_path / "page"), files_of(BUILT)
    assert sorted(built) == sorted(shipped)
    assert [name for name in built if built[name] != shipped[name]] == [], "run `npm run build` in server/web"
