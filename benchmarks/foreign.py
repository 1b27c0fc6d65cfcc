"""What a model says of test digits that have been through a codec: of IMAGES digits, the share that is classified
rightly, the share that is typical, and how many are wrong with a probability above 0.99, of these how many typical.

Each digit is read once for each class and each codec: 1,000 digits take hours of one core. After each 50 digits it
prints the figures so far. With --save the bits of each digit under each class are written, for other questions.

    python -m benchmarks.foreign --data DIR --images 1000
"""

import argparse
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

import scanline
from scanline.model import datasets
from scanline.model.images.pictures import open_picture, pixels
from scanline.model.likelihood.classification import posterior
from scanline.model.likelihood.typicality import TYPICAL

CODECS: dict[str, dict[str, object]] = {
    "PNG": {"format": "PNG"},
    **{f"JPEG {quality}": {"format": "JPEG", "quality": quality} for quality in (75, 90, 95, 100)},
    **{f"WebP {quality}": {"format": "WEBP", "quality": quality} for quality in (80, 100)},
}
SURE = 0.99
AT_ONCE = 50  # digits, after which the figures so far are printed


def main() -> None:
    """Print a line for each codec after each AT_ONCE digits, and all of them as JSON in the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="test digits before those that are read")
    parser.add_argument("--model", default="mnist-small")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS), choices=list(CODECS))
    parser.add_argument("--clean", default="auto", choices=("auto", "off"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--save", type=Path, help="write the bits under each class and the typicality to an .npz file")
    options = parser.parse_args()
    model = scanline.load(options.model, threads=options.threads)
    test = datasets.load("mnist", options.data, "test")
    labels = datasets.labels("mnist", options.data, "test", test)
    test, labels = (part[options.first : options.first + options.images] for part in (test, labels))
    truth = np.array([model.class_names.index(str(label)) for label in labels])
    bits: dict[str, np.ndarray] = {codec: np.empty((0, len(model.class_names))) for codec in options.codecs}
    tails: dict[str, np.ndarray] = {codec: np.empty(0) for codec in options.codecs}
    results = {}
    for first in range(0, len(truth), AT_ONCE):
        for codec in options.codecs:
            part = test[first : min(first + AT_ONCE, len(truth))]
            found = model.classify(
                np.stack([_coded(image, model, CODECS[codec]) for image in part]), clean=options.clean
            )
            assert found.tail_probabilities is not None
            bits[codec] = np.concatenate([bits[codec], found.bits])
            tails[codec] = np.concatenate([tails[codec], found.tail_probabilities])
            results[codec] = _figures(bits[codec], tails[codec], truth)
            print(codec, results[codec], flush=True)
        if options.save:
            both = {f"{codec} bits": bits[codec] for codec in bits} | {
                f"{codec} tails": tails[codec] for codec in tails
            }
            np.savez(options.save, truth=truth[: first + len(part)], **both)
    print(json.dumps({"model": model.name, "clean": options.clean, "codecs": results}))


def _figures(bits: np.ndarray, tails: np.ndarray, truth: np.ndarray) -> dict[str, object]:
    """Return the figures of images with `bits` [n, K] and `tails` [n]; the first n of `truth` are their classes."""
    typical, right = tails >= TYPICAL, bits.argmin(axis=1) == truth[: len(bits)]
    wrong_and_sure = ~right & (posterior(bits).max(axis=1) > SURE)
    return {
        "images": len(bits),
        "right": float(right.mean()),
        "typical": float(typical.mean()),
        "wrong_and_sure": np.flatnonzero(wrong_and_sure).tolist(),
        "wrong_sure_and_typical": np.flatnonzero(wrong_and_sure & typical).tolist(),
    }


def _coded(image: np.ndarray, model: scanline.Model, codec: dict[str, object]) -> np.ndarray:
    """Return a test image [N] as it is read from a file, [H, W]."""
    file = io.BytesIO()
    Image.fromarray(image.reshape(model.config.image_shape)).save(file, **codec)  # type: ignore[arg-type]
    return pixels(open_picture(file.getvalue(), model.config, "image"), model.config).reshape(model.config.image_shape)


if __name__ == "__main__":
    main()
