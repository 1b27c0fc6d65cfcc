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
from scanline.model import extras
from scanline.model.formats.checkpoint import save_model
from scanline.server.cli.app import app
from tests.support import blobs, shapes, small_models
from tests.support.commands import in_a_process, refused, scanline
from tests.support.pictures import encode, noise
from tests.support.tiny import GREY

TRAIN = "train --preset mnist-small --data data --out new"
CASES = {  # label: a command, run in a folder with everything else that it names; part of the message
    "unknown model": ("sample --model white", "there is no model 'white'"),
    "unknown backend": (
        "sample --backend gpu",
        "the backend must be one of auto, cuda, cuda-unchained, cuda-narrow,",
    ),
    "a backend of a GPU, without one": ("sample --backend cuda", "the backend cuda needs a GPU, and there is no CUDA"),
    "a backend of the GPU on the CPU": (
        "evaluate digits --data data --backend cuda --device cpu",
        "--device cuda, not",
    ),
    "a name that says nothing": (
        "sample --out digits.jpg",
        "write a .png or .webp sheet, a .gif film, a .npy array or a folder",
    ),
    "a file for a folder": ("sample --out file", "file is no folder; give a folder, or a name that ends in .png"),
    "weights that Git LFS has": ("sample --model pointer", "model.safetensors is a pointer of Git LFS"),
    "nowhere to write": ("sample --out nowhere/digits.png", "there is no directory nowhere"),
    "no picture": ("complete none.png --keep-rows 3", "none.png: No such file or directory"),
    "a broken picture": ("complete file --keep-rows 3", "file is not a readable PNG, WebP, JPEG or BMP picture."),
    "two that decide": ("complete grey.png --keep-rows 3 --mask mask.png", "--keep-rows and --mask exclude each other"),
    "nothing that decides": ("complete grey.png", "give --keep-rows or --mask"),
    "one bad picture of two": ("score grey.png small.png", "small.png is 3x3"),
    "every class without classes": ("sample --each-class", "This model knows no classes; leave --each-class out."),
    "classifying without classes": ("classify grey.png", "This model knows no classes and cannot classify."),
    "a class and classes": ("compress pictures --class star --classes", "--class and --classes exclude each other"),
    "a part of MNIST that is none": ("compress pictures --split all", "--split must be test or train, not 'all'"),
    "one class and every class": (
        "sample --model shapes --class star --each-class",
        "--class and --each-class exclude each other",
    ),
    "every class on a cluster": (
        "sample --model shapes --each-class --cluster auto --out new",
        "--each-class paints on this machine; with --cluster, give --class once for each class",
    ),
    "particles of whole pictures": ("score grey.png --particles 4", "--particles is for estimates; give --keep-rows"),
    "a broken data file": ("evaluate digits --data broken", "t10k-images-idx3-ubyte.gz is truncated"),
    "a model of no data set": ("evaluate grey --data data", "no data set has images of 7 x 5 x 1"),
    "no pictures of one's own": ("evaluate digits --data empty", "empty holds no files"),
    "unknown preset": ("train --preset imagenet --data data --out new", "there is no preset 'imagenet'"),
    "training without data": ("train --preset mnist-small --data empty --out new", "empty holds no files"),
    "training on nothing": ("train --out new", "give --data: a folder of pictures"),
    "pictures of mixed sizes": ("train --data pictures --out new", "a.png is 5x7 and b.png is 3x3; give --size"),
    "no size": ("train --data pictures --size big --out new", "--size must be a number like 32"),
    "a model inside its data": ("train --data pictures --size 4 --out pictures/new", "pictures/new is inside pictures"),
    "a model that is there": ("train --data data --out digits", "digits already holds a model; name another directory"),
    "two sources of a model": (f"{TRAIN} --from grey", "--preset and --from exclude each other"),
    "pictures of another size than the preset's": (
        "train --preset mnist-small --data pictures --size 8 --out new",
        "the preset mnist-small paints 28x28 grey and the pictures are 8x8 grey",
    ),
    "layers of no model": ("train --data data --layers 9 --out new", "--layers needs --from, the model that it adds"),
    "downloading nothing": ("train --data data --fetch --out new", "--fetch needs --preset"),
    "resuming another network": (f"{TRAIN[:5]} --out new --data data --predicts logistics --resume", "for a new run"),
    "neighbours of trained weights": (
        "train --from digits --neighbours --data data --out new",
        "--neighbours is for a new network",
    ),
    "resuming with neighbours": (
        f"{TRAIN[:5]} --out new --data data --neighbours --resume",
        "--neighbours is for a new",
    ),
    "nothing to resume, and no data": (
        "train --resume --out new",
        "there is nothing to resume: new/training.pt is missing",
    ),
    "serving no model": ("serve --model white", "there is no model 'white'"),
    "serving a model twice": ("serve --model grey --model grey", "--model: one is given twice among grey, grey"),
    "serving two of one name": ("serve --model grey --model other/grey", "have the same name, by which requests"),
    "serving a name of no model": (
        "serve --model grey --served-model-name dall-e-3=white",
        "--served-model-name dall-e-3=white: white is not among the models grey",
    ),
    "serving two by one name": (
        "serve --model grey --model mnist-small --served-model-name a --served-model-name a=mnist-small",
        "--served-model-name: two models have the name a, by which",
    ),
    "serving nothing": ("serve --model grey --model=", "--model: a model's name must not be empty"),
    "serving on no port": ("serve --model grey --port 70000", "--port"),
    "serving in no slots": ("serve --model grey --slots 0", "--slots"),
}

