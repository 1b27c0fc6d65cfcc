"""The pages: every file, folder, module and link that they name exists."""

import re
from pathlib import Path

import pytest

from benchmarks import tables

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("kernels/*/README.md")])
PATH = re.compile(r"`((?!kernels/NAME)(?:\.ci|benchmarks|deploy|docs|kernels|model|server|tests)/[\w./-]*)`")
MODULE = re.compile(r"python -m ((?:benchmarks|tests|scanline)\.[\w.]+)")
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")
HISTORY = {"CHANGELOG.md"}  # names what is gone


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    modules = [name.removeprefix("scanline.").rstrip(".").replace(".", "/") for name in MODULE.findall(text)]
    named = {path: ROOT / path for path in PATH.findall(text)} | {
        link: page.parent / link for link in LINK.findall(text)
    }
    missing = [name for name, path in named.items() if not path.exists()]
    missing += [name for name in modules if not (ROOT / f"{name}.py").exists() and not (ROOT / name).is_dir()]
    assert missing == []


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_tables_show_what_was_recorded(page: Path) -> None:
    assert page.read_text() == tables.rendered(page.read_text()), "run python -m benchmarks.tables"
