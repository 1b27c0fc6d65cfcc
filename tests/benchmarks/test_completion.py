"""The benchmark of completions runs to its end on tiny models, and its last line is JSON."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import completion
from scanline.model.config import ModelConfig
from scanline.model.evaluation.classifier import Classifier
from tests.support import small_models

SIZES = {"height": 8, "width": 8, "layers": 1}
CONFIGS = {
    "mnist": small_models.config(**SIZES, **small_models.VARIANTS["strokes"]),
    "cifar10": small_models.config(**SIZES, **small_models.VARIANTS["pixels"]),
}


def no_classifier(name: str, folder: Path, config: ModelConfig, cache: Path | None) -> Classifier:
    torch.manual_seed(0)
    return Classifier(config.height, config.width, config.channels).eval()


def test_it_prints_tables_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    images = {name: small_models.images(config, 3) for name, config in CONFIGS.items()}
    monkeypatch.setattr(completion.zoo, "find", lambda name: name)
    monkeypatch.setattr(completion, "load_model", lambda name: small_models.model(CONFIGS[name.split("-")[0]]))
    monkeypatch.setattr(completion.datasets, "load", lambda name, folder, split: images[name])
    monkeypatch.setattr(completion.datasets, "labels", lambda name, *_: np.arange(3, dtype=np.uint8))
    monkeypatch.setattr(completion, "classifier_of", no_classifier)
    options = ["--images", "3", "2", "--particles", "1", "4", "--threads", "1"]
    monkeypatch.setattr("sys.argv", ["completion", "--data", str(tmp_path), *options])
    completion.main()
    *printed, last = capsys.readouterr().out.splitlines()
    results = json.loads(last)["results"]
    for name, count in (("mnist", 3), ("cifar10", 2)):
        assert results[name]["images"] == count
        rows = results[name]["rows"]
        assert [(row["mask"], row["particles"]) for row in rows] == [(m, p) for m in completion.MASKS for p in (1, 4)]
        assert all(1 <= row["least"] <= row["median"] <= row["particles"] for row in rows)
        assert all(0 <= row["resampling"] < 1 for row in rows)
        assert all((row["class"] is None) == (name == "cifar10") for row in rows)
    assert sum(line.startswith("| band | 4 |") for line in printed) == 2
