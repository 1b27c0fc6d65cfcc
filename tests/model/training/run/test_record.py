"""run.json: what a run is resumed with, read back as it was written, and refused where it is anything else."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets.source import ImageSet
from scanline.model.training.run.record import FILE, Run, check_out, check_same_images, describe, load_run
from scanline.model.training.run.state import ResumeError

IMAGES = ImageSet(np.zeros((5, 6), np.uint8), np.ones((2, 6), np.uint8), 2, 3, 1, None, "abc", duplicates=4)


def run(size: tuple[int, int] | None = (3, 2)) -> Run:
    return describe(IMAGES, Path("pictures"), size, True, None, "mnist-small", 5)


def with_size(size: object) -> str:
    return json.dumps(asdict(run()) | {"size": size})


@pytest.mark.parametrize("size", [(3, 2), None])
def test_it_is_read_back_as_it_was_written(tmp_path: Path, size: tuple[int, int] | None) -> None:
    saved = run(size)
    assert load_run(tmp_path) is None
    saved.save(tmp_path)
    assert load_run(tmp_path) == saved
    assert (saved.data, saved.train, saved.test, saved.duplicates) == (str(Path("pictures").absolute()), 5, 2, 4)


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        '{"data": "pictures"}',
        '{"size": [1, 2], "more": 3}',
        "[" * 10**5,
        *map(with_size, ([3], ["a", "b"], 5)),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage)
    with pytest.raises(ResumeError) as error:
        load_run(tmp_path)
    assert str(error.value) == f"{tmp_path / FILE} is not the record of a run"


def test_other_images_are_refused_with_their_numbers() -> None:
    check_same_images(run(), IMAGES)
    with pytest.raises(ResumeError, match="have changed since the run began: 7 then, 6 now;"):
        check_same_images(run(), replace(IMAGES, digest="other", train=IMAGES.train[1:]))


def test_files_of_somebody_else_are_not_replaced(tmp_path: Path) -> None:
    check_out(tmp_path / "new")
    (tmp_path / "README.md").write_text("# My thesis\n")
    with pytest.raises(ValueError, match=r"has a README\.md and is no model's directory"):
        check_out(tmp_path)
    run().save(tmp_path)
    check_out(tmp_path)
