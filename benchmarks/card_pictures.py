"""Pictures of a shipped model's card, painted anew after its weights have changed.

    python -m benchmarks.card_pictures MODEL [--into FOLDER]

All are of seed 7 and unpicked, and those of one command of the card are that command's bytes:
samples.png, of a model with classes also classes.png, and where the model can be guided
any.png, by the model's defaults, and guided.png. On completions.png are the first six
samples, of which the upper half is kept.
"""

import argparse
from pathlib import Path

import numpy as np

from scanline.model import zoo
from scanline.model.base.sampling_options import Defaults
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import read_defaults
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.images.saving import save_classes, save_images
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint_requests

SEED = 7
GUIDANCE = 2.0
SAMPLES = 64
OF_EACH_CLASS = 10
# samples, and completions of each
COMPLETED = 6
COMPLETIONS = 8


def paint_pictures(model: Transformer, defaults: Defaults, into: Path) -> None:
    """Write the pictures of a model's card into a folder."""
    config = model.config
    samples = _paint(model, [GenerateRequest(0, SAMPLES, SEED)])[0]
    save_images(samples, into / "samples.png")
    completed = _completions(model, samples[:COMPLETED])
    save_images(completed, into / "completions.png", columns=COMPLETIONS + 2)
    if config.classes:
        save_classes(_of_each_class(model, 1.0), config.class_names, into / "classes.png")
    if config.can_be_guided:
        by_default = GenerateRequest(0, SAMPLES, SEED, **vars(defaults.to_paint(config)))
        save_images(_paint(model, [by_default])[0], into / "any.png")
        save_classes(_of_each_class(model, GUIDANCE), config.class_names, into / "guided.png")


def _completions(model: Transformer, originals: np.ndarray) -> np.ndarray:
    """Return what is kept of each of the originals [n, H, W] or [n, H, W, 3], its completions and
    the original, all one after the other."""
    known = np.zeros(originals.shape[1:], np.uint8)
    known[: model.config.height // 2] = 1
    masks = (known.tobytes(),)
    requests = [
        GenerateRequest(0, COMPLETIONS, SEED, known=(original.tobytes(),), masks=masks)
        for original in originals
    ]
    occluded = np.where(known, originals, np.uint8(UNPAINTED))
    painted = _paint(model, requests)
    rows = np.concatenate((occluded[:, None], painted, originals[:, None]), axis=1)
    return rows.reshape(-1, *originals.shape[1:])


def _of_each_class(model: Transformer, guidance: float) -> np.ndarray:
    """Return samples of each class, [classes, images, H, W] or [classes, images, H, W, 3]."""
    labels = range(1, len(model.config.classes) + 1)
    requests = [
        GenerateRequest(0, OF_EACH_CLASS, SEED, label=label, guidance=guidance) for label in labels
    ]
    return _paint(model, requests)


def _paint(model: Transformer, requests: list[GenerateRequest]) -> np.ndarray:
    """Return the images of requests for as many each, [requests, images, H, W] or
    [requests, images, H, W, 3]."""
    images = np.stack([painted.images for painted in paint_requests(model, requests)])
    return images.reshape(*images.shape[:2], *model.config.image_shape)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="name of a shipped model, or a model directory")
    parser.add_argument("--into", type=Path, help="folder of the pictures; by default the model's")
    options = parser.parse_args()
    directory = zoo.find(options.model)
    into = options.into or directory
    into.mkdir(parents=True, exist_ok=True)
    model = load_model(directory)
    paint_pictures(model, read_defaults(directory, model.config), into)


if __name__ == "__main__":
    main()
