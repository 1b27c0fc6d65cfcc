"""Paint the pictures of a shipped model's card anew, after its weights have changed.

    python -m benchmarks.card_pictures MODEL [--into FOLDER]

All are of seed 7 and unpicked, and those of one command of the card are that command's bytes: samples.png, of a model
with classes also classes.png, and where the model can be guided any.png and guided.png. On completions.png are the
first six samples, of which the upper half is kept.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from scanline.model import zoo
from scanline.model.atomic import write_atomically
from scanline.model.contact_sheet import UNPAINTED, class_sheet, sheet
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.sampling.offline import paint_requests

SEED, GUIDANCE = 7, 2.0
SAMPLES, OF_EACH_CLASS = 64, 10
COMPLETED, COMPLETIONS = 6, 8  # samples, and completions of each


def pictures(model: Transformer) -> dict[str, Image.Image]:
    """Return the pictures of a model's card by the names of their files."""
    config = model.config
    samples = _paint(model, GenerateRequest(0, SAMPLES, SEED))[0]
    found = {"samples.png": sheet(samples), "completions.png": _completions(model, samples[:COMPLETED])}
    if config.classes:
        found["classes.png"] = _classes(model, 1.0)
    if config.can_be_guided:
        drawn = GenerateRequest(0, SAMPLES, SEED, label=-len(config.classes), guidance=GUIDANCE)
        found |= {"any.png": sheet(_paint(model, drawn)[0]), "guided.png": _classes(model, GUIDANCE)}
    return found


def _completions(model: Transformer, originals: np.ndarray) -> Image.Image:
    """A row for each of the originals [n, H, W] or [n, H, W, 3]: what is kept of it, its completions, the original."""
    known = np.zeros(originals.shape[1:], np.uint8)
    known[: model.config.height // 2] = 1
    requests = [
        GenerateRequest(number, COMPLETIONS, SEED, known=(original.tobytes(),), masks=(known.tobytes(),))
        for number, original in enumerate(originals)
    ]
    completed = _paint(model, *requests)
    occluded = np.where(known, originals, np.uint8(UNPAINTED))
    rows = np.concatenate((occluded[:, None], completed, originals[:, None]), axis=1)
    return sheet(rows.reshape(-1, *originals.shape[1:]), columns=rows.shape[1])


def _classes(model: Transformer, guidance: float) -> Image.Image:
    """A row of samples of each class."""
    requests = [
        GenerateRequest(number, OF_EACH_CLASS, SEED, label=number + 1, guidance=guidance)
        for number in range(len(model.config.classes))
    ]
    return class_sheet(_paint(model, *requests), model.config.class_names)


def _paint(model: Transformer, *requests: GenerateRequest) -> np.ndarray:
    """Return the images of requests for as many each, [requests, images, H, W] or [requests, images, H, W, 3]."""
    painted = np.stack([one.images for one in paint_requests(model, requests)])
    return painted.reshape(*painted.shape[:2], *model.config.image_shape)


def save(picture: Image.Image, path: Path) -> None:
    write_atomically(path, lambda temporary: picture.save(temporary, format="PNG"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name of a shipped model, or a model directory")
    parser.add_argument("--into", type=Path, help="folder of the pictures; by default the model's")
    options = parser.parse_args()
    directory = zoo.find(options.model)
    into = options.into or directory
    into.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures(load_model(directory)).items():
        save(picture, into / name)
        print(into / name)


if __name__ == "__main__":
    main()
