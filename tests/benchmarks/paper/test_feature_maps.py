"""The comparison of feature maps trains each on both tasks, and says what a map's features cost."""

import struct
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import copy_task, feature_maps
from benchmarks.paper.encoder import Sizes
from benchmarks.paper.equal_work import QUICK_CONFIG
from benchmarks.paper.maps import MAPS, features
from benchmarks.paper.results import Results
from scanline.model.datasets.mnist import FILES, MAGIC

TINY = copy_task.Task(Sizes(1, 2, 8, 16), longest=16, batch=4, updates=4, drop=2, points=2)


@pytest.mark.slow
def test_every_map_is_trained_on_both_tasks(
    tmp_path: Path, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_task, "QUICK", TINY)
    monkeypatch.setattr(feature_maps, "QUICK_MNIST_UPDATES", 2)
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, _ in FILES.values():
        header = struct.pack(">IIII", MAGIC, len(images), 28, 28)
        (folder / name).write_bytes(header + images.tobytes())
    results = Results(tmp_path / "out", "feature-maps", quick=True, data=tmp_path)
    feature_maps.run(results, quick=True)
    rows = {line.split("|")[1].strip(): line for line in feature_maps.section(results).splitlines() if "|" in line}
    for name in MAPS:
        point = results.get(f"mnist/{name}")
        assert point is not None
        width = features(name, QUICK_CONFIG.key_width)
        assert point["state_bytes"] == 4 * QUICK_CONFIG.layers * QUICK_CONFIG.heads * width * 9
        assert f" {point['state_bytes']:,} |" in rows[name]
        assert 0 < point["bits_per_dim"] < 20
        assert point["updates"] == list(range(1, feature_maps.QUICK_MNIST_UPDATES + 1))
    assert len({tuple(results.points[f"copy/{name}"]["loss"]) for name in MAPS}) == len(MAPS)
    assert {path.name for path in results.plots.iterdir()} == {"feature-maps-copy.png", "feature-maps-mnist.png"}
