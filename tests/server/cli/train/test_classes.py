"""scanline train --classes: the subfolders of a folder become the classes of a model, and the run can be resumed."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import CLASS_HEAD, read_evaluation, read_info
from tests.support.commands import done, refused
from tests.support.pictures import encode

OPTIONS = ("--classes", "--unlabelled", 0.25, "--contrast", 6, "--batch", 4, "--schedule", "constant", "--no-compile")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pictures of a bright column or of a bright row, in a folder each."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for i in range(60):
        image = random.integers(0, 40, (12, 12), np.uint8)
        (image if i % 2 else image.T)[random.integers(12)] = random.integers(200, 256)
        path = folder / ("Row" if i % 2 else "tall_column") / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(image))
    return folder


@pytest.fixture(scope="module")
def trained(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("models") / "lines"
    return out, done("train", "--data", pictures, "--out", out, *OPTIONS, "--updates", 6)


def weights(out: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(out / "training.pt", weights_only=True)["model"]
    return found


def test_the_model_knows_the_subfolders_and_its_card_states_them(trained: tuple[Path, str]) -> None:
    out, said = trained
    assert load_model(out).config.classes == (("row",), ("tall_column", "tall column"))
    assert "2 classes: row, tall_column" in said.splitlines()
    card, found = (out / "README.md").read_text(), read_evaluation(out)
    true, head = found["classes"]["true_class"], found["classes"]["by_head"]
    assert head["images"] == found["images"]
    assert f"| classification by the class head | {head['accuracy']:.1%} +- " in card
    assert read_info(out).has_class_head
    assert true["images"] == found["images"]
    assert f"| test bits/dim with the true class | **{true['bits_per_dim']:.4f} +- " in card
    assert "| classes | 2: `row`, `tall_column`; 25% of the labels dropped in training |" in card
    assert "![Samples of each class](classes.png)" in card
    with Image.open(out / "classes.png") as sheet:
        assert sheet.height == 2 * 12
    table = weights(out)["classes"]
    assert (table.norm(dim=1) > 0).all()


def test_a_run_in_two_parts_ends_in_the_weights_of_a_whole_one(
    trained: tuple[Path, str], pictures: Path, tmp_path: Path
) -> None:
    done("train", "--data", pictures, "--out", tmp_path, *OPTIONS, "--updates", 3)
    done("train", "--resume", "--out", tmp_path, "--no-compile", "--updates", 6)
    assert all(map(torch.equal, weights(tmp_path).values(), weights(trained[0]).values()))


def test_from_continues_with_classes_with_others_and_without(
    trained: tuple[Path, str], pictures: Path, tmp_path: Path
) -> None:
    options = ("--updates", 1, "--batch", 2, "--no-compile", "--data", pictures)
    done("train", *options, "--from", trained[0], "--out", tmp_path / "without")
    assert load_model(tmp_path / "without").config.classes == ()
    assert not (tmp_path / "without" / "classes.png").exists()
    done("train", *options, "--from", tmp_path / "without", "--classes", "--out", tmp_path / "again")
    assert load_model(tmp_path / "again").config.classes == load_model(trained[0]).config.classes


def test_options_that_do_not_fit_are_refused(trained: tuple[Path, str], pictures: Path, tmp_path: Path) -> None:
    out = trained[0]
    new = ("train", "--data", pictures, "--out", tmp_path / "new")
    assert refused(*new, "--unlabelled", 0.3) == "--unlabelled needs --classes, whose labels it leaves out"
    said = refused(*new, "--contrast", 6)
    assert said == "--contrast needs --classes: it compares each picture's class with another one"
    said = refused(*new, "--classes", "--unlabelled", 1, "--updates", 1)
    assert said == "unlabelled must be above 0 and below 1, not 1.0"
    flat = ("train", "--data", pictures / "Row", "--out", tmp_path / "new", "--classes")
    assert refused(*flat).endswith("so it has no class: the subfolders are the classes")
    (pictures / "Row" / "1.png").rename(pictures / "tall_column" / "1.png")
    said = refused("train", "--resume", "--out", out, "--updates", 9)
    (pictures / "tall_column" / "1.png").rename(pictures / "Row" / "1.png")
    assert said.startswith(f"the pictures in {pictures} or their classes have changed since the run began: ")
    done(*new, "--updates", 1, "--no-compile")
    assert refused("train", "--resume", "--out", tmp_path / "new", "--classes") == (
        f"the run in {tmp_path / 'new'} learns no classes, and --resume continues it as it is; leave out --classes"
    )


def test_a_class_head_is_fitted_to_a_model_that_is_there(
    trained: tuple[Path, str], pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "lines"
    shutil.copytree(trained[0], out)
    before = load_file(out / CLASS_HEAD)
    (out / CLASS_HEAD).unlink()
    said = done("train", "--class-head", "--out", out, "--data", pictures)
    assert re.match(rf"{out}: the class head reads \d+\.\d% of the training images that it had not seen\n", said)
    after = load_file(out / CLASS_HEAD)  # of so few pictures the run has seen all as well
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    done("evaluate", out, "--data", pictures, "--save")
    assert read_evaluation(out)["classes"]["by_head"] == read_evaluation(trained[0])["classes"]["by_head"]
    only = "--class-head trains no network: give it --out and --data, and at most --device"
    assert refused("train", "--class-head", "--out", out) == only
    assert refused("train", "--class-head", "--out", out, "--data", pictures, "--minutes", 1) == only
    said = refused("train", "--class-head", "--out", out, "--data", pictures / "Row")
    assert said.endswith("so it has no class: the subfolders are the classes")
