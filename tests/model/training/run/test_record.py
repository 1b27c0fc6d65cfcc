"""run.json: what a run is resumed with, read back as it was written, and refused where it is anything else."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets.source import ImageSet
from scanline.model.training.run.record import FILE, Run, check_same_images, describe, load_run
from scanline.model.training.run.state import ResumeError

IMAGES = ImageSet(np.zeros((5, 6), np.uint8), np.ones((2, 6), np.uint8), 2, 3, 1, None, "abc", duplicates=4)


def run(size: tuple[int, int] | None = (3, 2)) -> Run:
    return describe(IMAGES, Path("pictures"), size, True, None, "mnist-small", 5)


@pytest.mark.parametrize("size", [(3, 2), None])
def test_it_is_read_back_as_it_was_written(tmp_path: Path, size: tuple[int, int] | None) -> None:
    saved = run(size)
    saved.save(tmp_path)
    assert load_run(tmp_path) == saved
    assert (saved.data, saved.train, saved.test, saved.duplicates) == (str(Path("pictures").absolute()), 5, 2, 4)


def test_a_directory_without_it_has_no_run(tmp_path: Path) -> None:
    assert load_run(tmp_path) is None


@pytest.mark.parametrize(
    "damage", ["", "[]", "null", '{"data": "pictures"}', '{"size": [1, 2], "more": 3}', "[" * 10**5]
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage)
    with pytest.raises(ResumeError) as error:
        load_run(tmp_path)
    assert str(error.value) == f"{tmp_path / FILE} is not the record of a run"


def test_a_size_that_is_no_size_is_refused(tmp_path: Path) -> None:
    run().save(tmp_path)
    for size in ([3], "x", ["a", "b"], 5):
        (tmp_path / FILE).write_text(json.dumps(json.loads((tmp_path / FILE).read_text()) | {"size": size}))
        with pytest.raises(ResumeError, match="is not the record of a run"):
            load_run(tmp_path)


def test_other_images_are_refused_with_their_numbers() -> None:
    check_same_images(run(), IMAGES)
    with pytest.raises(ResumeError, match="have changed since the run began: 7 then, 6 now;"):
        check_same_images(run(), replace(IMAGES, digest="other", train=IMAGES.train[1:]))
