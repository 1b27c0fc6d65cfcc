"""scanline sample and complete with --guidance: images of a class, drawn away from those without one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import scanline
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.tasks.offline import paint
from tests.support import shapes, small_models
from tests.support.commands import done
from tests.support.pictures import encode, noise

IMAGE = noise(7, 5)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows circles, squares and stars, and predicts 256 logits."""
    directory = tmp_path_factory.mktemp("models") / "guided"
    save_model(small_models.model(replace(shapes.SHAPES, predicts="categorical")), directory)
    return directory


def test_guided_samples_are_those_of_the_python_api_and_guidance_of_one_is_the_model_itself(
    tmp_path: Path, directory: Path
) -> None:
    out = tmp_path / "boxes.npy"
    command = ("sample", "--model", directory, "-n", 3, "--seed", 3, "--out", out, "--class", "box", "--json")
    result = json.loads(done(*command, "--guidance", 2.5))
    images = scanline.load(directory, device="cpu").sample(3, class_name="square", guidance=2.5, seed=3)
    np.testing.assert_array_equal(np.load(out), images.array)
    assert result["bits_per_dim"] == images.bits_per_dim.tolist()
    assert (result["classes"], result["guidance"]) == (["square"] * 3, 2.5)
    result = json.loads(done(*command, "--guidance", 1))
    law = paint(load_model(directory), 3, seed=3, label=2)
    np.testing.assert_array_equal(np.load(out).reshape(3, 35), law.images)
    assert json.loads(done(*command)) == result
    assert result["guidance"] == 1


def test_a_guided_completion_runs_one_particle(tmp_path: Path, directory: Path) -> None:
    hole = np.full((7, 5), 255, np.uint8)
    hole[2:5, 1:3] = 0
    (tmp_path / "picture.png").write_bytes(encode(IMAGE))
    (tmp_path / "mask.png").write_bytes(encode(hole))
    out = tmp_path / "stars.npy"
    command = ("complete", "--model", directory, "-n", 2, "--seed", 4, "--out", out, "--class", "star", "--guidance", 2)
    picture = (tmp_path / "picture.png", "--mask", tmp_path / "mask.png")
    result = json.loads(done(*command, *picture, "--json"))
    model = scanline.load(directory, device="cpu")
    images = model.complete(IMAGE, mask=hole == 255, n=2, class_name="star", guidance=2, seed=4)
    np.testing.assert_array_equal(np.load(out), images.array)
    np.testing.assert_array_equal(images.array[:, hole == 255], np.stack([IMAGE[hole == 255]] * 2))
    assert (result["class"], result["guidance"], result["particles"]) == ("star", 2, 1)
