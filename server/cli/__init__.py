"""The command line: `scanline COMMAND`. One file a command; exit status 0, or one sentence and 2.

Commands import what they need when they run, so that `scanline --help` answers at once.
"""

import sys

import typer

from scanline.server.cli.commands import bench, complete, evaluate, export, import_, models, sample, score, serve, train

app = typer.Typer(
    name="scanline",
    help="Paints images with linear transformers, byte by byte, thousands at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (serve.serve, sample.sample, complete.complete, score.score, train.train, evaluate.evaluate):
    app.command()(command)
app.command("models")(models.list_models)
app.command("import")(import_.import_checkpoint)
app.command("export")(export.export)
app.command()(bench.bench)


def main() -> None:
    """The console script: what a user got wrong becomes one sentence, never a traceback."""
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
