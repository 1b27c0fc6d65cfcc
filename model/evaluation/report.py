"""The quality report: one HTML file that needs nothing else, readable on a light and on a dark page."""

import os
from datetime import UTC, datetime
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scanline.model.atomic import write_file
from scanline.model.config import ModelConfig
from scanline.model.evaluation.class_section import class_section
from scanline.model.evaluation.classes import ClassMeasurements
from scanline.model.evaluation.comparison import COMPLETIONS, NEIGHBOURS, Comparison
from scanline.model.evaluation.figures import data_url, picture, plots, sheets
from scanline.model.evaluation.metrics import card_rows
from scanline.model.extras import MissingExtraError

REPORT = "report.html"
PREDICTED = {  # by ModelConfig.predicts
    "logistics": "a mixture of logistics for a byte",
    "categorical": "256 probabilities for a byte",
    "pixel_logistics": "a mixture of logistics for a pixel, whose channels are conditioned on each other",
}
PAGE = (Path(__file__).parent / "report.template").read_text()


def check_report(path: Path) -> None:
    """Raise ValueError where no report can be drawn, or none written to `path`."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a report (--samples 0 writes none)", "train")
    if path.suffix.lower() != ".html":
        raise ValueError(f"--report {path}: a report is a .html file")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--report {path}: there is no directory {path.parent}")
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"{path} cannot be written; give --report PATH.html, or --samples 0")


def save_report(
    name: str,
    config: ModelConfig,
    evaluation: dict[str, Any],
    compared: Comparison,
    path: Path,
    classes: ClassMeasurements | None = None,
) -> None:
    """Write the report of a model, atomically; `evaluation` is what evaluation.json holds, with "quality", and with
    "classes" where there are measurements of these."""
    page = _page(name, config, evaluation, compared, classes)
    write_file(path, page)


def _page(
    name: str, config: ModelConfig, evaluation: dict[str, Any], compared: Comparison, classes: ClassMeasurements | None
) -> str:
    """Fill in the template, which formats the numbers itself."""
    quality = evaluation["quality"]
    images = {key: f'src="{data_url(png)}"' for key, png in plots(compared).items()}
    images |= {key: picture(sheet) for key, sheet in sheets(compared, config).items()}
    return PAGE.format(
        name=escape(name),
        config=config,
        steps=f"{config.steps:,}",
        predicted=PREDICTED[config.predicts],
        card=escape(card_rows(evaluation)),
        date=datetime.now(UTC).date().isoformat(),
        dataset={"mnist": "MNIST", "cifar10": "CIFAR-10"}[compared.data.dataset],
        test_images=len(compared.data.test),
        evaluation=evaluation,
        quality=quality,
        bits=quality["sample_bits_per_dim"],
        frechet=quality["frechet_distance"],
        recognisable=quality["recognisable"],
        near=quality["nearest_training_image"],
        neighbours=NEIGHBOURS,
        completions=COMPLETIONS,
        classes="" if classes is None else class_section(config, evaluation, classes),
        images=images,
    )
