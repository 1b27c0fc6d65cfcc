"""What a model says of test digits that have been through a codec: of the first IMAGES, the share that is classified
rightly, the share that is typical, and how many are wrong with a probability above 0.99, of these how many typical.

Each digit is read once for each class and each codec: 1,000 digits take an hour of one core.

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
from scanline.model.pictures import open_picture, pixels

CODECS: dict[str, dict[str, object]] = {
    "PNG": {"format": "PNG"},
    **{f"JPEG {quality}": {"format": "JPEG", "quality": quality} for quality in (75, 90, 95, 100)},
    **{f"WebP {quality}": {"format": "WEBP", "quality": quality} for quality in (80, 100)},
}
SURE = 0.99


def main() -> None:
    """Print a line for each codec, and all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--model", default="mnist-small")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS), choices=list(CODECS))
    parser.add_argument("--clean", default="auto", choices=("auto", "off"))
    options = parser.parse_args()
    model = scanline.load(options.model)
    test = datasets.load("mnist", options.data, "test")
    labels = datasets.labels("mnist", options.data, "test", test)[: options.images]
    results = {}
    for codec in options.codecs:
        images = np.stack([_coded(image, model, CODECS[codec]) for image in test[: options.images]])
        found = model.classify(images, clean=options.clean)
        assert found.typical is not None
        right = found.bits.argmin(axis=1) == [model.class_names.index(str(label)) for label in labels]
        wrong_and_sure = ~right & (found.posterior.max(axis=1) > SURE)
        results[codec] = {
            "images": len(images),
            "right": float(right.mean()),
            "typical": float(found.typical.mean()),
            "wrong_and_sure": int(wrong_and_sure.sum()),
            "wrong_sure_and_typical": int((wrong_and_sure & found.typical).sum()),
        }
        print(codec, results[codec], flush=True)
    print(json.dumps({"model": model.name, "clean": options.clean, "codecs": results}))


def _coded(image: np.ndarray, model: scanline.Model, codec: dict[str, object]) -> np.ndarray:
    """Return a test image [N] as it is read from a file, [H, W]."""
    file = io.BytesIO()
    Image.fromarray(image.reshape(model.config.image_shape)).save(file, **codec)  # type: ignore[arg-type]
    return pixels(open_picture(file.getvalue(), model.config, "image"), model.config).reshape(model.config.image_shape)


if __name__ == "__main__":
    main()
