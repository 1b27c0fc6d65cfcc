"""scanline evaluate: test bits/dim, and the comparison of samples with test images."""

import json
import os
import re
from dataclasses import replace

import pytest

from scanline.model.datasets import WORDS
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.formats import model_dir as model_directory
from scanline.model.formats.checkpoint import load_model, save_model
from tests.support import blobs, small_models
from tests.support.commands import done, refused, scanline

TESTS = 100  # test images
SAMPLES = 50
CONFIG = small_models.config(height=28, width=28, layers=1, heads=1)
OF_CLASSES = {"classes": WORDS["mnist"], "predicts": "categorical"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("evaluate") / "data"
    directory.mkdir()
    blobs.write(directory, {"train": 300, "t10k": TESTS})
    return directory


@pytest.fixture(scope="module", autouse=True)
def cache(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(data.parent / "cache"))
        yield


@pytest.fixture
def directory(tmp_path):
    save_model(small_models.model(CONFIG), tmp_path / "blotter")
    return tmp_path / "blotter"


def test_bits_alone(data, directory):
    command = ("evaluate", directory, "--data", data, "--samples", 0, "--json")
    images = blobs.images(TESTS, seed=1)
    result = json.loads(done(*command, "--save"))
    alone = bits_per_dim(load_model(directory), images.reshape(TESTS, 784))
    assert (result["dataset"], result["split"], result["images"]) == ("mnist", "test", TESTS)
    assert result["bits_per_dim"] == pytest.approx(alone.mean())
    assert result["standard_error"] == pytest.approx(alone.std(ddof=1) / TESTS**0.5)
    assert model_directory.tested_bits_per_dim(directory) == result["bits_per_dim"]
    assert "quality" not in result
    result = json.loads(done(*command, "--images", 2, "--backend", "eager"))
    eager = bits_per_dim(load_model(directory), images[:2].reshape(2, 784), backend="eager")
    assert result["bits_per_dim"] == eager.mean()


def test_a_model_that_knows_the_classes_is_measured_by_class_and_with_each_guidance(data, tmp_path):
    save_model(small_models.model(replace(CONFIG, **OF_CLASSES)), tmp_path / "ten")
    few = ("--samples", SAMPLES, "--classified", 3, "--class-samples", 2)
    weights = ("--guidance", 1, "--guidance", 2, "--guidance", 1.5, "--guidance", 2)
    more = ("--seeds", 2, "--completed", 1, "--unlike", data)
    lines = done("evaluate", tmp_path / "ten", "--data", data, *few, *weights, *more, "--save")
    result = model_directory.read_evaluation(tmp_path / "ten")
    saved = load_model(tmp_path / "ten")
    test = blobs.images(TESTS, seed=1).reshape(TESTS, 784)
    labels = blobs.labels(TESTS, seed=1).astype(int) + 1
    assert result["bits_per_dim"] == pytest.approx(bits_per_dim(saved, test).mean())
    true = result["classes"]["true_class"]
    assert true["bits_per_dim"] == pytest.approx(bits_per_dim(saved, test, labels=labels).mean())
    assert (true["images"], result["classes"]["classification"]["images"]) == (TESTS, 3)
    assert result["classes"]["samples"]["each"] == 2
    assert [row["guidance"] for row in result["guidance"]["rows"]] == [1, 2, 1.5]
    assert result["seeds"]["seeds"] == [0, 1]
    assert [row["particles"] for row in result["completions"]["rows"]] == 3 * [1, 16, 64]
    assert "1 test images without a band, 16 particles: " in lines
    # half of the area: the same images
    (unlike,) = result["unlike"]
    assert unlike["auroc_of_bits"] == 0.5
    said = refused("evaluate", tmp_path / "ten", "--data", data, "--best-of", 2)
    assert said == "--best-of needs a class head, which the model does not have"
    assert re.search(
        r"^test bits/dim with the true class: \d+\.\d{3} \+- \d\.\d{4} on \d+ test images$",
        lines,
        re.MULTILINE,
    )
    assert re.search(
        r"^classification by the bits under every class: .+% of 3 test images", lines, re.MULTILINE
    )
    found = re.findall(r"^2 samples of each class, (guidance .*?):", lines, re.MULTILINE)
    assert "recognisable: " in lines
    first, *others = (f"guidance {weight:g}, temperature 1" for weight in (1, 2, 1.5))
    assert found == [f"{first} (the default)", *others]


def test_too_few_images_and_a_cache_that_is_a_file_are_refused(data, directory, tmp_path):
    command = ("evaluate", directory, "--data", data, "--samples", SAMPLES)
    said = refused(*command, "--images", TESTS - 1)
    assert said.startswith("99 test images are too few to compare with; use at least 100")
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file" in refused(*command, "--cache", tmp_path / "file")


def test_a_directory_that_cannot_be_written(data, directory):
    directory.chmod(0o555)
    if os.access(directory, os.W_OK):
        pytest.skip("nothing is closed to root")
    ran = scanline("evaluate", directory, "--data", data, "--samples", SAMPLES, "--save")
    directory.chmod(0o755)
    assert (ran.status, ran.out) == (2, "")
    assert f"{directory}" in ran.err
    assert "leave out --save" in ran.err


def test_samples_need_labels_and_bits_alone_do_not(tmp_path, directory):
    blobs.write(tmp_path, {"train": 100, "t10k": 100})
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    said = refused("evaluate", directory, "--data", tmp_path, "--samples", SAMPLES)
    assert said == f"{tmp_path} has neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz"
    assert " bits/dim on 100 test images of mnist\n" in done(
        "evaluate", directory, "--data", tmp_path, "--samples", 0
    )
