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
def images(grey: Transformer) -> np.ndarray:
    """The five images [5, 7, 5] of seed 3."""
    return paint(grey, 5, seed=3).images.reshape(5, 7, 5)


@pytest.fixture
def sample(grey_directory: Path) -> tuple[object, ...]:
    """The command, but for where the images go."""
    return ("sample", "--model", grey_directory, "-n", 5, "--seed", 3, "--out")


@pytest.mark.parametrize("name", ["sheet.webp", "SHEET.PNG"])
def test_a_picture_is_a_sheet_row_by_row(
    tmp_path: Path, sample: tuple[object, ...], images: np.ndarray, name: str
) -> None:
    done(*sample, tmp_path / name)
    padded = np.concatenate((images, np.zeros((1, 7, 5), np.uint8)))
    grid = np.asarray(Image.open(tmp_path / name).convert("L"))
    np.testing.assert_array_equal(grid, np.block([[*padded[:3]], [*padded[3:]]]))


def test_an_array_has_all_bytes_with_channels_last(
    tmp_path: Path, sample: tuple[object, ...], images: np.ndarray, colour_directory: Path
) -> None:
    done(*sample, tmp_path / "digits.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "digits.npy"), images)
    assert [file.name for file in tmp_path.iterdir()] == ["digits.npy"]
    done("sample", "--model", colour_directory, "-n", 2, "--out", tmp_path / "colours.npy")
    assert np.load(tmp_path / "colours.npy").shape == (2, 3, 4, 3)


def test_a_folder_has_a_picture_for_each(tmp_path: Path, sample: tuple[object, ...], images: np.ndarray) -> None:
    done(*sample, f"{tmp_path / 'digits'}/")
    files = sorted((tmp_path / "digits").iterdir())
    np.testing.assert_array_equal([np.asarray(Image.open(file)) for file in files], images)


def test_a_film_is_that_of_python(
    tmp_path: Path, sample: tuple[object, ...], images: np.ndarray, grey_directory: Path
) -> None:
    done(*sample, tmp_path / "cli.gif", "--frames", 3, "--scale", 2)
    data = (tmp_path / "cli.gif").read_bytes()
    load(grey_directory, device="cpu").sample(5, seed=3).save(tmp_path / "python.gif", frames=3, scale=2)
    assert data == (tmp_path / "python.gif").read_bytes()
    frames, durations = film_frames(data)
    padded = np.concatenate((images, np.zeros((1, 7, 5), np.uint8)))
    expected = np.block([[*padded[:3]], [*padded[3:]]]).repeat(2, axis=0).repeat(2, axis=1)
    np.testing.assert_array_equal(frames[-1, ..., 0], np.where(expected == 254, 255, expected))  # a GIF has 255 colours
    assert durations == [1500, 1500, 2000]
    done(*sample, tmp_path / "cli.webp", "--film")
    assert len(film_frames((tmp_path / "cli.webp").read_bytes())[0]) == 32


def test_a_drawn_seed_is_printed(tmp_path: Path, grey_directory: Path, grey: Transformer) -> None:
    out = tmp_path / "digits.npy"
    result = json.loads(done("sample", "--model", grey_directory, "-n", 1, "--out", out, "--json"))
    np.testing.assert_array_equal(np.load(out)[0].reshape(-1), paint(grey, 1, seed=result["seed"]).images[0])


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"backend": "eager"}])
def test_options_are_applied_and_json_reports_the_images(
    tmp_path: Path, sample: tuple[object, ...], grey: Transformer, options: dict[str, Any]
) -> None:
    given = [part for name, value in options.items() for part in (f"--{name}", value)]
    result = json.loads(done(*sample, tmp_path / "digits.npy", *given, "--json"))
    expected = paint(grey, 5, seed=3, **options)
    np.testing.assert_array_equal(np.load(tmp_path / "digits.npy").reshape(5, 35), expected.images)
    bits = expected.bits_per_dim.tolist()
    used = {"temperature": options.get("temperature", 1), "guidance": 1}
    assert result == {"out": str(tmp_path / "digits.npy"), "n": 5, "seed": 3, "bits_per_dim": bits, **used}


@pytest.fixture
def guided(tmp_path: Path) -> Path:
    """A model that knows circles, squares and stars."""
    return shapes.save(tmp_path / "shapes", shapes.GUIDED)


@pytest.mark.parametrize(
    ("options", "how", "classes"),
    [
        (("--class", "Box", "--guidance", 2.5), {"class_name": "square", "guidance": 2.5}, 1),
        (("--class", "any"), {"class_name": "any"}, 3),
    ],
)
def test_images_of_a_class_are_those_of_python(
    tmp_path: Path, guided: Path, options: tuple[object, ...], how: dict[str, Any], classes: int
) -> None:
    out = tmp_path / "images.npy"
    result = json.loads(done("sample", "--model", guided, "-n", 9, "--seed", 3, "--out", out, *options, "--json"))
    expected = load(guided, device="cpu").sample(9, seed=3, **how)
    np.testing.assert_array_equal(np.load(out), expected.array)
    assert (result["classes"], result["bits_per_dim"]) == ([*expected.classes], expected.bits_per_dim.tolist())
    assert (len({*expected.classes}), result["guidance"]) == (classes, how.get("guidance", 1))


def test_each_class_has_the_images_that_it_has_alone(tmp_path: Path, guided: Path) -> None:
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
