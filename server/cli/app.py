"""The commands: each a file in commands/ that imports what it needs when it runs,
so that `scanline --help` is fast.
"""

from typing import Annotated

import typer

from scanline.model.base import extras
from scanline.server.cli.commands import (
    bench,
    classify,
    complete,
    compress,
    decompress,
    evaluate,
    export,
    import_,
    models,
    push,
    recipe,
    sample,
    score,
    serve,
    train,
)

app = typer.Typer(
    name="scanline",
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Generate images with linear transformers, pixel by pixel, thousands at once."""
    if version:
        print(extras.version())
        raise typer.Exit


for command in (serve.serve, sample.sample, complete.complete, score.score, classify.classify):
    app.command()(command)
app.command()(compress.compress)
app.command()(decompress.decompress)
app.command()(recipe.recipe)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command("models")(models.list_models)
app.command("import")(import_.import_checkpoint)
app.command("export")(export.export)
app.command()(push.push)
app.command()(bench.bench)
