"""docs/reference.md, made from the code: `python -m tests.support.reference` writes it.

Routes and fields are those of /openapi.json, errors those of `error_codes`, metrics those that /metrics collects,
options and variables those of the command line.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from scanline.model import zoo
from scanline.model.base.precision import precision
from scanline.model.formats.model_dir import load_config
from scanline.model.training.presets import PRESETS
from scanline.server.api.base.api_keys import api_keys
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.base.error_codes import MEANINGS
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.routes.metrics import PREFIX, process_metrics
from scanline.server.cli.app import app as command_line
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.runtime.loop_lag import LoopLag
from scanline.server.settings import Settings

PAGE = Path(__file__).parents[2] / "docs/reference.md"
SETTINGS = Settings(api_keys=("key",))  # of a server that has all metrics
BYTES_BESIDE_STATE = 36  # of an image in flight: seed, index, temperature, bits, position
KEPT = {"exact, int8, on a CPU": ("exact", "cpu"), "exact, on a GPU": ("exact", "cuda")}
KEPT["bfloat16-state"] = ("bfloat16-state", "cuda")
TEXT = """# Reference

The code writes this page: `python -m tests.support.reference`. [HTTP and websocket API](api.md) explains the routes,
[Configure](configure.md) the options of a server.

## Routes

These are the fields of JSON; required ones are in bold. Where a body may be a form, it has the same fields, and
pictures and codes are files.

{routes}
## Errors

{errors}
## Metrics

{metrics}
## Commands

A variable sets the option of the same name. Variables of repeatable options are plural and separated by commas.

{commands}
## Images in flight per GB

{images}"""


def page() -> str:
    """Return the page."""
    return TEXT.format(
        routes="\n".join(routes()),
        errors=table(("code", "status", "meaning"), errors()),
        metrics=table(("metric", "type", "labels", "meaning"), metrics()),
        commands="\n".join(commands()),
        images=table(("model or preset", *KEPT), images_in_a_gigabyte()),
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, or nothing if there are no rows."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    if len(lines) == 2:
        return ""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def routes() -> Iterator[str]:
    """Yield the section of each route and the fields of its JSON body, then those of each kind of answer."""
    described = build(SETTINGS, served_models(SETTINGS)).openapi()
    schemas = described["components"]["schemas"]
    head = ("field", "type", "meaning")
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"### {method.upper()} {path}\n\n{operation['description']}\n"
            content = operation["responses"]["200"]["content"]
            answers = [
                type_of(answer["schema"]) if kind == "application/json" else f"`{kind}`"
                for kind, answer in content.items()
            ]
            yield f"Answer: {', '.join(answers)}.\n"
            body = operation.get("requestBody", {"content": {}})["content"].get("application/json")
            if body is not None:
                yield table(head, fields(schemas[body["schema"]["$ref"].split("/")[-1]]))
    for name, schema in schemas.items():
        if not name.endswith(("Request", "Form")):
            yield f"### {name}\n\n{schema['description']}\n\n{table(head, fields(schema))}"


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each field of an object; the names of required fields of requests are bold."""
    required = schema.get("required", ()) if schema["title"].endswith("Request") else ()
    for name, field in schema.get("properties", {}).items():
        shown = f"**`{name}`**" if name in required else f"`{name}`"
        yield shown, type_of(field), field.get("description", "")


def type_of(schema: dict[str, Any]) -> str:
    """Return the type and the limits of a field, in words."""
    if "$ref" in schema:
        name = schema["$ref"].split("/")[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        words = [" or ".join(type_of(choice) for choice in schema["anyOf"])]
    elif "enum" in schema:
        words = [", ".join("null" if value is None else str(value) for value in schema["enum"])]
    elif "items" in schema:
        words = ["list of", type_of(schema["items"])]
    else:
        words = [str(schema.get("const", schema.get("type", "any")))]
    limits = {
        "minimum": "from {:,}",
        "maximum": "to {:,}",
        "maxLength": "of at most {:,} characters",
    }
    words += [text.format(schema[name]) for name, text in limits.items() if name in schema]
    return " ".join(words)


def errors() -> Iterator[tuple[str, str, str]]:
    """Yield code, status and meaning of each error."""
    for status, codes in MEANINGS.items():
        for code, meaning in codes.items():
            yield f"`{code}`", str(status), meaning


def metrics() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, labels and meaning of each metric."""
    served = served_models(SETTINGS)
    found = process_metrics(
        served, HttpCounters(), LoopLag(), api_keys(SETTINGS), Budgets(SETTINGS)
    ).collect()
    for metric in sorted(found, key=lambda metric: metric.name):
        if not metric.name.startswith(PREFIX):  # of the process: they differ by system
            continue
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = ", ".join(getattr(metric, "_labelnames", ()))
        yield f"`{name}`", metric.type, labels, metric.documentation


def commands() -> Iterator[str]:
    """Yield the section of each command: its arguments and options."""
    group = get_command(command_line)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        rows = []
        for option in command.params:
            shown = ", ".join(f"`{word}`" for word in [*option.opts, *option.secondary_opts])
            default = (
                option.show_default if isinstance(option.show_default, str) else option.default
            )
            row = [shown, "" if default in (None, False) else str(default), option.help or ""]
            if name == "serve":
                row.insert(1, f"`SCANLINE_{option.name.upper()}`")
            rows.append(row)
        head = ["argument or option", "default", "meaning"]
        if name == "serve":
            head.insert(1, "variable")
        yield f"### scanline {name}\n\n{command.help}\n\n{table(head, rows)}"


def images_in_a_gigabyte() -> Iterator[list[str]]:
    """Yield the images in flight that a GB holds, of each shipped model and each preset."""
    configs = {name: load_config(zoo.find(name)) for name in zoo.names()}
    configs |= {name: preset.model for name, preset in PRESETS.items() if name not in configs}
    for name, config in configs.items():
        counts = []
        for word, device in KEPT.values():
            image = (
                precision(word).state_bytes(config, device) + 2 * config.bytes + BYTES_BESIDE_STATE
            )
            counts.append(f"{round(10**9 / image):,}")
        yield [f"`{name}`", *counts]


if __name__ == "__main__":
    PAGE.write_text(page())
