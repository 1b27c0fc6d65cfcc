"""run.json: where the pictures and the first weights of a run are from, so that --resume
needs the model directory alone."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scanline.model.base.atomic import write_file
from scanline.model.base.named_files import read_file
from scanline.model.datasets.source import ImageSet
from scanline.model.formats.model_dir import RUN
from scanline.model.training.run.state import ResumeError


@dataclass(frozen=True)
class Run:
    """The options of a run, besides its model and recipe, and the images of its data."""

    data: str  # the path, absolute
    size: tuple[int, int] | None  # (W, H) to which pictures are resized
    grey: bool
    preset: str | None
    start: str | None  # the model whose weights it began with
    digest: str  # of the images
    published: str | None
    train: int  # images
    test: int
    duplicates: int
    refused: int
    classes: bool = False  # whether it learns the classes of the images
    layers: int | None = None  # to which layers were added to that model
    checkpoint_mb: float | None = None  # of all files of the run
    # of gradients in bfloat16, as a share of their norm, where products are float32 because of it
    rounding: float | None = None

    def save(self, directory: Path) -> None:
        """Write run.json, atomically."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        write_file(directory / RUN, text)


def describe(
    images: ImageSet,
    data: Path,
    size: tuple[int, int] | None,
    grey: bool,
    preset: str | None,
    start: str | None,
    layers: int | None,
    checkpoint_mb: float | None = None,
) -> Run:
    """Return the run of these images."""
    return Run(
        str(data.absolute()),
        size,
        grey,
        preset,
        start,
        images.digest,
        images.published,
        len(images.train),
        len(images.test),
        images.duplicates,
        len(images.refused),
        images.labels is not None,
        layers if start else None,
        checkpoint_mb,
    )


def load_run(directory: Path) -> Run | None:
    """Return the run of a model directory; None where it has no run.json. ResumeError where that is
    wrong."""
    path = directory / RUN
    if not path.exists():
        return None
    try:
        fields: dict[str, Any] = json.loads(read_file(path))
        size = fields["size"]
        return Run(**{**fields, "size": None if size is None else (int(size[0]), int(size[1]))})
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise ResumeError(f"{path} is not the record of a run") from None


def check_same_images(saved: Run, images: ImageSet) -> None:
    """ResumeError where the images are not those that the run was begun with."""
    if images.digest != saved.digest:
        now = len(images.train) + len(images.test)
        then = saved.train + saved.test
        classes = " or their classes" if saved.classes else ""
        raise ResumeError(
            f"the pictures in {saved.data}{classes} have changed since the run began: {then} then,"
            f" {now} now; a run resumes with the same pictures only, and --from continues from its"
            " weights with others"
        )
