"""What images take as PNG and WebP files: what codes are compared with."""

import io
from typing import Any

import numpy as np
from PIL import Image

# The most effort that each makes without loss.
LOSSLESS: dict[str, dict[str, Any]] = {
    "PNG": {"format": "PNG", "optimize": True},
    "WebP": {"format": "WEBP", "lossless": True, "quality": 100, "method": 6, "exact": True},
}


def bits_per_dim(images: np.ndarray, most: int) -> dict[str, float]:
    """Return the bits/dim of files of images [n, H, W] or [n, H, W, 3] uint8, by their kinds; where
    there are more than `most`, of that many, evenly spread."""
    count = min(most, len(images))
    numbers = np.linspace(0, len(images) - 1, count).astype(int)
    chosen = images[numbers]
    bits = {}
    for kind, options in LOSSLESS.items():
        size = 0
        for image in chosen:
            file = io.BytesIO()
            Image.fromarray(image).save(file, **options)
            size += file.tell()
        bits[kind] = 8 * size / chosen.size
    return bits
