"""scanline train on anyone's pictures: a folder or an array becomes a model
directory, and its subfolders classes.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import scanline as package
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_card import metadata
from scanline.model.formats.model_dir import (
    CLASS_HEAD,
    read_evaluation,
    read_info,
    write_evaluation,
)
from tests.support.commands import done, refused, scanline
from tests.support.pictures import encode
from tests.support.saved_models import assert_same_weights, files
from tests.support.server.running_server import SCANLINE

FILES = ["README.md", "config.json", "evaluation.json", "loss.csv", "loss.png", "model.safetensors"]
FILES += ["run.json", "samples.png", "training.pt"]


def bars(count, channels=1):
    """Pictures [count, 8, 8] or [count, 8, 8, 3] uint8 of a bright bar somewhere."""
    random = np.random.default_rng(0)
    images = np.zeros((count, 8, 8, channels), np.uint8)
    places = random.integers(0, 7, count)
    values = random.integers(99, 256, (count, 3))
    for image, at, value in zip(images, places, values, strict=True):
        image[:, at : at + 2] = value[:channels]
    return images[..., 0] if channels == 1 else images


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """200 pictures of several formats in two folders, some twice, and two files that are none."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "more").mkdir()
    for i, image in enumerate(bars(200)):
        kind = ("PNG", "BMP", "WEBP")[i % 3]
        (folder / ("more" if i % 2 else "") / f"{i:03d}").write_bytes(
            encode(image, kind, lossless=True)
        )
    (folder / "broken.png").write_bytes(encode(bars(1)[0])[:50])
    (folder / "notes.txt").write_text("not a picture")
    return folder


def weights(out):
    return torch.load(out / "training.pt", weights_only=True)["model"]


def train(pictures, out, *options):
    return done("train", "--data", pictures, "--out", out, "--no-compile", *options)


