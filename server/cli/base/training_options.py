"""The options of `scanline train`. Those named as a field of TrainingConfig change the recipe."""

from dataclasses import dataclass, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scanline.model.base.extras import MissingExtraError
from scanline.model.training.config import COMPILED_MINUTES, TrainingConfig
from scanline.model.training.presets import PRESETS
from scanline.server.cli.base.options import Fetch

if TYPE_CHECKING:
    from scanline.model.datasets.source import ImageSet

RECIPE = {field.name: field.metadata for field in fields(TrainingConfig)}

of_pictures, of_network, of_machine = (
    partial(typer.Option, rich_help_panel=title) for title in ("Pictures", "Network", "Machine")
)


def of_recipe(name: str, panel: str | None = "Recipe", *words: str) -> Any:
    """Return the option of a field of TrainingConfig: its help, default and limit are there."""
    return typer.Option(*words, rich_help_panel=panel, **RECIPE[name])


@dataclass(frozen=True)
class TrainingOptions:
    """The options, in the order of the help: those that matter first, then the groups.

    None keeps the value of the preset, or of the run that is resumed.
    """

    out: Annotated[Path, typer.Option("--out", "-o", help="The model directory to write.")]
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder of pictures, searched recursively; a directory with the published files of MNIST or"
            " CIFAR-10; or a .npy array, uint8, n x H x W or n x H x W x 3. Required unless --resume is given."
        ),
    ] = None
    classes: Annotated[
        bool,
        typer.Option(
            "--classes",
            help="Learn classes: those of MNIST or CIFAR-10, or the subfolders of a folder.",
        ),
    ] = False
    class_head: Annotated[
        bool,
        typer.Option(
            "--class-head",
            help="Only fit the class head of the model in --out, which classifies pictures, to all pictures of --data,"
            " of drawings to 30,000 at most; a run with --classes ends with that, on 10,000 of them.",
        ),
    ] = False
    minutes: Annotated[float | None, of_recipe("minutes", None)] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start from the weights of a shipped model, a model directory or ORG/NAME of the Hugging Face Hub;"
            " auto: of the shipped model of the pictures' size, if there is one; none: from random weights.",
            show_default="auto, or none with an option of a new network",
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in --out, with its saved options.")
    ] = False
    size: Annotated[
        str | None, of_pictures(metavar="WxH", help="Crop to the centre and resize; N means NxN.")
    ] = None
    grey: Annotated[bool, of_pictures("--grey", help="Convert the pictures to grey.")] = False
    flip: Annotated[bool | None, of_recipe("flip", "Pictures", "--mirror")] = None
    unlabelled: Annotated[float | None, of_recipe("unlabelled", "Pictures")] = None
    preset: Annotated[
        str | None,
        of_network(
            help=f"{', '.join(PRESETS)}.", show_default="a model sized to pictures and minutes"
        ),
    ] = None
    layers: Annotated[
        int | None,
        of_network(
            min=1,
            help="Layers of a new network; with --from: grow the model to this many.",
            show_default="2, or the model's",
        ),
    ] = None
    width: Annotated[
        int | None,
        of_network(
            min=1,
            help="Width of a new network, a multiple of 32.",
            show_default="sized to pictures and minutes",
        ),
    ] = None
    predicts: Annotated[
        str | None,
        of_network(
            help="categorical, logistics or pixel_logistics.",
            show_default="categorical for grey, pixel_logistics for colour",
        ),
    ] = None
    neighbours: Annotated[
        bool | None,
        of_network(
            "--neighbours/--no-neighbours",
            help="Mix each pixel with its painted neighbours in every block and layer: 0.01 to 0.06 bits/dim better for"
            " new colour models, 1.1 times the time of an update on a CPU.",
            show_default="for new colour models without --preset",
        ),
    ] = None
    classes_only: Annotated[bool | None, of_recipe("classes_only", "Recipe", "--classes-only")] = (
        None
    )
    updates: Annotated[int | None, of_recipe("updates")] = None
    batch: Annotated[int | None, of_recipe("batch")] = None
    optimiser: Annotated[str | None, of_recipe("optimiser")] = None
    learning_rate: Annotated[float | None, of_recipe("learning_rate")] = None
    schedule: Annotated[str | None, of_recipe("schedule")] = None
    decay: Annotated[float | None, of_recipe("decay")] = None
    weight_decay: Annotated[float | None, of_recipe("weight_decay")] = None
    average: Annotated[float | None, of_recipe("average")] = None
    seed: Annotated[int | None, of_recipe("seed")] = None
    checkpoint_every: Annotated[int | None, of_recipe("checkpoint_every")] = None
    checkpoint_mb: Annotated[
        float | None,
        of_machine(
            help="Limit of all files of the run: if the whole state is larger, it is saved without the optimiser's, in"
            " float16.",
            show_default="none",
        ),
    ] = None
    device: Annotated[str, of_machine(help="auto, cpu or cuda.")] = "auto"
    precision: Annotated[
        str | None,
        of_machine(
            help="float32 or bfloat16.",
            show_default="bfloat16 where the hardware has it, unless that hides the gradients",
        ),
    ] = None
    compiled: Annotated[
        bool | None,
        of_machine(
            "--compile/--no-compile",
            help="Use torch.compile; on a CPU it needs a C++ compiler.",
            show_default=f"where the run has at least {COMPILED_MINUTES['cpu']:g} minutes, {COMPILED_MINUTES['cuda']:g}"
            " on a GPU",
        ),
    ] = None
    compile_cache: Annotated[
        Path | None,
        of_machine(
            help="A file for compiled code, written by one run and read by the next one, also on another machine of the"
            " kind. It is run as code: use your own."
        ),
    ] = None
    processes: Annotated[
        int | None,
        of_machine(
            min=1,
            help="Processes that share every batch.",
            show_default="1 on a CPU, one for each GPU of a machine",
        ),
    ] = None
    branches: Annotated[int | None, of_recipe("branches", "Machine")] = None
    branch_updates: Annotated[int | None, of_recipe("branch_updates", "Machine")] = None
    fetch: Fetch = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each row of the loss curve.")
    ] = False

    @property
    def changes(self) -> dict[str, Any]:
        """The fields of the recipe that the options change."""
        return _given({name: getattr(self, name, None) for name in RECIPE})

    @property
    def _new_network(self) -> dict[str, Any]:
        """The options of a new network that are given; --layers is also one of
        a model that it continues."""
        network = {"--neighbours": self.neighbours, "--layers": self.layers, "--width": self.width}
        return _given(network)

    def compiles(self, recipe: TrainingConfig, device: str) -> bool:
        """Return whether a run of this recipe is compiled."""
        if self.compiled is not None:
            return self.compiled
        return recipe.minutes is None or recipe.minutes >= COMPILED_MINUTES[device]

    def start_for(self, images: "ImageSet") -> str | None:
        """Return the model whose weights a new run begins with; None: random weights."""
        from scanline.model.training.run.plan import shipped_start

        of_new = _given({"preset": self.preset, "predicts": self.predicts}) | self._new_network
        if self.start == "auto" or (self.start is None and not of_new):
            return shipped_start(images)
        return None if self.start == "none" else self.start

    def check(self) -> None:
        """Raise ValueError for options that exclude each other, or
        a model directory that is in use.
        """
        from scanline.model.base.named_files import check_output
        from scanline.model.datasets.compress_input import input_files
        from scanline.model.formats.model_dir import CONFIG
        from scanline.model.training.run.state import FILE as STATE

        if self.class_head:
            allowed = TrainingOptions(self.out, self.data, class_head=True, device=self.device)
            if self.data is None or self != allowed:
                raise ValueError(
                    "--class-head trains no network: give it --out and --data, and at most --device"
                )
            return
        if self.preset is not None and self.preset not in PRESETS:
            raise ValueError(f"there is no preset {self.preset!r}; there are {', '.join(PRESETS)}")
        # "--from none" asks for random weights and names no
        # model, so it may stand beside the others.
        start = None if self.start == "none" else self.start
        models = [*_given({"--preset": self.preset, "--from": start, "--predicts": self.predicts})]
        if len(models) > 1:
            raise ValueError(
                f"{models[0]} and {models[1]} exclude each other: each decides which model is trained"
            )
        if self.resume and models not in ([], ["--preset"]):
            raise ValueError(
                f"{models[0]} is for a new run; --resume continues the model in {self.out}"
            )
        # A model to continue may get more layers, and a preset may mix neighbours
        # in: nothing else of them is changed.
        for option in self._new_network:
            if start and option != "--layers":
                raise ValueError(f"{option} is for a new network; --from continues one as it is")
            if self.preset is not None and option != "--neighbours":
                raise ValueError(
                    f"--preset and {option} exclude each other: each decides the size of the network"
                )
            if self.resume and self.preset is None:
                raise ValueError(
                    f"{option} is for a new run; --resume continues the model in {self.out}"
                )
        if self.compile_cache is not None:
            check_output(self.compile_cache, [] if self.data is None else input_files([self.data]))
        if self.fetch and self.preset is None:
            raise ValueError("--fetch needs --preset, whose data set it downloads")
        if find_spec("matplotlib") is None:
            raise MissingExtraError("the loss curve", "train")
        if self.resume:
            return
        out = self.out
        if (out / STATE).exists():
            raise ValueError(
                f"{out} already holds a training run; continue it with --resume, or name another directory"
            )
        if (out / CONFIG).exists():
            raise ValueError(
                f"{out} already holds a model; name another directory, or continue from it with --from"
            )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
