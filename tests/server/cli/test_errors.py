"""Errors of the command line: one sentence, exit status 2, never a traceback."""

import runpy
import shlex
import shutil
import sys

import numpy as np
import pytest
import typer

import scanline as scanline_package
from scanline.model.base import extras
from scanline.model.datasets import WORDS
from scanline.model.formats.checkpoint import save_model
from scanline.server.cli.app import app
from tests.support import blobs, shapes, small_models
from tests.support.commands import in_a_process, refused, scanline, sentence_of
from tests.support.pictures import encode, noise
from tests.support.refusals import EVERYWHERE, HOLE, IMAGE
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
    "compress pictures --class star --classes": "--class and --classes exclude each other",
    "compress pictures --split all": "--split must be test or train, not 'all'",
    "sample --model shapes --class star --each-class": "--class and --each-class exclude each other",
    "sample --model shapes --each-class --cluster auto --out new": "--each-class paints on this machine;",
    "score grey.png --particles 4": "--particles is for estimates; give --keep-rows",
    "evaluate digits --data broken": "t10k-images-idx3-ubyte.gz is truncated",
    "evaluate digits --data data --precision int4": "unknown precision 'int4'",
    "evaluate digits --data data --samples 49": "--samples must be 0 or at least 50, not 49",
    "evaluate digits --data data --samples 50": "16 test images are too few to compare with; use at least 100",
    "evaluate digits --data data --samples 50 --guidance 2": "This model cannot be guided: it knows no classes",
    "evaluate ten --data data --samples 0 --guidance 4": "are about samples of each class; give --class-samples",
    "evaluate horses --data data --samples 50 --guidance 3": "the classes of mnist, which the model does not know",
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
    'serve --model "it\'s$(id)<img>`id`"': "is no name for a model; rename the directory, or give --served-model-name",
    "serve --model grey --served-model-name $(id)": "without spaces, commas and what a shell or HTML reads",
    "serve --model grey --port 70000": "--port",
    "serve --model grey --slots 0": "--slots",
    "complete grey.png --keep-rows 3 --out grey.png": "is also an input, which would be lost",
    "complete grey.png --mask mask.png --out mask.png": "is also an input, which would be lost",
    "complete pictures --keep-rows 3 --out pictures/b.png": "is also an input, which would be lost",
    "complete pictures --keep-rows 3 --out pictures": "an input, with which the output would be mixed",
    "complete up/grey.png --keep-rows 3 --out up": "an input, with which the output would be mixed",
    "compress grey.png -o grey.png": "is also an input, which would be lost",
    "compress mask.png grey.png -o link": "is also an input, which would be lost",
    "compress grey.png -o hard": "is also an input, which would be lost",
    "compress link -o ../folder/grey.png": "is also an input, which would be lost",
    "compress array.npy -o up/array.npy": "is also an input, which would be lost",
    "decompress array.npy -o array.npy": "is also an input, which would be lost",
    "train --data array.npy --compile-cache array.npy --out new": "is also an input",
    "export grey grey/model.safetensors": "is also an input",
    "import file grey": "already holds a model",
    "import file new.safetensors": "is the name of a file",
    "train --data data --out weights.pth": "is the name of a file",
    "compress grey.png -o pictures": "is a folder; give the name of a file",
    "export grey pictures": "is a folder; give the name of a file",
    "compress grey.png -o new.png": "has a name of a picture or an array, and the output is none",
    "export grey new.PNG": "has a name of a picture or an array, and the output is none",
    "export mnist-small new.pth": "the authors' code has no step of 'pixel', only 'byte'",
    "import file new": "is not a torch checkpoint of plain tensors",
    "import nothing.pth new": "is missing",
    "sample --cluster 127.0.0.1:1 --out new --invert": "--invert is for images that this machine paints",
    "sample --cluster 127.0.0.1:1 --out sheet.png": "--out sheet.png: --cluster writes into a folder",
    "sample --cluster 127.0.0.1:1 --out new --device cpu": "--device, --precision and --backend are settings",
    "bench --random imagenet": "--random: unknown preset 'imagenet'; known: ",
    "bench --random mnist --model mnist-small": "--model and --random exclude each other",
    "bench --batches 1,0": "--batches: a batch has at least one image, not 0",
    "bench --batches many": "--batches: give whole numbers separated by commas, not 'many'",
    "bench --seconds 0": "--seconds: must be finite and greater than 0, not 0.0",
    "bench --skip bulk,lunch": "--skip: unknown part 'lunch'; known: latency, bulk,",
    "serve --log-format loud": "--log-format: ",
    "serve --log-level loud": "--log-level: ",
    "serve --otlp-endpoint collector:4318": "--otlp-endpoint: ",
    "serve --frame-ancestor wiki.example": "--frame-ancestor: an origin must be * or like",
    "serve --frame-ancestor https://wiki.example/page": "--frame-ancestor: an origin must be * or like",
    "serve --frame-ancestor \"'self'; script-src *\"": "--frame-ancestor: an origin must be * or like",
    "serve --trusted-proxy ''": "--trusted-proxy: a proxy must be an address",
    "serve --trusted-proxy proxy.example": "--trusted-proxy: a proxy must be an address",
    "serve --trusted-proxy 10.0.0.0/40": "--trusted-proxy: a proxy must be an address",
    "serve --trusted-proxy 10.0.0.1:80": "--trusted-proxy: a proxy must be an address",
    "serve --allow-host ''": "--allow-host: a host must be * or a name",
    "serve --allow-host https://a.example": "--allow-host: a host must be * or a name",
    "serve --allow-host a.example:80": "--allow-host: a host must be * or a name",
    "serve --allow-host a.example/": "--allow-host: a host must be * or a name",
    "serve --allow-host 'a b'": "--allow-host: a host must be * or a name",
    "serve --allow-host a.example,b.example,": "--allow-host: a host must be * or a name",
    "serve --allow-host ä.example": "--allow-host: a host must be * or a name",
    "serve --allow-origin ''": "--allow-origin: an origin must be",
    "serve --allow-origin page.example": "--allow-origin: an origin must be",
    "serve --allow-origin https://": "--allow-origin: an origin must be",
    "serve --allow-origin https://page.example/": "--allow-origin: an origin must be",
    "serve --allow-origin https://Page.example": "--allow-origin: an origin must be",
    "serve --allow-origin 'https://page.example, *'": "--allow-origin: an origin must be",
    "serve --allow-origin null": "--allow-origin: an origin must be",
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
def folder(tmp_path_factory, grey_directory):
    folder = tmp_path_factory.mktemp("models") / "folder"
    for name in ("empty", "broken", "data", "pictures"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(grey_directory, folder / "grey")
    save_model(small_models.model(GREY), folder / "it's$(id)<img>`id`")
    save_model(small_models.model(GREY), folder / "other" / "grey")
    save_model(
        small_models.model(small_models.config(height=28, width=28, layers=1)), folder / "digits"
    )
    for name, classes in (("ten", WORDS["mnist"]), ("horses", (("horse",), ("dog",)))):
        config = small_models.config(
            height=28, width=28, layers=1, predicts="categorical", classes=classes
        )
        save_model(small_models.model(config), folder / name)
    for name in ("shapes", "pointer"):
        shapes.save(folder / name, shapes.GUIDED, class_head=True)
    (folder / "pointer" / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\nsize 1\n"
    )
    blobs.write(folder / "data")
    name = "t10k-images-idx3-ubyte.gz"
    (folder / "broken" / name).write_bytes((folder / "data" / name).read_bytes()[:1000])
    (folder / "file").write_bytes(b"no picture")
    pictures = {
        "grey": IMAGE,
        "mask": HOLE,
        "small": noise(3, 3),
        "pictures/a": noise(7, 5),
        "pictures/b": noise(3, 3),
    }
    for name, picture in pictures.items():
        (folder / f"{name}.png").write_bytes(encode(picture))
    np.save(folder / "array.npy", noise(2, 7, 5))
    (folder / "link").symlink_to("grey.png")
    (folder / "hard").hardlink_to(folder / "grey.png")
    (folder / "up").symlink_to(folder)
    return folder


@pytest.fixture
def unchanged(folder, monkeypatch):
    """The working directory, in which nothing is written."""
    monkeypatch.chdir(folder)

    def contents():
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = contents()
    yield
    assert contents() == before


OF_MODELS = ("sample", "complete", "score", "classify", "compress")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("command", CASES)
def test_a_wrong_command_leaves_nothing(command):
    name, *options = shlex.split(command)
    if name in OF_MODELS and "--model" not in options:
        options += ["--model", "grey"]
    assert CASES[command] in refused(name, *options)


COMMANDS = {
    "generate": "sample --out new.npy",
    "complete": "complete grey.png --out new.npy",
    "score": "score grey.png",
    "estimate": "score grey.png",
    "classify": "classify grey.png",
    "compress": "compress grey.png -o new.scan",
}


def has_list(row):
    return any(isinstance(value, list) for value in row.asked.values())


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("row", [row for row in EVERYWHERE if not has_list(row)], ids=str)
def test_what_is_refused_everywhere_has_the_same_sentence_here(row):
    options = {"model": "shapes", **row.asked}
    if "mask" in options:
        options["mask"] = "mask.png"
    words = []
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), value]
    assert refused(*COMMANDS[row.task].split(), *words) == row.sentence


@pytest.mark.parametrize("command", USAGE)
def test_the_parser_names_what_it_refuses(command):
    ran = scanline(*command.split())
    assert (ran.status, ran.out) == (2, "")
    assert USAGE[command] in ran.err.partition("Error")[2]
    assert "Traceback" not in ran.err


def test_the_console_script_prints_the_same():
    said = sentence_of(in_a_process("sample", "--model", "white"))
    assert said.startswith("there is no model 'white'")


def test_the_module_prints_the_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scanline", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("scanline", run_name="__main__")  # as `python -m scanline`
    assert capsys.readouterr().out.strip() == scanline_package.__version__ == extras.version()


def test_no_help_has_brackets_which_would_be_taken_for_markup_and_not_be_shown():
    commands = typer.main.get_command(app).commands
    helps = {
        f"{name} {each.name}": getattr(each, "help", None)
        for name in commands
        for each in commands[name].params
    }
    assert len(helps) > 50
    assert [name for name, text in helps.items() if "[" in (text or "")] == []


def test_a_terminal_obeys_nothing_in_a_message(tmp_path):
    name = "\x1b]0;a\x07\nscanline: forged"
    assert "?]0;a??scanline: forged" in refused("score", tmp_path / name)
