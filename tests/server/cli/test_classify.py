"""scanline classify: the most probable class of each picture."""

import json
from pathlib import Path

import numpy as np
import pytest

from scanline.model.inference import load
from tests.support import shapes
from tests.support.commands import done
from tests.support.pictures import encode


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return shapes.save(tmp_path / "shapes")


@pytest.fixture
def files(tmp_path: Path, directory: Path) -> list[Path]:
    """An image of each class."""
    files = []
    for name in ("circle", "square", "star"):
        files.append(tmp_path / f"{name}.png")
        files[-1].write_bytes(encode(load(directory, device="cpu").sample(1, class_name=name, seed=2).array[0]))
    return files


def test_the_best_class_and_its_probability_are_printed(directory: Path, files: list[Path]) -> None:
    images = np.concatenate([load(directory, device="cpu").sample(1, class_name=f.stem, seed=2).array for f in files])
    law = load(directory, device="cpu").classify(images)
    lines = done("classify", "--model", directory, *files).splitlines()
    best = law.posterior.max(axis=1)
    assert lines == [f"{name}  {share:.4f}  {file}" for name, share, file in zip(law.best, best, files, strict=True)]


def test_json_has_the_posterior_and_the_bits_under_every_class(directory: Path, files: list[Path]) -> None:
    model = load(directory, device="cpu")
    rows = json.loads(done("classify", "--model", directory, *files, "--json"))["data"]
    for file, row in zip(files, rows, strict=True):
        image = model.sample(1, class_name=file.stem, seed=2).array
        law = model.classify(image)
        assert row["picture"] == str(file)
        assert row["class"] == law.best[0]
        assert row["probabilities"] == dict(zip(model.class_names, law.posterior[0].tolist(), strict=True))
        expected = {name: model.score(image, class_name=name)[0] for name in model.class_names}
        assert row["bits_per_dim"] == pytest.approx(expected, rel=1e-6)
