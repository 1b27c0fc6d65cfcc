"""Encodes arrays as image files, and decodes image files to arrays."""

import base64
import io

import numpy as np
from PIL import Image, ImageSequence


def encode(image, kind="PNG", **options):
    """A file of [H, W] (grey), [H, W, 2] (grey, alpha), [H, W, 3] or [H, W, 4] uint8."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, kind, **options)
    return out.getvalue()


def decode(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def film_frames(data):
    """The frames [n, H, W, 3] of an animation, and the milliseconds of each."""
    with Image.open(io.BytesIO(data)) as picture:
        frames = [
            (np.asarray(each.convert("RGB")), each.info["duration"])
            for each in ImageSequence.Iterator(picture)
        ]
    return np.stack([frame for frame, _ in frames]), [int(duration) for _, duration in frames]


def text(data):
    return base64.b64encode(data).decode()


def painted(answer):
    """The images [n, ...] of a JSON answer."""
    return np.stack([decode(base64.b64decode(one["b64_json"])) for one in answer["data"]])


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def write_noise(root, *files, same=None):
    """Write a picture of its own to each file; `same` names the file whose picture another one
    repeats.
    """
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        seed = files.index((same or {}).get(name, name))
        path.write_bytes(encode(noise(3, 4, seed=seed)))
    return root
