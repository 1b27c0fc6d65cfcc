"""scanline score and classify: bits of pictures, and their most probable class."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from scanline.model.evaluation.likelihood import bits
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.inference import load
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from tests.support import shapes, small_models
from tests.support.commands import done
from tests.support.pictures import encode, noise


def test_the_bits_of_each_picture_are_printed(grey_directory: Path, tmp_path: Path, grey: Transformer) -> None:
    images, files = noise(2, 7, 5), [tmp_path / "0.png", tmp_path / "1.png"]
    for file, image in zip(files, images, strict=True):
        file.write_bytes(encode(image))
    alone = Generator(grey, 1).score(images.reshape(2, 35)).mean(axis=1).tolist()
    result = json.loads(done("score", "--model", grey_directory, *files, "--json"))
    bits = dict(zip(map(str, files), alone, strict=True))
    assert result == {
        "data": [{"picture": file, "bits_per_dim": value, "noisy": False} for file, value in bits.items()]
    }
    lines = done("score", "--model", grey_directory, tmp_path).splitlines()  # a folder: its pictures by name
    mean = f"mean {np.mean(alone):.4f} +- {np.std(alone, ddof=1) / 2**0.5:.4f} bits/dim (2 images)"
    assert lines == [*(f"{value:.4f}  {file}" for file, value in bits.items()), mean]


def test_pictures_of_colour_are_scored_under_a_class_by_a_model_that_paints_pixels(tmp_path: Path) -> None:
    """The sum of all bytes' bits, over the number of bytes."""
    model = small_models.model(small_models.config(**small_models.VARIANTS["pixels"], **small_models.CLASSES))
    save_model(model, tmp_path / "pixels")
    image = small_models.images(model.config, 1)
    (tmp_path / "0.png").write_bytes(encode(image.reshape(4, 5, 3)))
    expected = bits(load_model(tmp_path / "pixels"), torch.from_numpy(image), torch.tensor([3])).sum().item() / 60
    command = ("score", "--model", tmp_path / "pixels", tmp_path / "0.png", "--class", "Shell", "--json")
    (found,) = json.loads(done(*command))["data"]
    assert found["bits_per_dim"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("option", ["--mask", "--keep-rows"])
def test_the_known_pixels_of_a_picture_are_scored_with_their_standard_error(
    grey_directory: Path, tmp_path: Path, option: str
) -> None:
    image, mask = noise(7, 5), np.full((7, 5), 255, np.uint8)
    mask[2:4, 1:4] = 0
    (tmp_path / "0.png").write_bytes(encode(image))
    (tmp_path / "mask.png").write_bytes(encode(mask))
    value = tmp_path / "mask.png" if option == "--mask" else 3
    command = ("score", "--model", grey_directory, tmp_path / "0.png", option, value, "--seed", 5)
    found = json.loads(done(*command, "--particles", 4, "--repeats", 3, "--json"))
    known = {"mask": mask == 255} if option == "--mask" else {"keep_rows": 3}
    law = load(grey_directory, device="cpu").score_known(image, **known, particles=4, repeats=3, seed=5)
    (row,) = found["data"]
    assert found["seed"] == 5
    assert row == {
        "picture": str(tmp_path / "0.png"),
        "bits_per_dim": law.bits_per_dim,
        "standard_error": law.standard_error_per_dim,
        "known_bytes": 29 if option == "--mask" else 15,
        "particles": 4 if option == "--mask" else 1,
    }
    assert (row["standard_error"] > 0) == (option == "--mask")
    line = done(*command, "--particles", 4, "--repeats", 3)
    assert line == f"{law.bits_per_dim:.4f} +/- {law.standard_error_per_dim:.4f}  {tmp_path / '0.png'}\n"


def test_the_best_class_its_probability_and_the_bits_under_every_class(tmp_path: Path) -> None:
    directory, names = shapes.save(tmp_path / "shapes"), ("circle", "square", "star")
    model, files = load(directory, device="cpu"), [tmp_path / f"{name}.png" for name in names]
    images = np.concatenate([model.sample(1, class_name=name, seed=2).array for name in names])
    for file, image in zip(files, images, strict=True):
        file.write_bytes(encode(image))
    law = model.classify(images)
    lines = done("classify", "--model", directory, *files).splitlines()
    best = law.posterior.max(axis=1)
    assert lines == [f"{name}  {share:.4f}  {file}" for name, share, file in zip(law.best, best, files, strict=True)]
    assert done("classify", "--model", directory, tmp_path).splitlines() == lines  # a folder: by name
    rows = json.loads(done("classify", "--model", directory, *files, "--json"))["data"]
    assert [(row["picture"], row["class"]) for row in rows] == [*zip(map(str, files), law.best, strict=True)]
    for i, row in enumerate(rows):
        assert [*row["probabilities"]] == list(model.class_names)
        assert [*row["probabilities"].values()] == pytest.approx(law.posterior[i], rel=1e-6)
        expected = {name: model.score(images[i : i + 1], class_name=name)[0] for name in model.class_names}
        assert row["bits_per_dim"] == pytest.approx(expected, rel=1e-6)
        assert (row["read_by"], row["probabilities_by_bits"]) == ("bits", row["probabilities"])


def test_the_answer_of_a_class_head_comes_first_and_bits_can_be_left_out(tmp_path: Path) -> None:
    directory, file = shapes.save(tmp_path / "headed", class_head=True), tmp_path / "noise.png"
    image = noise(1, 7, 5)
    file.write_bytes(encode(image[0]))
    law = load(directory, device="cpu").classify(image)
    assert law.posterior_by_bits is not None
    line = f"{law.best[0]}  {law.posterior.max():.4f}  {file}"
    assert done("classify", "--model", directory, file, "--no-by-bits") == f"{line}\n"
    name = law.class_names[law.posterior_by_bits.argmax()]
    by_bits = f"  by bits: {name}  {law.posterior_by_bits.max():.4f}"
    assert done("classify", "--model", directory, file) == f"{line}{by_bits}\n"
    (row,) = json.loads(done("classify", "--model", directory, file, "--no-by-bits", "--json"))["data"]
    assert (row["read_by"], row["class"], row["bits_per_dim"]) == ("head", law.best[0], None)


def test_noise_is_removed_and_a_picture_unlike_the_test_images_is_marked(tmp_path: Path) -> None:
    directory, file = shapes.evaluate(shapes.save(tmp_path / "shapes")), tmp_path / "noisy.png"
    noisy = np.full((7, 5), 3, np.uint8)
    noisy[2:4] = 252
    file.write_bytes(encode(noisy))
    law = load(directory, device="cpu").classify(noisy)
    words = f"unlike what the model knows (p <= {law.tail_probabilities[0]:.4f})"
    line = f"{law.best[0]}  {law.posterior.max():.4f}  {file}  with noise\n"
    assert done("classify", "--model", directory, file) == line
    (tmp_path / "clean.png").write_bytes(encode(np.where(noisy == 3, 0, 254).astype(np.uint8)))
    said = done("classify", "--model", directory, tmp_path / "clean.png")  # without noise, and not a test image
    assert said.startswith(f"-  -  {tmp_path / 'clean.png'}  unlike what the model knows (p <= ")
    (row,) = json.loads(done("classify", "--model", directory, file, "--clean", "off", "--json"))["data"]
    assert (row["typical"], row["tail_probability"]) == (False, pytest.approx(law.tail_probabilities[0]))
    as_it_is = load(directory, device="cpu").classify(noisy, clean="off").bits / 35
    assert [*row["bits_per_dim"].values()] == pytest.approx(as_it_is[0], rel=1e-6)
    assert done("score", "--model", directory, file).endswith(f"{file}  {words}\n")