@pytest.fixture(scope="module")
def trained(pictures, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "bars"
    return out, train(pictures, out, "--updates", 20, "--batch", 8)


def test_a_folder_becomes_a_complete_model_directory(trained, pictures):
    out, said = trained
    assert files(out) == FILES
    assert package.load(out).sample(2, seed=1).array.shape == (2, 8, 8)
    assert Image.open(out / "samples.png").size == (64, 64)
    found = read_evaluation(out)
    assert 0 < found["bits_per_dim"] < 8
    assert found["dataset"].startswith("pictures")
    lines = said.splitlines()
    parts = r"(\d+) pictures of 8x8 grey to train on, (\d+) to test on; (\d+) duplicates left out"
    counts = re.fullmatch(rf"{pictures}: {parts}", lines[0])
    assert sum(map(int, counts.groups())) == 200
    assert lines[1].startswith("2 left out: broken.png: it is a broken picture: ")
    assert lines[1].endswith("; notes.txt: it is not a picture")
    network = r"network: 2 layers of width 32, [\d,]+ weights, predicts categorical; 20 updates, .+"
    assert re.fullmatch(network, lines[2])
    assert re.fullmatch(
        r"update 20: \d\.\d+ bits/dim, test \d\.\d+, [\d.e+]+ images/s, 0 s left", lines[-5]
    )
    assert re.fullmatch(
        rf"{out}: \d\.\d+ \+- \d\.\d+ bits/dim on \d+ test images, after 20 updates in .+",
        lines[-4],
    )
    assert lines[-3:] == [
        f"paint with it: scanline sample --model {out} -n 64 --out sheet.png",
        f"serve it:      scanline serve --model {out}",
        "20 updates are too few to learn what the pictures show; give more --minutes",
    ]
    ran = scanline("evaluate", out, "--data", pictures, "--json")
    assert (ran.status, ran.err.strip()) == (0, lines[1])
    measured = json.loads(ran.out)
    assert [each["file"] for each in measured.pop("left_out")] == ["broken.png", "notes.txt"]
    assert (measured["dataset"], measured["bits_per_dim"]) == (pictures.name, found["bits_per_dim"])
    card = (out / "README.md").read_text()
    for stated in (
        metadata(out.name, found, published=False),
        f"# {out.name}",
        f"**{found['bits_per_dim']:.3f} +- ",
        f"`{pictures.name}`: ",
        "duplicates left out, 2 files refused",
        "20 updates of 8 images",
        "minutes on ",
        "![64 samples, seed 0, temperature 1](samples.png)",
        f"scanline serve --model {out.name}",
    ):
        assert stated in card
    for absent in ("None", "mirrored", "| positions |", str(out.parent), str(pictures.parent)):
        assert absent not in card


@pytest.mark.slow
def test_interrupted_and_resumed(pictures, tmp_path, monkeypatch):
    """SIGINT and then SIGTERM reach a real process, each after the first row that it reports."""
    # as this process: the sums of other numbers of threads differ
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    out = tmp_path / "split"
    whole = tmp_path / "whole"
    command = [SCANLINE, "train", "--out", out, "--no-compile", "--json"]
    arguments = [*command, "--data", pictures, "--updates", "60", "--batch", "8"]
    resumed = [*command, "--resume"]
    stops = 0
    for command, number in ((arguments, signal.SIGINT), (resumed, signal.SIGTERM)):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            process.stdout.readline()
            process.send_signal(number)
            rest = process.stdout.read()
            said = process.stderr.read()
        if process.returncode == 0:
            continue  # it was at its last updates
        stops += 1
        assert process.returncode == 128 + number
        update = json.loads(rest.splitlines()[-1])["update"]
        expected = (
            f"interrupted after update {update}; continue with: scanline train --resume --out {out}"
        )
        assert said.splitlines()[-1] == expected
        assert "Traceback" not in said
        assert load_model(out).config.size == "8x8"
    assert stops
    done("train", "--no-compile", "--resume", "--out", out)
    train(pictures, whole, "--updates", 60, "--batch", 8)
    assert_same_weights(weights(out), weights(whole))
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert files(out) == FILES


def test_a_resumed_run_wants_the_same_pictures(pictures, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for i, image in enumerate(bars(20)):
        (folder / f"{i}.png").write_bytes(encode(image))
    train(folder, tmp_path / "out", "--updates", 2, "--size", 6)
    assert load_model(tmp_path / "out").config.size == "6x6"
    (folder / "new.png").write_bytes(encode(bars(1)[0] // 2 + 3))
    said = refused("train", "--resume", "--out", tmp_path / "out", "--updates", 3)
    assert said.startswith(f"the pictures in {folder} have changed since the run began: ")
    (folder / "new.png").unlink()
    os.rename(folder, tmp_path / "moved")
    assert refused("train", "--resume", "--out", tmp_path / "out") == f"{folder} does not exist"
    done(
        "train",
        "--no-compile",
        "--resume",
        "--out",
        tmp_path / "out",
        "--data",
        tmp_path / "moved",
        "--updates",
        3,
    )
    assert torch.load(tmp_path / "out" / "training.pt", weights_only=True)["update"] == 3


def test_layers_are_added_to_a_model(trained, pictures, tmp_path):
    start = load_model(trained[0])
    out = tmp_path / "deeper"
    layers = start.config.layers + 1
    train(
        pictures,
        out,
        "--from",
        trained[0],
        "--layers",
        layers,
        "--updates",
        1,
        "--learning-rate",
        1e-9,
    )
    after = load_model(out)
    assert after.config == replace(start.config, layers=layers)
    for name, tensor in start.state_dict().items():
        assert (tensor - after.state_dict()[name]).abs().max() < 1e-3, name
    card = (out / "README.md").read_text()
    assert (
        f"| first weights | those of `{trained[0].name}`, with layers added up to {layers} |"
        in card
    )
    done("train", "--no-compile", "--resume", "--out", out, "--updates", 2)


def test_colour_pictures_are_mirrored_when_asked(tmp_path):
    np.save(tmp_path / "bars.npy", bars(60, channels=3))
    said = train(tmp_path / "bars.npy", tmp_path / "out", "--updates", 1, "--mirror")
    assert "pictures of 8x8 RGB to train on" in said
    config = load_model(tmp_path / "out").config
    assert (config.predicts, config.causal_conv, config.mirrored) == ("pixel_logistics", True, True)
    assert torch.load(tmp_path / "out" / "training.pt", weights_only=True)["config"]["flip"]
    assert " passes, mirrored)" in (tmp_path / "out" / "README.md").read_text()


def test_the_background_of_drawings_is_sampled_except_where_neighbours_are_mixed(tmp_path):
    dots = np.zeros((60, 16, 16), np.uint8)
    for image, (row, column) in zip(
        dots, np.random.default_rng(0).integers(0, 14, (60, 2)), strict=True
    ):
        image[row : row + 2, column : column + 2] = 255
    np.save(tmp_path / "dots.npy", dots)
    train(tmp_path / "dots.npy", tmp_path / "out", "--updates", 1)
    sentence = (
        "| positions | 64 of 256 per image and update; the background is sampled and reweighted |"
    )
    assert sentence in (tmp_path / "out" / "README.md").read_text()
    mixing = tmp_path / "mixing"
    train(tmp_path / "dots.npy", mixing, "--updates", 1, "--neighbours")
    done("train", "--no-compile", "--resume", "--out", mixing, "--updates", 2)
    assert load_model(mixing).config.causal_conv
    card = (mixing / "README.md").read_text()
    assert "painted neighbours mixed in every block and layer" in card
    assert "| positions |" not in card


OPTIONS = (
    "--classes",
    "--unlabelled",
    0.25,
    "--batch",
    4,
    "--schedule",
    "constant",
    "--no-compile",
)
LINES = 'Lines in "noise"'  # the name that their folder gives them


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """60 pictures of a bright column or of a bright row, in a folder each."""
    folder = tmp_path_factory.mktemp("lines")
    random = np.random.default_rng(0)
    for i in range(60):
        image = random.integers(0, 40, (12, 12), np.uint8)
        (image if i % 2 else image.T)[random.integers(12)] = random.integers(200, 256)
        path = folder / ("Row" if i % 2 else "tall_column") / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(image))
    (folder / "README.md").write_text(
        f"---\n# metadata\n---\n\n# {LINES}\n\nDrawn here.\n\n## More\n"
    )
    return folder


@pytest.fixture(scope="module")
def classified(lines, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "lines"
    return out, done("train", "--data", lines, "--out", out, *OPTIONS, "--updates", 6)


def test_the_model_knows_the_subfolders_and_its_card_states_them(classified):
    out, said = classified
    assert load_model(out).config.classes == (("row",), ("tall_column", "tall column"))
    assert "2 classes: row, tall_column" in said.splitlines()
    card = (out / "README.md").read_text()
    found = read_evaluation(out)
    true = found["classes"]["true_class"]
    head = found["classes"]["by_head"]
    assert head["images"] == found["images"]
    assert f"| classification by the class head | {head['accuracy']:.1%} +- " in card
    assert read_info(out).has_class_head
    assert true["images"] == found["images"]
    for stated in (
        f"| test bits/dim with the true class | {true['bits_per_dim']:.3f} +- ",
        "| classes | 2: `row`, `tall_column`; 25% of the labels dropped in training |",
        "![Samples of each class](classes.png)",
        f"an image; class head float32, {(out / CLASS_HEAD).stat().st_size / 1e3:,.0f} kB |",
        f"| data | {LINES}: 60 pictures, 12 x 12 grey; split by the SHA-256 of their bytes into ",
        "; 0 duplicates left out, 0 files refused |",
        f"      name: {json.dumps(LINES)}\n",
        "\n![Loss](loss.png)\n\n## Data\n\nDrawn here.\n",
    ):
        assert stated in card
    with Image.open(out / "classes.png") as sheet:
        assert sheet.height == 2 * 12
    assert (weights(out)["classes"].norm(dim=1) > 0).all()


def test_two_parts_end_in_the_weights_of_a_whole_run(classified, lines, tmp_path):
    done("train", "--data", lines, "--out", tmp_path, *OPTIONS, "--updates", 3)
    # figures of the weights so far
    write_evaluation(tmp_path, read_evaluation(tmp_path) | {"quality": {}})
    done("train", "--resume", "--out", tmp_path, "--no-compile", "--updates", 6)
    assert_same_weights(weights(tmp_path), weights(classified[0]))
    assert read_evaluation(tmp_path) == read_evaluation(classified[0])


def test_classes_only_moves_no_other_weight(classified, lines, tmp_path):
    options = ("--data", lines, "--classes", "--classes-only", "--updates", 2, "--batch", 4)
    done("train", *options, "--no-compile", "--from", classified[0], "--out", tmp_path / "new")
    before = load_model(classified[0]).state_dict()
    for name, after in load_model(tmp_path / "new").state_dict().items():
        is_of_classes = name == "classes" or name.endswith(".class_bias")
        assert torch.equal(after, before[name]) != is_of_classes, name
        if is_of_classes:
            assert torch.equal(after[0], before[name][0]), (
                "images without a class stay as they were"
            )
    needs = "--classes-only needs --classes, and trained weights (--from)"
    for wrong in (
        ("--data", lines, "--classes-only", "--from", classified[0]),
        (*options, "--from", "none"),
    ):
        assert refused("train", *wrong, "--out", tmp_path / "other") == needs


def test_the_first_images_of_sorted_files_are_of_all_classes(classified, lines, tmp_path):
    for number, path in enumerate(sorted(lines.glob("*/*.png"))):
        part = "test" if number % 3 else "train"
        (tmp_path / part / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / part / path.parent.name)
    said = done("evaluate", classified[0], "--data", tmp_path, "--images", 20, "--json")
    of_classes = json.loads(said)["classes"]["by_class"]
    assert sum(row["images"] for row in of_classes) == 20
    assert min(row["images"] for row in of_classes) > 0


def test_options_that_do_not_fit_are_refused(classified, lines, tmp_path):
    new = ("train", "--data", lines, "--out", tmp_path / "new")
    for options, said in (
        (("--unlabelled", 0.3), "--unlabelled needs --classes, whose labels it leaves out"),
        (
            ("--classes", "--unlabelled", 1, "--updates", 1),
            "unlabelled must be above 0 and below 1, not 1.0",
        ),
    ):
        assert refused(*new, *options) == said
    flat = ("train", "--data", lines / "Row", "--out", tmp_path / "new", "--classes")
    assert refused(*flat).endswith("so it has no class: the subfolders are the classes")
    done(*new, "--updates", 1, "--no-compile")
    assert refused("train", "--resume", "--out", tmp_path / "new", "--classes") == (
        f"the run in {tmp_path / 'new'} learns no classes, and --resume continues it as it is; leave out --classes"
    )
    moved = lines / "Row" / "1.png"
    moved.rename(lines / "tall_column" / "1.png")
    said = refused("train", "--resume", "--out", classified[0], "--updates", 9)
    (lines / "tall_column" / "1.png").rename(moved)
    assert said.startswith(
        f"the pictures in {lines} or their classes have changed since the run began: "
    )


def test_a_class_head_is_fitted_to_a_model_that_is_there(classified, lines, tmp_path):
    out = tmp_path / "lines"
    shutil.copytree(classified[0], out)
    before = load_file(out / CLASS_HEAD)
    (out / CLASS_HEAD).unlink()
    said = done("train", "--class-head", "--out", out, "--data", lines)
    assert re.match(
        rf"{out}: the class head reads \d+\.\d% of the training images that it had not seen\n", said
    )
    after = load_file(out / CLASS_HEAD)  # of so few lines the run has seen all as well
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    (out / "generation_config.json").write_text(
        '{"class": "any", "guidance": 3, "temperature": 0.5}'
    )
    other = shutil.copytree(lines, tmp_path / "other")
    (other / "README.md").unlink()
    done("evaluate", out, "--data", other, "--save", "--class-samples", 4)
    assert '      name: "other"\n' in (out / "README.md").read_text()
    said = done("evaluate", out, "--data", lines, "--save", "--class-samples", 3, "--guidance", 2)
    found = read_evaluation(out)
    assert found["classes"]["by_head"] == read_evaluation(classified[0])["classes"]["by_head"]
    keys = ("guidance", "temperature", "default")
    judged = [tuple(row[key] for key in keys) for row in found["guidance"]["rows"]]
    assert judged == [(1, 1, False), (2, 1, False), (3, 0.5, True)]
    guided = found["guidance"]["rows"][1]
    assert (
        f"3 samples of each class, guidance 2, temperature 1: a small classifier takes {guided['as_asked']:.1%}"
        in said
    )
    card, before = ((each / "README.md").read_text().splitlines() for each in (out, classified[0]))
    new = [line for line in card if line not in before]
    assert [line for line in card if line not in new] == before
    ways = ("1, temperature 1", "2, temperature 1", "3, temperature 0.5 (the default)")
    assert [line.split(" | ")[0] for line in new] == [
        f"| 3 samples of each class, guidance {way}" for way in ways
    ]
    said = refused("evaluate", out, "--data", lines, "--guidance", 2)
    assert said.endswith("are about samples of each class; give --class-samples")
    only = "--class-head trains no network: give it --out and --data, and at most --device"
    assert refused("train", "--class-head", "--out", out) == only
    assert refused("train", "--class-head", "--out", out, "--data", lines, "--minutes", 1) == only
    said = refused("train", "--class-head", "--out", out, "--data", lines / "Row")
    assert said.endswith("so it has no class: the subfolders are the classes")