USAGE = {  # label: a command that the parser refuses, part of the message
    "unknown command": ("paint", "paint"),
    "unknown option": ("sample --temprature 1", "--temprature"),
    "no images": ("sample -n 0", "-n"),
    "a negative seed": ("sample --seed -2", "--seed"),
    "no picture": ("complete", "picture"),
    "nothing to classify": ("classify", "pictures"),
    "no data": ("evaluate grey", "--data"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, grey_directory: Path) -> Path:
    """Models, data and pictures, right and wrong."""
    folder = tmp_path_factory.mktemp("folder")
    for name in ("empty", "broken", "data", "pictures"):
        (folder / name).mkdir()
    (folder / "grey").symlink_to(grey_directory)
    save_model(small_models.model(GREY), folder / "other" / "grey")
    shapes.save(folder / "shapes")
    save_model(small_models.model(small_models.config(height=28, width=28, layers=1)), folder / "digits")
    shapes.save(folder / "pointer")
    (folder / "pointer" / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\nsize 1\n")
    blobs.write(folder / "data")
    name = "t10k-images-idx3-ubyte.gz"
    (folder / "broken" / name).write_bytes((folder / "data" / name).read_bytes()[:1000])
    (folder / "file").write_bytes(b"no picture")
    (folder / "grey.png").write_bytes(encode(noise(7, 5)))
    (folder / "small.png").write_bytes(encode(noise(3, 3)))
    (folder / "pictures" / "a.png").write_bytes(encode(noise(7, 5)))
    (folder / "pictures" / "b.png").write_bytes(encode(noise(3, 3)))
    (folder / "mask.png").write_bytes(encode(np.tile(np.uint8([0, 255, 0, 0, 0]), (7, 1))))
    return folder


@pytest.mark.parametrize("label", CASES)
def test_a_wrong_command_is_refused_in_one_sentence(folder: Path, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, said = CASES[label]
    monkeypatch.chdir(folder)
    paints = command.split()[0] in ("sample", "complete", "score", "classify", "compress") and "--model" not in command
    assert said in refused(*command.split(), *(("--model", "grey") if paints else ()))


@pytest.mark.parametrize("label", USAGE)
def test_the_parser_names_what_it_refuses(label: str) -> None:
    command, named = USAGE[label]
    ran = scanline(*command.split())
    assert (ran.status, ran.out) == (2, "")
    assert named in ran.err.partition("Error")[2]
    assert "Traceback" not in ran.err


def test_a_refused_command_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    scanline("sample", "--model", "grey", "--out", "digits.jpg")
    scanline("train", "--preset", "mnist-small", "--data", "empty", "--out", "new")
    assert sorted(folder.rglob("*")) == before


def test_the_console_script_prints_the_same() -> None:
    ran = in_a_process("sample", "--model", "white")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("scanline: there is no model 'white'")


def test_the_version_is_printed_by_the_module_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scanline", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("scanline", run_name="__main__")  # as `python -m scanline`
    assert capsys.readouterr().out.strip() == scanline_package.__version__ == extras.version()


def test_no_help_has_brackets_which_would_be_taken_for_markup_and_not_be_shown() -> None:
    commands = cast(click.Group, typer.main.get_command(app)).commands
    helps = {
        f"{name} {part.name}": getattr(part, "help", None) or "" for name in commands for part in commands[name].params
    }
    assert len(helps) > 50
    assert [name for name, text in helps.items() if "[" in text] == []
