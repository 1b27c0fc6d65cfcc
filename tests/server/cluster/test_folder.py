"""The folder of `scanline sample --cluster`: its recipe, its missing images, and files that do not belong to it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.sampling.messages import Finished, GenerateRequest
from scanline.server.cluster.folder import FolderTask, Recipe, missing_images, open_folder, with_digest
from scanline.server.engine.job import EngineFailedError
from tests.support.commands import refused, scanline

RECIPE = Recipe("mnist-small", 12, 7, 1.0)
SEVENS = Recipe("mnist-small", 12, 7, 1.0, "7")
GUIDED = replace(SEVENS, guidance=2.5)
IMAGE = bytes(range(35))


def painted(out: Path, *indices: int) -> FolderTask:
    folder = FolderTask(GenerateRequest(0, 12, 7), out, (7, 5), lambda done: None)
    for index in indices:
        folder.receive(Finished(0, index, IMAGE, 2.5))
    assert len([*folder.work()]) == len(indices)
    return folder


def test_a_new_folder_has_its_recipe(tmp_path: Path) -> None:
    assert open_folder(tmp_path / "new", RECIPE, False) == RECIPE
    assert open_folder(tmp_path / "new", RECIPE, False) == RECIPE
    open_folder(tmp_path, RECIPE, True)
    assert open_folder(tmp_path, Recipe("mnist-small", 12, 99, 1.0), True).seed == 7


@pytest.mark.parametrize(
    "other",
    [Recipe("cifar10-small", 12, 7, 1.0), Recipe("mnist-small", 13, 7, 1.0), Recipe("mnist-small", 12, 8, 1.0), SEVENS],
)
def test_another_recipe_needs_another_folder(tmp_path: Path, other: Recipe) -> None:
    open_folder(tmp_path, RECIPE, False)
    with pytest.raises(ValueError, match="contains images of mnist-small, n 12, seed 7, temperature 1, not of"):
        open_folder(tmp_path, other, False)


def test_a_recipe_names_its_class_and_guidance_and_one_of_an_older_version_has_none(tmp_path: Path) -> None:
    open_folder(tmp_path / "sevens", SEVENS, False)
    with pytest.raises(
        ValueError, match="contains images of mnist-small, n 12, seed 7, temperature 1, class 7, not of"
    ):
        open_folder(tmp_path / "sevens", RECIPE, False)
    with pytest.raises(ValueError, match=r"temperature 1, class 7, not of .*, temperature 1, class 7, guidance 2\.5;"):
        open_folder(tmp_path / "sevens", GUIDED, False)
    open_folder(tmp_path / "guided", GUIDED, False)
    assert open_folder(tmp_path / "guided", replace(GUIDED, seed=9), True) == GUIDED
    with pytest.raises(ValueError, match=r"contains images of .*, guidance 2\.5, not of .*, guidance 2;"):
        open_folder(tmp_path / "guided", replace(GUIDED, guidance=2.0), False)
    older = {"model": "mnist-small", "n": 12, "seed": 7, "temperature": 1.0}
    (tmp_path / "recipe.json").write_text(json.dumps(older))
    assert open_folder(tmp_path, RECIPE, False) == RECIPE


def test_a_folder_is_of_the_model_that_painted_it_first(tmp_path: Path) -> None:
    recipe = open_folder(tmp_path, RECIPE, False)
    assert with_digest(tmp_path, recipe, ["a", "b"]).digest == "a"
    recipe = open_folder(tmp_path, RECIPE, False)
    assert with_digest(tmp_path, recipe, ["b", "a"]).digest == "a"
    with pytest.raises(ValueError, match="contains images of mnist-small with other weights or of another build"):
        with_digest(tmp_path, recipe, ["b"])


def test_a_folder_with_other_images_or_a_broken_recipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "me.png").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"contains images but no recipe\.json"):
        open_folder(tmp_path, RECIPE, False)
    (tmp_path / "recipe.json").write_text("{")
    with pytest.raises(ValueError, match="is not a recipe of an earlier run"):
        open_folder(tmp_path, RECIPE, False)


def test_images_are_written_as_they_come(tmp_path: Path) -> None:
    folder = painted(tmp_path, 3, 11)
    assert np.asarray(Image.open(tmp_path / "03.png")).tobytes() == IMAGE
    assert folder.result() == [2.5, 2.5]
    assert missing_images(tmp_path, 12) == (0, 1, 2, 4, 5, 6, 7, 8, 9, 10)
    (tmp_path / "00.png").touch()
    assert 0 in missing_images(tmp_path, 12)


def test_an_image_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=f"^{tmp_path / 'gone'}: No such file or directory\\.$"):
        painted(tmp_path / "gone", 3)


def test_an_unreachable_cluster_is_reported(tmp_path: Path) -> None:
    ran = scanline("sample", "--cluster", "127.0.0.1:1", "-n", 3, "--out", tmp_path / "out")
    assert ran.status == 2
    assert ran.err.startswith("scanline: --cluster 127.0.0.1:1: cannot connect to the Ray cluster (")
    assert "refused" in ran.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--out", "sheet.png"), "--out sheet.png: --cluster writes into a folder"),
        (
            ("--device", "cpu"),
            "--device, --precision and --backend are settings of the service; leave them out with --cluster",
        ),
        (
            ("--backend", "cpu"),
            "--device, --precision and --backend are settings of the service; leave them out with --cluster",
        ),
    ],
)
def test_options_that_exclude_cluster_are_refused(options: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    assert refused("sample", "--cluster", "127.0.0.1:1", "--out", tmp_path / "out", *options) == sentence
