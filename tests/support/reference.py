"""docs/reference.md, made from the code: `python -m tests.support.reference` writes it.

Routes and fields are those of /openapi.json, errors those of `error_codes`, metrics those that /metrics collects,
options and variables those of the command line.
"""

from pathlib import Path

from typer.main import get_command

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

{commands}"""


def page():
    """Return the page."""
    return TEXT.format(
        routes="\n".join(routes()),
        errors=table(("code", "status", "meaning"), errors()),
        metrics=table(("metric", "type", "labels", "meaning"), metrics()),
        commands="\n".join(commands()),
    )


def table(head, rows):
    """Return a table, or nothing if there are no rows."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    if len(lines) == 2:
        return ""
    text = [" | ".join(" ".join(cell.split()) for cell in cells) for cells in lines]
    return "".join(f"| {line} |\n" for line in text)


def routes():
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


def fields(schema):
    """Yield name, type and meaning of each field of an object; the names of required fields of requests are bold."""
    required = schema.get("required", ()) if schema["title"].endswith("Request") else ()
    for name, field in schema.get("properties", {}).items():
        shown = f"**`{name}`**" if name in required else f"`{name}`"
        yield shown, type_of(field), field.get("description", "")


def type_of(schema):
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
    limits = {"minimum": "from", "maximum": "to", "maxLength": "of length up to"}
    words += [f"{word} {schema[name]:,}" for name, word in limits.items() if name in schema]
    return " ".join(words)


def errors():
    """Yield code, status and meaning of each error."""
    for status, codes in MEANINGS.items():
        for code, meaning in codes.items():
            yield f"`{code}`", str(status), meaning


def metrics():
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


def commands():
    """Yield the section of each command: its arguments and options."""
    group = get_command(command_line)
    for name, command in group.commands.items():
        rows = []
        for option in command.params:
            words = [*option.opts, *option.secondary_opts]
            if name == "serve":
                words.append(f"SCANLINE_{option.name.upper()}")
            default = option.show_default
            if not isinstance(default, str):
                default = str(option.default or "")
            shown = ", ".join(f"`{word}`" for word in words)
            rows.append((shown, default, option.help or ""))
        head = ("name", "default", "meaning")
        yield f"### scanline {name}\n\n{command.help}\n\n{table(head, rows)}"


if __name__ == "__main__":
    PAGE.write_text(page())
