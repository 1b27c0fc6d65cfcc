"""scanline classify: the most probable class of each picture."""

import json
from pathlib import Path

import numpy as np
import pytest

from scanline.model.inference import load
from tests.support import shapes
from tests.support.commands import done
from tests.support.pictures import encode


def test_the_best_class_its_probability_and_the_bits_under_every_class(tmp_path: Path) -> None:
    directory, names = shapes.save(tmp_path / "shapes"), ("circle", "square", "star")
    model, files = load(directory, device="cpu"), [tmp_path / f"{name}.png" for name in names]
    images = np.concatenate([model.sample(1, class_name=name, seed=2).array for name in names])
    for file, image in zip(files, images, strict=True):
        file.write_bytes(encode(image))
    result = model.classify(images)
    lines = done("classify", "--model", directory, *files).splitlines()
    best = result.posterior.max(axis=1)
    assert lines == [f"{name}  {share:.4f}  {file}" for name, share, file in zip(result.best, best, files, strict=True)]
    assert done("classify", "--model", directory, tmp_path).splitlines() == lines  # a folder: by name
    rows = json.loads(done("classify", "--model", directory, *files, "--json"))["data"]
    assert [(row["picture"], row["class"]) for row in rows] == [*zip(map(str, files), result.best, strict=True)]
    for i, row in enumerate(rows):
        assert [*row["probabilities"]] == list(model.class_names)
        assert [*row["probabilities"].values()] == pytest.approx(result.posterior[i], rel=1e-6)
        expected = {name: model.score(images[i : i + 1], class_name=name)[0] for name in model.class_names}
        assert row["bits_per_dim"] == pytest.approx(expected, rel=1e-6)


def test_noise_is_removed_and_a_picture_unlike_the_test_images_is_marked(tmp_path: Path) -> None:
    directory, file = shapes.evaluate(shapes.save(tmp_path / "shapes")), tmp_path / "noisy.png"
    noisy = np.full((7, 5), 3, np.uint8)
    noisy[2:4] = 252
    file.write_bytes(encode(noisy))
    result = load(directory, device="cpu").classify(noisy)
    words = f"unlike the model's test images (p <= {result.tail_probabilities[0]:.4f})"
    line = f"{result.best[0]}  {result.posterior.max():.4f}  {file}  {words}\n"
    assert done("classify", "--model", directory, file) == line
    (row,) = json.loads(done("classify", "--model", directory, file, "--clean", "off", "--json"))["data"]
    assert (row["typical"], row["tail_probability"]) == (False, pytest.approx(result.tail_probabilities[0]))
    as_it_is = load(directory, device="cpu").classify(noisy, clean="off").bits / 35
    assert [*row["bits_per_dim"].values()] == pytest.approx(as_it_is[0], rel=1e-6)
    assert done("score", "--model", directory, file).endswith(f"{file}  {words}\n")
