"""Test vectors for the page's random numbers, codes, drawings and files of models, made by the code
that the server paints and reads with.

`python -m tests.support.page.vectors` writes server/web/test/vectors.json.
"""

import json
import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from scanline.kernels.codec.coder import TOTAL, encode
from scanline.kernels.codec.reference import histogram_starts
from scanline.kernels.philox import philox4x32, uniforms
from scanline.model.backends.cpu import kernel_tensors
from scanline.model.base.class_names import drawn_label
from scanline.model.images.cleaning import Cleaning, read
from scanline.model.images.framing import Frame
from scanline.model.images.pictures import pixels
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kernel_file import kernel_file
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models

DIGEST = re.compile(rb'(digest\\": \\")[0-9a-f]{32}')
FILE = Path(__file__).parents[3] / "server/web/test/vectors.json"
WORDS = (0, 1, 2**16, 2**31, 2**32 - 1)
SEEDS = (0, 1, 2**32, 2**53 + 1, 2**63 - 1)
INDICES = (0, 7, 2**32 - 1, 2**32 + 5)
POSITIONS = (0, 783, 3071)
TEMPERATURES = (0.3, 1.0, 1.7)
CLASSES = (10, 1, 1000)
TINY = {"height": 1, "width": 2, "layers": 1, "heads": 1, "key_width": 2, "value_width": 2}


def vectors():
    """All vectors as JSON values; seeds are strings, since JSON
    numbers are not exact beyond 2^53.
    """
    return {
        "philox": _philox(),
        "uniforms": [
            _uniforms(*of) for of in zip(SEEDS * 12, INDICES * 15, POSITIONS * 20, strict=True)
        ],
        "labels": [_label(*of) for of in zip(CLASSES * 20, SEEDS * 12, INDICES * 15, strict=True)],
        "code": _code(),
        "first": {
            "histogram": small_models.HISTOGRAM,
            "starts": histogram_starts(small_models.HISTOGRAM),
            "draws": [_first(seed) for seed in range(60)],
        },
        "cleaned": [_cleaned(*of) for of in _drawings()],
        "model": _model(),
    }


def _philox():
    random = np.random.default_rng(0)
    words = np.concatenate((random.choice(WORDS, (20, 6)), random.integers(0, 2**32, (20, 6))))
    found = philox4x32(torch.tensor(words[:, :4]), torch.tensor(words[:, 4:]))
    return [
        {"counter": row[:4], "key": row[4:], "words": out}
        for row, out in zip(words.tolist(), found.tolist(), strict=True)
    ]


def _label(classes, seed, index):
    label = drawn_label(classes, seed, index)
    return {"classes": classes, "seed": str(seed), "index": index, "label": label}


def _uniforms(seed, index, position):
    found = uniforms(*map(torch.tensor, (seed, index, position)))
    return {"seed": str(seed), "index": index, "position": position, "uniforms": found.tolist()}


def _code():
    """The code of wide and narrow intervals."""
    random = np.random.default_rng(0)
    starts = random.integers(0, TOTAL, 300)
    widths = np.minimum(2 ** random.integers(0, 24, 300), TOTAL - starts)
    intervals = np.stack((starts, widths), axis=1).tolist()
    return {"intervals": intervals, "code": encode(intervals).hex()}


def _first(seed):
    """Byte 0 of a model without a start token, which has a histogram for it."""
    temperature = TEMPERATURES[seed % 3]
    generator = Generator(
        small_models.model(small_models.config(**small_models.NO_START)), 1, backend="eager"
    )
    generator.place(0, ImageSpec(seed, 2, temperature=temperature))
    byte = int(generator.image(0)[0])
    generator.close()
    draw = uniforms(torch.tensor(seed), torch.tensor(2), torch.tensor(0)).tolist()
    return {"uniforms": draw, "temperature": temperature, "byte": byte}


def _drawings():
    """Each with its model: on a ground, on paper with a shadow, with noise, faint, and far too
    large, photos and an enlarged one; one of another model as it stands, and one in colour."""
    framed = small_models.config(height=14, width=12)
    colour = small_models.config(height=14, width=12, channels=3)
    standing = Cleaning(0, 254, Frame(6, 7.0, 6.0))
    random = np.random.default_rng(0)
    canvas = Image.new("L", (12, 14))
    ImageDraw.Draw(canvas).line([(1, 1), (10, 2), (4, 12)], fill=220, width=2)
    drawing = np.asarray(canvas).astype(float)
    shadow = np.add.outer(np.arange(14.0), np.arange(12.0))
    ways = {
        "large": drawing,
        "small": np.pad(drawing[1:12:3, 1:11:3], ((0, 10), (0, 8))),
        "faint": drawing / 3,
        "on paper": 235 - shadow - 0.8 * drawing,
        "with noise": drawing + random.integers(0, 12, drawing.shape),
        "a texture": random.integers(0, 256, drawing.shape),
    }
    ways["a photo"] = ways["on paper"].repeat(4, 0).repeat(3, 1)
    ways["enlarged"] = ways["small"].repeat(2, 0).repeat(2, 1)
    for picture in ways.values():
        yield framed, standing, picture
    yield framed, replace(standing, frame=None), ways["a photo"]
    yield framed, Cleaning(255, 3), 255 - ways["with noise"]
    yield colour, Cleaning(0, 254), np.stack([ways["with noise"]] * 3, axis=2)


def _cleaned(config, cleaning, picture):
    sent = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
    photos = cleaning if config.channels == 1 else None
    images = pixels(sent, config, photos=photos)[None]
    found = read(images, config, cleaning, "auto")
    shape = {name: getattr(config, name) for name in ("height", "width", "channels")}
    return {
        "shape": shape,
        "cleaning": cleaning.to_dict(),
        "size": {"height": sent.height, "width": sent.width},
        "picture": np.asarray(sent).flatten().tolist(),
        "bytes": found.images[0].tolist(),
        "noisy": bool(found.noisy[0]),
    }


def _model():
    """The file of a small model, of which all tensors but one are float16 numbers."""
    model = small_models.model(small_models.config(**TINY, feed_forward=4))
    tensors = kernel_tensors(model)
    for number, tensor in enumerate(tensors):
        count = torch.arange(tensor.numel()).view(tensor.shape)
        tensor.copy_((count - 9) / (8 if number else 7))
    # the digest of what paints is another one in each version
    file = DIGEST.sub(rb"\g<1>" + 32 * b"0", kernel_file(model, "int8"))
    values = [tensor.flatten().tolist() for tensor in tensors]
    return {
        "file": b64encode(file).decode(),
        "tensors": values,
        "height": 1,
        "weights": 2,
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors()) + "\n")
