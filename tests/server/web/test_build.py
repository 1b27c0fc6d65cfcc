"""The built page in server/web/dist is what its sources build to, and
samples what the server samples.
"""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scanline.server.api.routes.page import BUILT
from tests.support.kernels.wasm_network import MODULE
from tests.support.page.vectors import FILE, vectors

SOURCES = BUILT.parent
NPM = shutil.which("npm")
needs_npm = pytest.mark.skipif(
    NPM is None or not (SOURCES / "node_modules").is_dir(),
    reason="needs npm, and `npm ci` in server/web",
)


def npm(*arguments: str) -> None:
    ran = subprocess.run(
        [str(NPM), *arguments], cwd=SOURCES, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@needs_npm
@pytest.mark.compilers
def test_the_page_is_built_from_its_sources(tmp_path):
    npm("run", "build", "--", "--outDir", str(tmp_path / "page"))
    built = files_of(tmp_path / "page")
    shipped = files_of(BUILT)
    assert sorted(built) == sorted(shipped)
    assert [name for name in built if built[name] != shipped[name]] == [], (
        "run `npm run build` in server/web"
    )


def test_the_page_loads_at_most_40_kb_at_first():
    """Compressed: its document, and the script, the styles and the icon that this names."""
    document = (BUILT / "index.html").read_bytes()
    named = re.findall(rb'(?:src|href)="\./(assets/[^"]+)"', document)
    assert len(named) == 3
    files = [document, *((BUILT / path.decode()).read_bytes() for path in named)]
    assert sum(len(gzip.compress(file)) for file in files) <= 40_000


def test_the_page_with_all_its_tabs_is_at_most_73_kb():
    """Compressed, without the API's documentation, licences, the page without a server, and the
    kernel with its worker, which are downloaded on request."""
    others = ("docs", "licenses", "step", "worker", "offline")
    texts = [file for file in BUILT.rglob("*.*") if not file.name.startswith(others)]
    assert len(texts) >= 6
    assert sum(len(gzip.compress(file.read_bytes())) for file in texts) <= 73_000


def test_the_kernel_of_the_page_is_the_one_that_is_compared_and_at_most_60_kb():
    (kernel,) = BUILT.glob("assets/step-*.wasm")
    content = kernel.read_bytes()
    assert content == MODULE.read_bytes()
    assert len(gzip.compress(content)) <= 60_000


def test_the_vectors_are_what_the_server_samples():
    """`python -m tests.support.page.vectors` writes them."""
    written = json.loads(FILE.read_text())
    found = json.loads(json.dumps(vectors()))
    assert written == found


@needs_npm
def test_the_vectors_are_what_the_page_samples():
    npm("test")
