"""Errors of the command line: one sentence, exit status 2, never a traceback."""

import runpy
import sys
from pathlib import Path
from typing import cast

import click
import numpy as np
import pytest
import typer

import scanline as scanline_package
from scanline.model.base import extras
from scanline.model.formats.checkpoint import save_model
from scanline.server.cli.app import app
from tests.support import blobs, shapes, small_models
from tests.support.commands import in_a_process, refused, scanline
from tests.support.pictures import encode, noise
from tests.support.small_models import GREY

CASES = {  # a command, run in a folder with everything else that it names: part of the message
    "sample --model white": "there is no model 'white'",
    "sample --backend gpu": "the backend must be one of auto, cuda, cuda-unchained, cuda-narrow,",
    "sample --backend cuda": "the backend cuda needs a GPU, and there is no CUDA",
    "evaluate digits --data data --backend cuda --device cpu": "--device cuda, not",
    "sample --out digits.jpg": "write a .png or .webp sheet, a .gif film, a .npy array or a folder",
    "sample --out file": "file is no folder; give a folder, or a name that ends in .png",
    "sample --model pointer": "model.safetensors is a pointer of Git LFS",
    "sample --out nowhere/digits.png": "there is no directory nowhere",
    "complete none.png --keep-rows 3": "none.png: No such file or directory",
    "complete file --keep-rows 3": "file is not a readable PNG, WebP, JPEG or BMP picture.",
    "complete grey.png --keep-rows 3 --mask mask.png": "--keep-rows and --mask exclude each other",
    "complete grey.png": "give --keep-rows or --mask",
    "score grey.png small.png": "small.png is 3x3",
    "sample --each-class": "This model knows no classes; leave --each-class out.",
    "classify grey.png": "This model knows no classes and cannot classify.",
    "compress pictures --class star --classes": "--class and --classes exclude each other",
    "compress pictures --split all": "--split must be test or train, not 'all'",
    "sample --model shapes --class star --each-class": "--class and --each-class exclude each other",
    "sample --model shapes --each-class --cluster auto --out new": "--each-class paints on this machine;",
    "score grey.png --particles 4": "--particles is for estimates; give --keep-rows",
    "evaluate digits --data broken": "t10k-images-idx3-ubyte.gz is truncated",
    "evaluate grey --data data": "no data set has images of 7 x 5 x 1",
    "evaluate digits --data empty": "empty holds no files",
    "train --preset imagenet --data data --out new": "there is no preset 'imagenet'",
    "train --preset mnist-small --data empty --out new": "empty holds no files",
    "train --out new": "give --data: a folder of pictures",
    "train --data pictures --out new": "a.png is 5x7 and b.png is 3x3; give --size",
    "train --data pictures --size big --out new": "--size must be a number like 32",
    "train --data pictures --size 4 --out pictures/new": "pictures/new is inside pictures",
    "train --data data --out digits": "digits already holds a model; name another directory",
    "train --preset mnist-small --data data --out new --from grey": "--preset and --from exclude each other",
    "train --preset mnist-small --data pictures --size 8 --out new": "paints 28x28 grey and the pictures are 8x8 grey",
    "train --data data --width 64 --from auto --out new": "--width is for a new network; --from continues",
    "train --data data --layers 3 --preset mnist-small --out new": "--preset and --layers exclude each other",
    "train --data data --compile-cache nowhere/file --out new": "nowhere/file: there is no directory nowhere",
    "train --data data --layers 3 --resume --out new": "--layers is for a new run; --resume continues",
    "train --data data --width 100 --updates 1 --out new": "--width must be a multiple of 32, the width of a head, not",
    "train --data data --fetch --out new": "--fetch needs --preset",
    "train --out new --data data --predicts logistics --resume": "for a new run",
    "train --from digits --neighbours --data data --out new": "--neighbours is for a new network",
    "train --out new --data data --neighbours --resume": "--neighbours is for a new",
    "train --resume --out new": "there is nothing to resume: new/training.pt is missing",
    "serve --model white": "there is no model 'white'",
    "serve --model grey --model grey": "--model: one is given twice among grey, grey",
    "serve --model grey --model other/grey": "have the same name, by which requests",
    "serve --model grey --served-model-name dall-e-3=white": "dall-e-3=white: white is not among the models grey",
    "serve --model grey --model mnist-small --served-model-name a --served-model-name a=mnist-small": (
        "--served-model-name: two models have the name a, by which"
    ),
    "serve --model grey --model=": "--model: a model must be a name or a directory, not ''",
    "serve --model it's$(id)<img>`id`": "is no name for a model; rename the directory, or give --served-model-name",
    "serve --model grey --served-model-name $(id)": "without spaces, commas and what a shell or HTML reads",
    "serve --model grey --port 70000": "--port",
    "serve --model grey --slots 0": "--slots",
}
USAGE = {  # a command that the parser refuses: part of the message
    "paint": "paint",
    "sample --temprature 1": "--temprature",
    "sample -n 0": "-n",
    "sample --seed -2": "--seed",
    "complete": "picture",
    "classify": "pictures",
    "evaluate grey": "--data",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, grey_directory: Path) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    for name in ("empty", "broken", "data", "pictures"):
        (folder / name).mkdir()
    (folder / "grey").symlink_to(grey_directory)
    save_model(small_models.model(GREY), folder / "it's$(id)<img>`id`")
    save_model(small_models.model(GREY), folder / "other" / "grey")
    save_model(
        small_models.model(small_models.config(height=28, width=28, layers=1)), folder / "digits"
    )
    for name in ("shapes", "pointer"):
        shapes.save(folder / name)
    (folder / "pointer" / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\nsize 1\n"
    )
    blobs.write(folder / "data")
    name = "t10k-images-idx3-ubyte.gz"
    (folder / "broken" / name).write_bytes((folder / "data" / name).read_bytes()[:1000])
    (folder / "file").write_bytes(b"no picture")
    mask = np.tile(np.uint8([0, 255, 0, 0, 0]), (7, 1))
    pictures = {
        "grey": noise(7, 5),
        "small": noise(3, 3),
        "pictures/a": noise(7, 5),
        "pictures/b": noise(3, 3),
    }
    for name, picture in {**pictures, "mask": mask}.items():
        (folder / f"{name}.png").write_bytes(encode(picture))
    return folder


