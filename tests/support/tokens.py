"""Weight of Python files: the tokens that carry code.

    python -m tests.support.tokens              # each part of the repository
    python -m tests.support.tokens FILE ...     # each file

Comments, docstrings, blank lines, line ends, indentation and the comma before a closing bracket are
not counted, so that folding lines gains nothing.
"""

import ast
import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = {
    "kernels": ["kernels"],
    "model": ["model"],
    "server": ["server"],
    "product": ["kernels", "model", "server", "src/scanline", "benchmarks"],
    "tests": ["tests"],
}
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
CLOSING = (")", "]", "}")
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Weight:
    """tokens: of code. lines: those with at least one such token."""

    tokens: int
    lines: int

    def __str__(self):
        density = self.tokens / max(self.lines, 1)
        return f"{self.tokens:,} tokens, {self.lines:,} lines, {density:.1f} a line"


def weight(files):
    """Return the weight of files together."""
    weights = [_weight_of(file.read_text()) for file in files]
    return Weight(sum(each.tokens for each in weights), sum(each.lines for each in weights))


def files_of(part):
    """The Python files of a part, without what a package manager put there."""
    for folder in PARTS[part]:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "node_modules" not in file.parts:
                yield file


def _weight_of(source):
    docstrings = set(_docstrings(ast.parse(source)))
    tokens = 0
    lines = set()
    previous = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in LAYOUT or token.start in docstrings:
            continue
        tokens += 1
        if previous == "," and token.string in CLOSING:
            tokens -= 1
        previous = token.string
        lines.update(range(token.start[0], token.end[0] + 1))
    return Weight(tokens, len(lines))


def _docstrings(tree):
    """Where each docstring begins: line, column."""
    for node in ast.walk(tree):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield first.lineno, first.col_offset


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[1:]]
    for path in paths:
        print(path, weight([path]))
    for part in PARTS if not paths else ():
        print(part, weight(files_of(part)))
