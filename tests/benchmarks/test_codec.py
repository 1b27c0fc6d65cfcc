"""The benchmark of codes runs to its end on tiny models, and its last line is JSON."""

import json
from pathlib import Path

import pytest

from benchmarks import codec
from tests.support import small_models

CONFIGS = {
    "mnist": small_models.config(height=8, width=8, layers=1),
    "cifar10": small_models.config(height=8, width=8, layers=1, **small_models.VARIANTS["pixels"]),
}


def test_it_prints_tables_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    images = {name: small_models.images(config, 3) for name, config in CONFIGS.items()}
    monkeypatch.setattr(codec.zoo, "find", lambda name: name)
    monkeypatch.setattr(codec, "load_model", lambda name: small_models.model(CONFIGS[name.split("-")[0]]))
    monkeypatch.setattr(codec.datasets, "load", lambda name, folder, split: images[name])
    monkeypatch.setattr("sys.argv", ["codec", "--data", str(tmp_path), "--images", "3", "2", "--whole"])
    codec.main()
    results = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    for name, count in (("mnist", 3), ("cifar10", 2)):
        found = results[name]
        bits = found["bits_per_dim"]
        assert found["images"] == count
        assert 0 < bits["a file"] < bits["score"] + 8 * 70 / (count * CONFIGS[name].bytes)
        assert {"PNG", "WebP", "xz, all in one"} <= {*bits}
        assert {*found["images_per_second"]} == {"score", "encode", "paint", "decode", "decode by default"}
