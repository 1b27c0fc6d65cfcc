"""What grows by a deliberate edit alone: tokens of Python, names in events.

`.ci/budget.toml` has the tokens that product and tests may have (`python -m
tests.support.tokens` prints them). tests/frozen/names.txt has the names; `python -m
tests.test_frozen` writes it anew. docs/reference.md has options and fields.
"""

import ast
import tomllib
from pathlib import Path

import pytest

from scanline.model.base import sampling_options
from scanline.server.api.payload import schemas
from tests.support import tokens

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "tests/frozen/names.txt"


def names():
    """Each string that may be a name in an event or a message, in whichever case:
    all of the modules that make them.
    """
    for pattern in (
        "model/tasks/*.py",
        "server/api/payload/image_output.py",
        "server/api/routes/*.py",
    ):
        for file in sorted(ROOT.glob(pattern)):
            nodes = ast.walk(ast.parse(file.read_bytes()))
            strings = {
                node.value
                for node in nodes
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            yield from (
                f"{file.stem} {string}" for string in sorted(strings) if string.isidentifier()
            )


def test_an_option_of_sampling_is_a_field_of_requests_of_their_answers_and_of_defaults():
    names = set(sampling_options.DrawingParams().used)
    assert (
        names
        == sampling_options.SamplingOptions.__annotations__.keys()
        < sampling_options.FIELDS.keys()
    )
    assert (
        names
        == schemas.SamplingFields.model_fields.keys()
        == schemas.SamplingAnswer.model_fields.keys()
    )


@pytest.mark.parametrize("part", ["product", "tests"])
def test_the_tokens_of_python_are_within_their_budget(part):
    budget = tomllib.loads((ROOT / ".ci/budget.toml").read_text())
    assert tokens.weight(tokens.files_of(part)).tokens <= budget[part]


def test_names_of_events_and_messages_are_those_of_the_list():
    assert [*names()] == NAMES.read_text().splitlines()


if __name__ == "__main__":
    NAMES.write_text("\n".join(names()) + "\n")
