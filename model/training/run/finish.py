"""The end of a run: the class head, test bits/dim of the model as it was saved, evaluation.json, a
sheet of samples of each class, and the model card."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from scanline.model.base.precision import DEFAULT
from scanline.model.datasets.source import ImageSet
from scanline.model.evaluation.classes import answers_by_head
from scanline.model.evaluation.comparison import Stage
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import bits_figures, test_figures
from scanline.model.formats.checkpoint import load_model, save_class_head
from scanline.model.formats.model_dir import EVALUATION, write_evaluation
from scanline.model.images import contact_sheet
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint_requests
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.positions import PositionSampler
from scanline.model.training.run.card import CLASS_SHEET, write_card
from scanline.model.training.run.class_head import fit_class_head
from scanline.model.training.run.curve import Row
from scanline.model.training.run.record import Run

# bytes of test images, images
TESTED_BYTES = 2_000_000
MIN_TESTED = 20
# classes on the sheet, samples of each
ROWS = 10
OF_EACH = 8
HEAD_IMAGES = 10_000  # that the class head is fitted to: a minute of two cores


def finish(
    directory: Path,
    config: TrainingConfig,
    run: Run,
    images: ImageSet,
    last: Row,
    device: torch.device | str,
    stage: Stage = lambda what, total, unit: lambda done: None,
) -> dict[str, Any]:
    """Measure the model in `directory`, whose run ended with the row `last`, write its card,
    and write and return its evaluation.

    stage: called at the start of scoring, returns what is called with its progress.
    """
    model = load_model(directory, torch.device(device))
    test = images.test[: max(TESTED_BYTES // model.config.bytes, MIN_TESTED)]
    bits = bits_per_dim(model, test, progress=stage("scoring test images", len(test), "images"))
    evaluation: dict[str, Any] = {
        "dataset": run.published or images.name or Path(run.data).name,
        "split": "test",
        "precision": DEFAULT,
        **test_figures(bits, test, model.config),
    }
    if images.labels is not None:
        labels = images.labels.test[: len(test)]
        progress = stage("scoring test images with their class", len(test), "images")
        with_class = bits_per_dim(model, test, progress=progress, labels=labels)
        evaluation["classes"] = {"true_class": bits_figures(with_class)}
        progress = stage("fitting the class head", min(HEAD_IMAGES, len(images.train)), "images")
        model.class_head, _ = fit_class_head(
            model, images.train, images.labels.train, HEAD_IMAGES, progress
        )
        save_class_head(model.class_head, directory)
        by_head = answers_by_head(model, test, labels - 1, stage)
        if by_head is not None:
            evaluation["classes"]["by_head"] = by_head.figures()
        _paint_classes(model, directory / CLASS_SHEET, config.seed, stage)
    # of a run that was resumed it has figures of the weights before
    (directory / EVALUATION).unlink(missing_ok=True)
    write_evaluation(directory, evaluation)
    positions = PositionSampler(images.train, config, model.config).count
    write_card(
        directory,
        model.parameter_count,
        model.config,
        config,
        run,
        images,
        evaluation,
        last,
        positions,
        str(device),
    )
    return evaluation


def _paint_classes(model: Transformer, path: Path, seed: int, stage: Stage) -> None:
    """Write a sheet with a row of samples for each of the first classes."""
    names = model.config.class_names[:ROWS]
    progress = stage("painting samples of each class", len(names), "classes")
    labels = range(1, len(names) + 1)
    requests = [GenerateRequest(0, OF_EACH, seed, label=label) for label in labels]
    images = np.stack([painted.images for painted in paint_requests(model, requests)])
    progress(len(names))
    rows = images.reshape(len(names), OF_EACH, *model.config.image_shape)
    contact_sheet.write(contact_sheet.class_sheet(rows, names), path)
