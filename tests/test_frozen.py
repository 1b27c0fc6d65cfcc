"""What grows by a deliberate edit alone: tokens of Python, options of
commands, fields of JSON, names in events.

`.ci/budget.toml` has the tokens that product and tests may have (`python -m
tests.support.tokens` prints them). The lists below `tests/frozen` have all of the others;
`python -m tests.test_frozen` writes them anew.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.main import get_command

from scanline.model.base import sampling_options
from scanline.server.api.payload import response_schemas, schemas
from scanline.server.cli.app import app
from tests.support import tokens

ROOT = Path(__file__).parents[1]


def options() -> Iterator[str]:
    """Each option of each command."""
    command = get_command(app)
    for name, each in sorted(command.commands.items()):  # type: ignore[attr-defined]
        for parameter in each.params:
            yield from (f"{name} {option}" for option in parameter.opts if option.startswith("--"))


def fields() -> Iterator[str]:
    """Each field of each request and response."""
    for module in (schemas, response_schemas):
        for name, schema in sorted(vars(module).items()):
            if (
                isinstance(schema, type)
                and issubclass(schema, BaseModel)
                and schema.__module__ == module.__name__
            ):
                yield from (
                    f"{name} {field.alias or key}" for key, field in schema.model_fields.items()
                )


def names() -> Iterator[str]:
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


LISTS = {"options.txt": options, "fields.txt": fields, "names.txt": names}


def test_an_option_of_sampling_is_a_field_of_requests_of_their_answers_and_of_defaults() -> None:
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
def test_the_tokens_of_python_are_within_their_budget(part: str) -> None:
    budget = tomllib.loads((ROOT / ".ci/budget.toml").read_text())
    assert tokens.weight(tokens.files_of(part)).tokens <= budget[part]


@pytest.mark.parametrize("name", LISTS)
def test_options_fields_and_names_are_those_of_the_list(name: str) -> None:
    assert [*LISTS[name]()] == (ROOT / "tests/frozen" / name).read_text().splitlines()


if __name__ == "__main__":
    for name, found in LISTS.items():
        (ROOT / "tests/frozen" / name).write_text("\n".join(found()) + "\n")
