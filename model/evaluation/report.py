"""The report: one HTML file with everything in it, readable on a light and a dark page, without a network."""

import os
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from scanline.model.atomic import write_atomically
from scanline.model.config import ModelConfig
from scanline.model.evaluation import contact_sheets, plots
from scanline.model.evaluation.contact_sheets import Picture
from scanline.model.evaluation.samples import COMPLETIONS, NEIGHBOURS, Evidence

REPORT = "report.html"
SCALE = 2  # of sheets
PAGE = Template((Path(__file__).parent / "report.template").read_text())


def check_report(path: Path) -> None:
    """ValueError or OSError where no report can be made or written; asked before the work, not after it."""
    if find_spec("matplotlib") is None:
        raise ValueError("the report's plots are drawn with matplotlib; install scanline[train], or give --samples 0")
    if path.suffix.lower() != ".html":
        raise ValueError(f"--report {path}: a report is a .html file")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--report {path}: there is no directory {path.parent}")
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"{path} cannot be written; give --report PATH.html, or --samples 0")


def save_report(name: str, config: ModelConfig, evaluation: dict[str, Any], found: Evidence, path: Path) -> None:
    """Writes the page of a model; `evaluation` holds what figures.py describes under "quality"."""
    page = _page(name, config, evaluation, found)
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))


def _page(name: str, config: ModelConfig, evaluation: dict[str, Any], found: Evidence) -> str:
    quality = evaluation["quality"]
    frechet, near = quality["frechet_distance"], quality["nearest_training_image"]
    known = quality["recognisable"]
    return PAGE.substitute(
        name=escape(name),
        model=f"{config.size}, {config.layers} layers, width {config.model_width}, precision {evaluation['precision']}",
        date=datetime.now(UTC).date().isoformat(),
        samples=f"{quality['samples']:,}",
        seed=quality["seed"],
        dataset={"mnist": "MNIST", "cifar10": "CIFAR-10"}[found.dataset],
        test_images=f"{len(found.test):,}",
        training_images=f"{near['training_images']:,}",
        accuracy=_percent(quality["classifier"]["test_accuracy"]),
        sure=f"{known['confidence']:.0%}",
        sure_right=_percent(known["test_images_right"]),
        rows=_rows(evaluation, quality),
        compared=f"{frechet['images']:,}",
        against=f"{frechet['against']:,}",
        close=f"{near['close_is_below']:.1f}",
        copies=near["copies"],
        neighbours=NEIGHBOURS,
        completions=COMPLETIONS,
        bits=_plot(plots.bits, found, "Histogram of bits per dimension: samples and test images"),
        classes=_plot(plots.classes, found, "Classes that the classifier sees in samples and in test images"),
        distances=_plot(plots.distances, found, "Histogram of distances to the nearest training image"),
        sample_sheet=_sheet(contact_sheets.samples(found, config), "Samples"),
        test_sheet=_sheet(contact_sheets.tests(found, config), "Test images"),
        unrecognised=_sheet(contact_sheets.unrecognised(found, config), "Samples that the classifier is least sure of"),
        closest=_sheet(
            contact_sheets.closest(found, config), "The samples nearest to a training image, and those images"
        ),
        unchosen=_sheet(contact_sheets.unchosen(found, config), "The first samples and their nearest training images"),
        completed=_sheet(contact_sheets.completions(found, config), "Occluded test images, completions, originals"),
    )


def _rows(evaluation: dict[str, Any], quality: dict[str, Any]) -> str:
    own, frechet = quality["sample_bits_per_dim"], quality["frechet_distance"]
    known, near = quality["recognisable"], quality["nearest_training_image"]
    lines = (
        (
            "bits/dim under the model",
            f"{own['mean']:.3f} ± {own['standard_error']:.4f}",
            f"{evaluation['bits_per_dim']:.3f} ± {evaluation['standard_error']:.4f}",
        ),
        (
            "Fréchet distance in this classifier's features",
            f"{frechet['samples']:.3f}",
            f"{frechet['test_images']:.3f}",
        ),
        ("recognisable to this classifier", _percent(known["samples"]), _percent(known["test_images"])),
        (
            "median distance to the nearest training image",
            f"{near['samples_median']:.1f}",
            f"{near['test_images_median']:.1f}",
        ),
        ("least such distance", f"{near['samples_least']:.1f}", f"{near['test_images_least']:.1f}"),
        ("closer than that of 1% of test images", _percent(near["samples_close"]), _percent(near["test_images_close"])),
    )
    return "\n".join(f"<tr><th>{what}<td>{samples}<td>{tests}" for what, samples, tests in lines)


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _plot(draw: Callable[[Evidence, str], bytes], found: Evidence, label: str) -> str:
    light, dark = (_data(draw(found, theme)) for theme in ("light", "dark"))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return f'<picture>{source}<img class="plot" src="{light}" alt="{label}"></picture>'


def _sheet(picture: Picture, label: str) -> str:
    size = f'width="{SCALE * picture.width}" height="{SCALE * picture.height}"'
    return f'<img class="sheet" src="{_data(picture.png)}" {size} alt="{label}">'


def _data(png: bytes) -> str:
    return "data:image/png;base64," + b64encode(png).decode()
