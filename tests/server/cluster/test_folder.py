"""The folder of `scanline sample --cluster`: its recipe, its missing images,
and files that do not belong to it.
"""

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.base.inputs import InvalidInput
from scanline.model.inference import load
from scanline.model.sampling.base.messages import Finished, GenerateRequest
from scanline.server.cluster import folder as folders
from scanline.server.cluster.folder import (
    FolderTask,
    Recipe,
    missing_images,
    open_folder,
    with_digest,
)
from scanline.server.engine.job import EngineFailedError
from tests.support import shapes
from tests.support.cluster.local_replicas import local_pool
from tests.support.commands import scanline

RECIPE = Recipe("mnist-small", 12, 7, sampling={"temperature": 1.0})
SEVENS = replace(RECIPE, class_name="7")
GUIDED = replace(SEVENS, sampling={"guidance": 2.5})
OTHERS = {  # one recipe, another that needs another folder, the words about it
    "model": (
        RECIPE,
        replace(RECIPE, model="cifar10-small"),
        "images of mnist-small, n 12, seed 7, ",
    ),
    "n": (RECIPE, replace(RECIPE, n=13), "n 12, seed 7, temperature 1, not of"),
    "seed": (RECIPE, replace(RECIPE, seed=8), "n 12, seed 7, temperature 1, not of"),
    "class": (RECIPE, SEVENS, "n 12, seed 7, temperature 1, not of"),
    "no class": (SEVENS, RECIPE, "n 12, seed 7, class 7, temperature 1, not of"),
    "guidance": (SEVENS, GUIDED, r"class 7, temperature 1, not of .*, class 7, guidance 2\.5;"),
    "other guidance": (
        GUIDED,
        replace(GUIDED, sampling={"guidance": 2.0}),
        r", guidance 2\.5, not of .*, guidance 2;",
    ),
}
IMAGE = bytes(range(35))


def painted(out: Path, *indices: int) -> FolderTask:
    folder = FolderTask(GenerateRequest(0, 12, 7), out, (7, 5), lambda done, total: None)
    for index in indices:
        folder.receive(Finished(0, index, IMAGE, 2.5))
    assert len([*folder.work()]) == len(indices)
    return folder


@pytest.mark.parametrize("what", OTHERS)
def test_another_recipe_needs_another_folder(tmp_path, what):
    one, other, words = OTHERS[what]
    assert open_folder(tmp_path / "new", one, False) == one
    # a random seed gives way
    assert open_folder(tmp_path / "new", replace(one, seed=99), True) == one
    with pytest.raises(ValueError, match=f"contains .*{words}"):
        open_folder(tmp_path / "new", other, False)


def test_a_folder_is_of_the_model_that_painted_it_first(tmp_path):
    for served in (["a", "b"], ["b", "a"]):
        assert with_digest(tmp_path, open_folder(tmp_path, RECIPE, False), served).digest == "a"
    with pytest.raises(
        ValueError, match="contains images of mnist-small with other weights or of another build"
    ):
        with_digest(tmp_path, open_folder(tmp_path, RECIPE, False), ["b"])


def test_a_folder_with_other_images_or_a_broken_recipe_is_refused(tmp_path):
    (tmp_path / "me.png").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"contains images but no recipe\.json"):
        open_folder(tmp_path, RECIPE, False)
    (tmp_path / "recipe.json").write_text("{")
    with pytest.raises(ValueError, match="is not a recipe of an earlier run"):
        open_folder(tmp_path, RECIPE, False)


def test_images_are_written_as_they_come(tmp_path):
    folder = painted(tmp_path, 3, 11)
    assert np.asarray(Image.open(tmp_path / "03.png")).tobytes() == IMAGE
    assert folder.result().bits_per_dim == [2.5, 2.5]
    (tmp_path / "00.png").touch()
    assert missing_images(tmp_path, 12) == (0, 1, 2, 4, 5, 6, 7, 8, 9, 10)


def test_an_image_that_cannot_be_written_ends_the_run(tmp_path):
    with pytest.raises(
        EngineFailedError, match=f"^{tmp_path / 'gone'}: No such file or directory\\.$"
    ):
        painted(tmp_path / "gone", 3)


async def test_a_written_number_is_a_list(digits_directory, tmp_path, monkeypatch):
    """As without a cluster: one image of each class, however many images there are by default."""

    @asynccontextmanager
    async def connect(address, model, images):
        async with local_pool(digits_directory) as (_, pool):
            yield pool

    monkeypatch.setattr(folders, "connect", connect)
    asked = Recipe("digits", None, 3, "2026")
    shown = list[tuple[int, int]]()

    async def painted_images(recipe):
        n, bits = await folders.paint_folder(
            "", recipe, tmp_path, lambda *now: shown.append(now), 5
        )
        return n, len(bits)

    assert await painted_images(open_folder(tmp_path, asked, False)) == (4, 4)
    assert shown == [(done, 4) for done in range(5)]
    row = load(digits_directory, device="cpu").sample(class_name=["2", "0", "2", "6"], seed=3)
    for index, image in enumerate(row):
        np.testing.assert_array_equal(Image.open(tmp_path / f"{index}.png"), image)
    assert (
        tmp_path / "classes.csv"
    ).read_text() == "image,class\n0.png,2\n1.png,0\n2.png,2\n3.png,6\n"
    (tmp_path / "2.png").unlink()
    assert await painted_images(open_folder(tmp_path, asked, False)) == (4, 1)
    assert await painted_images(open_folder(tmp_path, asked, False)) == (4, 0)
    with pytest.raises(
        ValueError, match="n 4, seed 3, class 2026, not of digits, n 3, seed 3, class 2026;"
    ):
        open_folder(tmp_path, replace(asked, n=3), False)
    with pytest.raises(
        InvalidInput, match="n must be 4, the number of classes that are listed, or be left out"
    ):
        await painted_images(replace(asked, n=6))
    assert await painted_images(Recipe("digits", None, 3, "horse")) == (5, 1)


@pytest.mark.parametrize(("asked", "most"), [({"best_of": 3}, 3), ({}, 8)])
async def test_the_best_of_several_is_that_of_this_machine(tmp_path, monkeypatch, asked, most):
    directory = shapes.save(tmp_path / "shapes", shapes.GUIDED, class_head=True)
    (directory / "generation_config.json").write_text('{"best_of": 2}')

    @asynccontextmanager
    async def connect(address, model, images):
        assert images == 2 * most * 4
        async with local_pool(directory) as (_, pool):
            yield pool

    monkeypatch.setattr(folders, "connect", connect)
    recipe = Recipe("shapes", 4, 3, "star", asked)
    out = tmp_path / "out"
    n, bits = await folders.paint_folder(
        "", open_folder(out, recipe, False), out, lambda *now: None, 5
    )
    assert (n, len(bits)) == (4, 4)
    here = load(directory, device="cpu").sample(4, class_name="star", seed=3, **asked)
    for index, image in enumerate(here):
        np.testing.assert_array_equal(Image.open(out / f"{index}.png"), image)


def test_an_unreachable_cluster_is_reported(tmp_path):
    ran = scanline("sample", "--cluster", "127.0.0.1:1", "-n", 3, "--out", tmp_path / "out")
    assert ran.status == 2
    assert ran.err.startswith(
        "scanline: --cluster 127.0.0.1:1: cannot connect to the Ray cluster ("
    )
    assert "refused" in ran.err
