"""scanline complete: the rest of an occluded picture."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.inference import load
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
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


def test_completions_are_those_of_the_generator(
    tmp_path: Path, complete: tuple[object, ...], picture: Path, grey: Transformer
) -> None:
    (tmp_path / "mask.png").write_bytes(encode(HOLE))
    done(*complete, picture, "--mask", tmp_path / "mask.png")
    alone = paint(grey, 3, seed=4, known=IMAGE, mask=HOLE == 255, particles=16).images  # 16 is the default
    np.testing.assert_array_equal(np.load(tmp_path / "completions.npy").reshape(3, 35), alone)


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


def test_the_backend_that_is_asked_for_paints_and_json_reports_the_images(
    tmp_path: Path, complete: tuple[object, ...], picture: Path, grey: Transformer
) -> None:
    result = json.loads(done(*complete, picture, "--keep-rows", 4, "--backend", "eager", "--json"))
    expected = paint(grey, 3, seed=4, known=IMAGE.reshape(-1), mask=np.arange(35) < 20, backend="eager")
    assert (result["out"], result["n"], result["seed"]) == (str(tmp_path / "completions.npy"), 3, 4)
    assert result["bits_per_dim"] == expected.bits_per_dim.tolist()
    assert (result["particles"], result["effective_particles"]) == (1, [1.0] * 3)
    assert "class" not in result


def test_evidence_and_effective_particles_are_reported(
    tmp_path: Path, complete: tuple[object, ...], picture: Path, grey: Transformer
) -> None:
    (tmp_path / "mask.png").write_bytes(encode(HOLE))
    masked = (*complete, picture, "--mask", tmp_path / "mask.png", "--particles", 8)
    expected = paint(grey, 3, seed=4, known=IMAGE, mask=HOLE == 255, particles=8)
    assert expected.evidence_bits is not None
    assert expected.effective_particles is not None
    result = json.loads(done(*masked, "--json"))
    assert result["particles"] == 8
    assert result["evidence_bits"] == expected.evidence_bits.tolist()
    assert result["effective_particles"] == expected.effective_particles.tolist()
    evidence, least = expected.evidence_bits.mean(), expected.effective_particles.min()
    words = f", {evidence:.2f} bits for the known pixels, at least {least:.1f} of 8 particles effective\n"
    assert done(*masked).endswith(words)


@pytest.mark.parametrize("options", [("--particles", 4), ("--guidance", 2)], ids=str)
def test_completions_of_a_class_are_those_of_python(tmp_path: Path, picture: Path, options: tuple[object, ...]) -> None:
    directory, out = shapes.save(tmp_path / "shapes", shapes.GUIDED), tmp_path / "stars.npy"
    (tmp_path / "mask.png").write_bytes(encode(HOLE))
    masked = ("complete", picture, "--mask", tmp_path / "mask.png", "--model", directory, "--class", "Star")
    result = json.loads(done(*masked, "-n", 2, "--seed", 4, "--out", out, *options, "--json"))
    how = {str(options[0]).strip("-"): options[1]}
    expected = load(directory, device="cpu").complete(IMAGE, mask=HOLE == 255, n=2, class_name="star", seed=4, **how)
    np.testing.assert_array_equal(np.load(out), expected.array)
    assert result["class"] == "star"
    assert (result["guidance"], result["particles"]) == (how.get("guidance", 1), how.get("particles", 1))
    for name in ("bits_per_dim", "evidence_bits", "effective_particles"):
        assert result[name] == getattr(expected, name).tolist()
    if "particles" in how:
        words = f", {expected.evidence_bits.mean():.2f} bits for the known pixels"
        words += f", at least {expected.effective_particles.min():.1f} of 4 particles effective\n"
        assert done(*masked, "-n", 2, "--seed", 4, "--out", out, *options).endswith(words)
