"""scanline complete: the rest of an occluded picture."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scanline.model.inference import load
from tests.support import shapes
from tests.support.commands import done
from tests.support.pictures import encode, film_frames, noise

IMAGE = noise(7, 5)
HOLE = np.full((7, 5), 255, np.uint8)
HOLE[2:5, 1:3] = 0


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "picture.png"
    file.write_bytes(encode(IMAGE))
    return file


@pytest.fixture
def complete(tmp_path: Path, grey_directory: Path) -> tuple[object, ...]:
    """The command without the picture and its mask; the array goes to completions.npy."""
    out = tmp_path / "completions.npy"
    return ("complete", "--model", grey_directory, "-n", 3, "--seed", 4, "--out", out)


def test_the_pictures_own_alpha_is_the_mask(tmp_path: Path, complete: tuple[object, ...]) -> None:
    (tmp_path / "hole.png").write_bytes(encode(np.dstack((IMAGE, HOLE))))
    done(*complete, tmp_path / "hole.png")
    known = HOLE == 255
    np.testing.assert_array_equal(np.load(tmp_path / "completions.npy")[:, known], np.stack([IMAGE[known]] * 3))


def test_kept_rows_are_kept_and_a_sheet_goes_from_occluded_to_original(
    tmp_path: Path, complete: tuple[object, ...], picture: Path
) -> None:
    done(*complete, picture, "--keep-rows", 4)
    done(*complete, picture, "--keep-rows", 4, "--out", tmp_path / "sheet.png")
    occluded = np.concatenate((IMAGE[:4], np.full((3, 5), 128, np.uint8)))
    completions = np.load(tmp_path / "completions.npy")
    np.testing.assert_array_equal(completions[:, :4], np.stack([IMAGE[:4]] * 3))
    row = np.hstack((occluded, *completions, IMAGE))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "sheet.png")), row)
    done(*complete, picture, "--keep-rows", 4, "--out", tmp_path / "film.webp", "--frames", 2, "--scale", 1)
    frames, _ = film_frames((tmp_path / "film.webp").read_bytes())
    np.testing.assert_array_equal(frames[..., 0], [np.hstack((*[occluded] * 4, IMAGE)), row])


@pytest.mark.parametrize(
    "asked",
    [{}, {"particles": 8}, {"class": "Star", "particles": 4}, {"class": "star", "guidance": 2}, {"backend": "eager"}],
    ids=str,
)
def test_options_are_handed_on_and_the_numbers_are_reported(
    tmp_path: Path, picture: Path, asked: dict[str, Any]
) -> None:
    directory, out = shapes.save(tmp_path / "shapes", shapes.GUIDED), tmp_path / "completions.npy"
    (tmp_path / "mask.png").write_bytes(encode(HOLE))
    given = [part for name, value in asked.items() for part in (f"--{name}", value)]
    command = ("complete", picture, "--mask", tmp_path / "mask.png", "--model", directory, "-n", 2, "--seed", 4, *given)
    result = json.loads(done(*command, "--out", out, "--json"))
    how = {"class_name" if name == "class" else name: value for name, value in asked.items() if name != "backend"}
    model = load(directory, device="cpu", backend=asked.get("backend", "auto"))
    expected = model.complete(IMAGE, mask=HOLE == 255, n=2, seed=4, **how)
    np.testing.assert_array_equal(np.load(out), expected.array)
    assert (result["out"], result["n"], result["seed"]) == (str(out), 2, 4)
    assert result.get("class") == (expected.classes[0] if expected.classes else None)
    particles = asked.get("particles", 1 if "guidance" in asked else 16)
    assert (result["guidance"], result["particles"]) == (expected.guidance, particles)
    for name in ("bits_per_dim", "evidence_bits", "effective_particles"):
        assert result[name] == getattr(expected, name).tolist()
    assert expected.evidence_bits is not None
    assert expected.effective_particles is not None
    words = f", {expected.evidence_bits.mean():.2f} bits for the known pixels"
    if particles > 1:
        words += f", at least {expected.effective_particles.min():.1f} of {particles} particles effective"
    assert done(*command, "--out", out).endswith(f"{words}\n")


def test_a_folder_becomes_a_figure_with_a_labelled_row_for_each_picture(
    tmp_path: Path, complete: tuple[object, ...], picture: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.png").write_bytes(picture.read_bytes())
    plain, labelled, alone = (tmp_path / name for name in ("plain.png", "labelled.png", "alone.npy"))
    done(*complete, folder, "--keep-rows", 4, "--out", plain, "--scale", 3)
    done(*complete, folder, "--keep-rows", 4, "--out", labelled, "--scale", 3, "--labels")
    done(*complete, picture, "--keep-rows", 4, "--out", alone)
    figure = np.asarray(Image.open(plain))
    assert figure.shape == (2 * 21 + 3, 5 * 15 + 4 * 3)  # gaps of 3 pixels
    assert (figure[21:24] == 255).all()
    np.testing.assert_array_equal(figure[:21, 18:33], np.load(alone)[0].repeat(3, 0).repeat(3, 1))  # beside a second
    both = np.asarray(Image.open(labelled))
    np.testing.assert_array_equal(both[-figure.shape[0] :, -figure.shape[1] :], figure)
    assert both.min() < 128 < both.max() == 255
