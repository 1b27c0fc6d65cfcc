"""scanline push: a model directory as a repository of the Hugging Face Hub."""

import sys
from typing import Annotated

import typer

from scanline.server.cli.base.options import ModelArgument


def push(
    model: ModelArgument,
    repository: Annotated[
        str, typer.Argument(help="ORG/NAME, or ORG/NAME@BRANCH.", metavar="ORG/NAME[@BRANCH]")
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Create the repository as a private one.")
    ] = False,
    message: Annotated[
        str | None,
        typer.Option(help="Message of the commit.", show_default="Push and the model's name"),
    ] = None,
) -> None:
    """Commit a model to the Hugging Face Hub: its files, its card,
    and the pictures that the card shows.

    The repository and the branch are created where there are none. Needs a
    token: `hf auth login`, or HF_TOKEN.
    """
    from scanline.model import zoo
    from scanline.model.datasets.sources import listed
    from scanline.model.formats import hub
    from scanline.model.formats.model_dir import read_evaluation

    directory = zoo.find(model)
    if not read_evaluation(directory):
        advice = f"`scanline evaluate {model} --data DIR --save` measures its bits/dim for the card"
        print(f"scanline: warning: {model} has no evaluation.json; {advice}", file=sys.stderr)
    if missing := hub.missing_pictures(directory):
        names = listed(missing)
        print(
            f"scanline: warning: the card shows {names}, not in {directory}, so not sent",
            file=sys.stderr,
        )
    commit = hub.push(directory, repository, private=private, message=message)
    print(f"{commit}\nserve it: scanline serve --model {repository}")
