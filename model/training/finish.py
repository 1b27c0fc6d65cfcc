"""The end of a run: test bits/dim of the model as it was saved, evaluation.json, and the model card."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from scanline.model.datasets.source import ImageSet
from scanline.model.evaluation.evaluate import bits_per_dim
from scanline.model.evaluation.metrics import standard_error
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import write_evaluation
from scanline.model.precision import DEFAULT
from scanline.model.training.card import write_card
from scanline.model.training.config import TrainingConfig
from scanline.model.training.curve import Row
from scanline.model.training.run import Run

TESTED_BYTES, LEAST_TESTED = 2_000_000, 20  # bytes of test images, images


def finish(
    directory: Path,
    config: TrainingConfig,
    run: Run,
    images: ImageSet,
    last: Row,
    device: torch.device | str,
    stage: Callable[[str, int, str], Callable[[int], None]] = lambda what, total, unit: lambda done: None,
) -> dict[str, Any]:
    """Measure the model in `directory`, whose run ended with the row `last`, and write its evaluation and its card.

    Returns the evaluation. stage: called at the start of scoring, returns what is called with its progress.
    """
    model = load_model(directory, torch.device(device))
    test = images.test[: max(TESTED_BYTES // model.config.bytes, LEAST_TESTED)]
    bits = bits_per_dim(model, test, progress=stage("scoring test images", len(test), "images"))
    found = {
        "dataset": run.published or Path(run.data).name,
        "split": "test",
        "precision": DEFAULT,
        "bits_per_dim": float(bits.mean()),
        "standard_error": standard_error(bits),
        "images": len(bits),
    }
    write_evaluation(directory, found)
    write_card(directory, model.parameter_count, model.config, config, run, found, last, str(device))
    return found
