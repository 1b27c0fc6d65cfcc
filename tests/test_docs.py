"""The pages: what they name exists in the code, and their sentences
are short enough to be read once.
"""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from benchmarks import tables
from scanline.server.cli.app import app
from scanline.server.settings import Settings
from tests.support import compared, reference

ROOT = Path(__file__).parents[1]
LOG = ROOT / "benchmarks/log.md"
GUIDES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PAGES = [*GUIDES, LOG, *sorted(ROOT.glob("[bkm]*/**/README.md"))]  # of kernels, model
PATH = re.compile(
    r"`((?!kernels/NAME)(?:\.ci|benchmarks|deploy|docs|kernels|model|server|tests)/[\w./-]*)`"
)
MODULE = re.compile(r"python -m ((?:benchmarks|tests|scanline)\.[\w.]+)")
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([\w-]+))?\)")
FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# between sentences; x: what stood in backticks
BREAK = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\"'(*x])")
COMMANDS = {
    name: {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for name, command in get_command(app).commands.items()
}
SOURCES = "".join(
    file.read_text() for part in ("server", "model") for file in ROOT.glob(f"{part}/**/*.py")
)
SCRIPTS = "".join(
    file.read_text()
    for part in ("benchmarks", "tests/kernels")
    for file in ROOT.glob(f"{part}/**/*.py")
)
PIPS = {"--extra-index-url"}
OPTIONS = PIPS.union(*COMMANDS.values(), re.findall(r'"(--[a-z-]+)"', SOURCES + SCRIPTS))
VARIABLES = {f"SCANLINE_{name.upper()}" for name in Settings.model_fields}


def by_name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_what_a_page_names_exists(page):
    text = page.read_text()
    modules = [
        name.removeprefix("scanline.").rstrip(".").replace(".", "/")
        for name in MODULE.findall(text)
    ]
    named = {path: ROOT / path for path in PATH.findall(text)}
    missing = [
        name
        for name in modules
        if not (ROOT / f"{name}.py").exists() and not (ROOT / name).is_dir()
    ]
    for link, anchor in LINK.findall(text):
        target = named[link] = page.parent / link if link else page
        if anchor and target.exists() and anchor not in anchors(target.read_text()):
            missing.append(f"{link}#{anchor}")
    missing += [name for name, path in named.items() if not path.exists()]
    assert missing == []


def anchors(text):
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", GUIDES, ids=by_name)
def test_commands_options_and_variables_of_a_page_exist(page):
    text = page.read_text()
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    lines = [
        line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    unknown = [name for code in (*spans, *lines) for name in unknown_names(code, page.stem)]
    unknown += set(re.findall(r"\bSCANLINE_[A-Z_]*[A-Z]", text)) - VARIABLES
    assert unknown == []


def unknown_names(code, page):
    """The command of ours in a line of code where there is none of that name, and
    options that it does not have. Options without a command are those of the page's
    command, or of any command or script."""
    if called := re.search(r"(?:^|[ /])scanline ([a-z]+)(.*)", code):
        name = called[1]
        code = re.split(r" [|&#]", called[2])[0]
        if name not in COMMANDS:
            yield f"scanline {name}"
    else:
        name = code.split(" --")[0]
    known = COMMANDS.get(page, OPTIONS) if code.startswith("--") else COMMANDS.get(name)
    if known is not None:
        yield from set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)) - known


@pytest.mark.parametrize("page", GUIDES, ids=by_name)
def test_sentences_of_a_page_are_short(page):
    found = sorted(sentences(page.read_text()))
    lengths = [length for length, _ in found]
    median = lengths[len(lengths) // 2]
    nine_of_ten = lengths[int(len(lengths) * 0.9)]
    longest = lengths[-1]
    print(
        f"words of a sentence: median {median}, nine of ten below {nine_of_ten + 1}, longest {longest}"
    )
    print(*(f"{length}: {sentence}" for length, sentence in reversed(found[-10:])), sep="\n")
    assert median <= 14
    assert nine_of_ten < 30
    assert longest <= 45


def sentences(text):
    """The words of each sentence of a page, and the sentence, without code
    blocks, headings and tables; code is x.
    """
    text = re.sub(
        r"!?\[([^\]]*)\]\([^)]*\)",
        r"\1",
        re.sub(r"!\[[^\]]*\]\([^)]*\)", "", FENCE.sub("\n\n", text)),
    )
    text = re.sub(r"^(\||#|    ).*", "", re.sub(r"`[^`]*`", "x", text), flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|^ *(?:[-*]|\d+\.) ", text, flags=re.MULTILINE):
        for sentence in BREAK.split(" ".join(block.split())):
            if (words := len(re.findall(r"[A-Za-z0-9][\w'./-]*", sentence))) > 1:
                yield words, sentence


def test_the_reference_is_what_the_code_says():
    assert reference.PAGE.read_text() == reference.page(), "run python -m tests.support.reference"


def test_the_log_has_a_short_line_for_each_result_newest_first():
    for area in LOG.read_text().split("\n## ")[1:]:
        lines = re.findall(r"^\| 2.*", area, re.MULTILINE)
        dates = [line[2:12] for line in lines]
        assert dates == sorted(dates, reverse=True)
        for line in lines:
            # date, change, prediction, result, verdict
            assert re.fullmatch(
                r"\| 2\d{3}-\d\d-\d\d( \| [^|]+){3} \| (kept|no|fixed|measured|open) \|", line
            ), line
            assert len(line.replace("|", "").split()) <= 45, line


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_tables_show_what_was_recorded(page):
    assert page.read_text() == tables.rendered(page.read_text()), "run python -m benchmarks.tables"


def test_the_table_of_compared_bytes_has_the_rows_of_its_tests():
    _, _, _, *lines, _ = compared.shown().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines]
    assert [tuple(row[:3]) for row in cells] == compared.rows(), (
        "run python -m tests.support.compared"
    )
    assert all(int(row[3].replace(",", "")) for row in cells)
