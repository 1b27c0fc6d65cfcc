"""The command line: `scanline COMMAND`. It exits with status 0, or prints one sentence to stderr and exits with 2.

Each command is a file in commands/ and imports what it needs when it runs, so that `scanline --help` is fast.
"""

import sys

import typer

from scanline.server.cli.commands import (
    bench,
    classify,
    complete,
    evaluate,
    export,
    import_,
    models,
    sample,
    score,
    serve,
    train,
)

app = typer.Typer(
    name="scanline",
    help="Generate images with linear transformers, pixel by pixel, thousands at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (serve.serve, sample.sample, complete.complete, score.score, classify.classify):
    app.command()(command)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command("models")(models.list_models)
app.command("import")(import_.import_checkpoint)
app.command("export")(export.export)
app.command()(bench.bench)


def main() -> None:
    """Run the console script; errors in what the user asked for become one sentence, without a traceback."""
    try:
        app()
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _stop(reason)
    except (ValueError, ArithmeticError) as error:
        _stop(str(error))


def _stop(reason: str) -> None:
    print(f"scanline: {reason}", file=sys.stderr)
    sys.exit(2)
