"""`scanline sample --cluster` against a service: a folder that a later run completes."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.tasks.offline import paint, paint_request
from tests.support.cluster.cluster_service import Service, offline
from tests.support.commands import Ran, in_a_process


@pytest.fixture
def address(service: Service) -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address)


def sample(address: str, out: Path, *options: object) -> Ran:
    return in_a_process("sample", "--cluster", address, "--out", out, *options)


def pictures(folder: Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))])


def test_a_folder_is_painted_and_completed(address: str, tmp_path: Path) -> None:
    out = tmp_path / "samples"
    first = sample(address, out, "-n", 120, "--seed", 7, "--json")
    assert first.status == 0, first.err
    assert len(json.loads(first.out)["bits_per_dim"]) == 120
    assert np.array_equal(pictures(out), offline(120, 7))

    for index in (3, 50, 119):
        (out / f"{index:03}.png").unlink()
    kept = (out / "004.png").stat().st_mtime_ns
    again = sample(address, out, "-n", 120)
    assert (again.status, "3 of them painted in this run" in again.out) == (0, True), again
    assert np.array_equal(pictures(out), offline(120, 7))
    assert (out / "004.png").stat().st_mtime_ns == kept


def test_a_folder_of_guided_images_of_a_class(address: str, tmp_path: Path) -> None:
    options = ("-n", 3, "--seed", 7, "--class", "seven", "--guidance", 2)
    ran = sample(address, tmp_path / "sevens", *options, "--json")
    assert ran.status == 0, ran.err
    law = paint(load_model(zoo.find("mnist-small")), 3, seed=7, label=8, guidance=2)
    np.testing.assert_array_equal(pictures(tmp_path / "sevens").reshape(3, -1), law.images)
    options = ("-n", 4, "--seed", 7, "--class", "any", "--guidance", 2)
    ran = sample(address, tmp_path / "any", *options, "--json")
    assert ran.status == 0, ran.err
    request = GenerateRequest(0, 4, 7, guidance=2, drawn_classes=10)
    law = paint_request(load_model(zoo.find("mnist-small")), request)
    np.testing.assert_array_equal(pictures(tmp_path / "any").reshape(4, -1), law.images)
    without = sample(address, tmp_path / "threes", "-n", 3, "--seed", 7, "--guidance", 2)
    assert (without.status, without.err) == (
        2,
        "scanline: guidance needs a class, or a prompt that names one.\n",
    )


def test_a_model_that_is_not_served_is_refused(address: str, tmp_path: Path) -> None:
    ran = sample(address, tmp_path / "out", "--model", "cifar10-small")
    assert ran.status == 2
    assert ran.err == "scanline: --model cifar10-small: the cluster does not serve it; it serves mnist-small\n"
