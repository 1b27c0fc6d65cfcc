"""scanline sample: the images of the seed, in the form that the output's name asks for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scanline.model.inference import load
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support import shapes
from tests.support.commands import done
from tests.support.pictures import film_frames


@pytest.fixture
def sample(grey_directory: Path) -> tuple[object, ...]:
    """The command, but for where the images go."""
    return ("sample", "--model", grey_directory, "-n", 5, "--seed", 3, "--out")


@pytest.mark.parametrize(
    ("name", "film"),
    [("sheet.webp", {}), ("SHEET.PNG", {}), ("digits.npy", {}), ("film.gif", {"frames": 3, "scale": 2})],
)
def test_a_file_is_that_of_python(
    tmp_path: Path, sample: tuple[object, ...], grey_directory: Path, name: str, film: dict[str, int]
) -> None:
    done(*sample, tmp_path / name, *(part for key, value in film.items() for part in (f"--{key}", value)))
    (tmp_path / "python").mkdir()
    load(grey_directory, device="cpu").sample(5, seed=3).save(tmp_path / "python" / name, **film)
    assert (tmp_path / name).read_bytes() == (tmp_path / "python" / name).read_bytes()


def test_a_folder_has_a_picture_for_each_and_a_film_32_frames(
    tmp_path: Path, sample: tuple[object, ...], grey: Transformer
) -> None:
    done(*sample, f"{tmp_path / 'digits'}/")
    files = sorted((tmp_path / "digits").iterdir())
    expected = paint(grey, 5, seed=3).images.reshape(5, 7, 5)
    np.testing.assert_array_equal([np.asarray(Image.open(file)) for file in files], expected)
    done(*sample, tmp_path / "film.webp", "--film")
    assert len(film_frames((tmp_path / "film.webp").read_bytes())[0]) == 32


GUIDED = {"class": "Box", "guidance": 2.5}


@pytest.mark.parametrize("asked", [{}, {"temperature": 0.5}, {"backend": "eager"}, GUIDED, {"class": "any"}], ids=str)
def test_options_are_handed_on_and_json_reports_the_images(tmp_path: Path, asked: dict[str, Any]) -> None:
    directory, out = shapes.save(tmp_path / "shapes", shapes.GUIDED), tmp_path / "images.npy"
    given = [part for name, value in asked.items() for part in (f"--{name}", value)]
    result = json.loads(done("sample", "--model", directory, "-n", 9, "--out", out, *given, "--json"))
    how = {"class_name" if name == "class" else name: value for name, value in asked.items() if name != "backend"}
    expected = load(directory, device="cpu", backend=asked.get("backend", "auto")).sample(9, seed=result["seed"], **how)
    np.testing.assert_array_equal(np.load(out), expected.array)
    said = {"out": str(out), "n": 9, "seed": expected.seed, "bits_per_dim": expected.bits_per_dim.tolist()}
    classes = {"classes": [*expected.classes]} if expected.classes else {}
    assert result == {**said, "temperature": expected.temperature, "guidance": expected.guidance, **classes}


def test_each_class_has_the_images_that_it_has_alone(tmp_path: Path) -> None:
    guided = shapes.save(tmp_path / "shapes", shapes.GUIDED)
    command = ("sample", "--model", guided, "--each-class", "-n", 2, "--seed", 3, "--json")
    result = json.loads(done(*command, "--out", tmp_path / "all.npy"))
    model = load(guided, device="cpu")
    expected = np.stack([model.sample(2, class_name=name, seed=3).array for name in model.class_names])
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), expected.reshape(6, 7, 5))
    assert result["classes"] == ["circle", "circle", "square", "square", "star", "star"]
    assert result["n"] == 6
    done(*command, "--out", tmp_path / "all.png")
    sheet = np.asarray(Image.open(tmp_path / "all.png").convert("L"))
    np.testing.assert_array_equal(sheet, np.block([[*row] for row in expected]))  # too low for names
    done("sample", "--model", guided, "--each-class", "--out", tmp_path / "all.npy")
    assert np.load(tmp_path / "all.npy").shape == (30, 7, 5)  # ten of each, where no number is given