@pytest.mark.parametrize("command", CASES)
def test_a_wrong_command_leaves_nothing(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    paints = (
        command.split()[0] in ("sample", "complete", "score", "classify", "compress")
        and "--model" not in command
    )
    before = sorted(folder.rglob("*"))
    assert CASES[command] in refused(*command.split(), *(("--model", "grey") if paints else ()))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", USAGE)
def test_the_parser_names_what_it_refuses(command: str) -> None:
    ran = scanline(*command.split())
    assert (ran.status, ran.out) == (2, "")
    assert USAGE[command] in ran.err.partition("Error")[2]
    assert "Traceback" not in ran.err


def test_the_console_script_prints_the_same() -> None:
    ran = in_a_process("sample", "--model", "white")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("scanline: there is no model 'white'")


def test_the_module_prints_the_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scanline", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("scanline", run_name="__main__")  # as `python -m scanline`
    assert capsys.readouterr().out.strip() == scanline_package.__version__ == extras.version()


def test_no_help_has_brackets_which_would_be_taken_for_markup_and_not_be_shown() -> None:
    commands = cast(click.Group, typer.main.get_command(app)).commands
    helps = {
        f"{name} {each.name}": getattr(each, "help", None)
        for name in commands
        for each in commands[name].params
    }
    assert len(helps) > 50
    assert [name for name, text in helps.items() if "[" in (text or "")] == []


def test_a_terminal_obeys_nothing_in_a_message(tmp_path: Path) -> None:
    name = "\x1b]0;a\x07\nscanline: forged"
    assert "?]0;a??scanline: forged" in refused("score", tmp_path / name)
