"""`scanline sample --cluster` against a service: a folder that a later run completes."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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


def test_a_model_that_is_not_served_is_refused(address: str, tmp_path: Path) -> None:
    guided = sample(address, tmp_path / "guided", "-n", 3, "--guidance", 2)
    assert (guided.status, guided.err) == (2, "scanline: guidance needs a class, or a prompt that names one.\n")
    ran = sample(address, tmp_path / "out", "--model", "cifar10-small")
    assert ran.status == 2
    assert ran.err == "scanline: --model cifar10-small: the cluster does not serve it; it serves mnist-small\n"
