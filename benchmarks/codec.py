"""Files of codes against other lossless formats, and how fast they are made and read.

    python -m benchmarks.codec --data FOLDER [--sets mnist cifar10] [--images 300 100] [--threads 1] [--whole]

The first test digits and colour images (FOLDER/mnist and FOLDER/cifar10, as `scanline train` reads them) are encoded by
the shipped models and decoded again, which is checked. `bits/dim` are the bits of a file by the bytes of its pixels: of
our files all that is in them; `score` is the limit, what the model's likelihood says. PNG, WebP, JPEG XL and AVIF have
a file for each image, made with the most effort; zstd and xz get all images as one file, without a header. JPEG XL,
AVIF and zstd need the package `imagecodecs`, and are left out without it.

Speeds are images by second of processor time, of one thread by default. Encoding is compared with scoring, and decoding
with painting as many images at once; images have a code each then. --whole also decodes the file as it is by default,
with several images one after the other in a code. Published figures are copied, not measured.
"""

import argparse
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from scanline.model import datasets, zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.images.file_sizes import LOSSLESS, file_size
from scanline.model.inference import Model
from scanline.model.machine import print_json
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import GenerateRequest, Scored, ScoreRequest
from scanline.model.tasks.offline import loaded_engine, paint_request, run

MODELS = {"mnist": "mnist-small", "cifar10": "cifar10-small"}
PUBLISHED = {"iFlow (Zhang et al., 2021, arXiv:2111.00965)": 3.118}  # bits/dim of CIFAR-10, as its authors report
Encode = Callable[[np.ndarray], bytes]


def others() -> tuple[dict[str, Encode], dict[str, Encode]]:
    """Return the encoders of `imagecodecs` for one image, and those for the bytes of all."""
    of_all: dict[str, Encode] = {"xz": lambda images: lzma.compress(images.tobytes(), preset=9 | lzma.PRESET_EXTREME)}
    try:
        imagecodecs = import_module("imagecodecs")
    except ImportError:
        print("imagecodecs is not installed: JPEG XL, AVIF and zstd are left out")
        return {}, of_all
    return {
        "JPEG XL": lambda image: imagecodecs.jpegxl_encode(image, lossless=True, effort=9),
        "AVIF": lambda image: imagecodecs.avif_encode(image, level=100, speed=0),
    }, of_all | {"zstd": lambda images: imagecodecs.zstd_encode(images.tobytes(), level=22)}


def sizes(images: np.ndarray) -> dict[str, float]:
    """Return bits/dim of images [n, H, W] or [n, H, W, 3] in other formats."""
    of_each, of_all = others()
    found = {name: sum(file_size(image, name) for image in images) for name in LOSSLESS}
    found |= {name: sum(len(encode(image)) for image in images) for name, encode in of_each.items()}
    found |= {f"{name}, all in one": len(encode(images)) for name, encode in of_all.items()}
    return {name: 8 * size / images.size for name, size in found.items()}


class Speeds:
    """Images by second of processor time."""

    def __init__(self, images: int) -> None:
        self.images, self.of = images, dict[str, float]()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        began = process_time()
        yield
        self.of[what] = self.images / (process_time() - began)


def measure(model: Transformer, images: np.ndarray, threads: int, whole: bool) -> tuple[dict[str, float], Speeds]:
    """Return bits/dim of files of images [n, N] and the speeds at which they are made and read."""
    speeds = Speeds(len(images))
    bits = 0.0
    Generator(model, 1, threads).close()  # what is done once for each model is not measured
    with speeds.timed("score"), loaded_engine(model, 1, threads=threads) as engine:
        for events in run(engine, ScoreRequest(0, tuple(image.tobytes() for image in images))):
            bits += sum(np.frombuffer(event.bits).sum() for event in events if isinstance(event, Scored))
    loaded = Model(model, "", DEFAULT, threads, "cpu")
    with speeds.timed("encode"):
        data = loaded.compress(images)
    with speeds.timed("paint"):
        paint_request(model, GenerateRequest(0, len(images), seed=0), threads=threads)
    alone = loaded.compress(images, images_a_code=1)
    with speeds.timed("decode"):
        check(loaded, alone, images)
    if whole:
        with speeds.timed("decode by default"):
            check(loaded, data, images)
    files = {"a file": 8 * len(data), "an image a code": 8 * len(alone), "score": bits}
    return {name: size / images.size for name, size in files.items()}, speeds


def check(model: Model, data: bytes, images: np.ndarray) -> None:
    assert np.array_equal(model.decompress(data).reshape(images.shape), images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist/ and cifar10/")
    parser.add_argument("--sets", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--images", nargs="+", type=int, default=[300, 100], help="of each set, the first ones")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="also decode the file with several images a code")
    options = parser.parse_args()

    results: dict[str, dict[str, Any]] = {}
    for name, count in zip(options.sets, options.images, strict=False):
        model = load_model(zoo.find(MODELS[name]))
        images = datasets.load(name, options.data / name, "test")[:count]
        files, speeds = measure(model, images, options.threads, options.whole)
        compared = sizes(images.reshape(-1, *model.config.image_shape))
        results[name] = {"images": count, "bits_per_dim": files | compared, "images_per_second": speeds.of}
        show(name, count, files, compared, speeds)
    print_json("codec", vars(options), results=results, published=PUBLISHED)


def show(name: str, count: int, files: dict[str, float], compared: dict[str, float], speeds: Speeds) -> None:
    table = Table(title=f"{name}, the first {count} test images, bits/dim", title_style="")
    table.add_column("")
    table.add_column("bits/dim", justify="right")
    for what, value in (files | compared).items():
        table.add_row(what, f"{value:.3f}")
    for what, value in PUBLISHED.items() if name == "cifar10" else ():
        table.add_row(f"{what}: published, all images", f"{value:.3f}")
    console = Console()
    console.print(table)
    rates = ", ".join(f"{what} {rate:.1f}" for what, rate in speeds.of.items())
    encoding, decoding = speeds.of["encode"] / speeds.of["score"], speeds.of["decode"] / speeds.of["paint"]
    console.print(f"images/s: {rates}; encoding {encoding:.2f} of score, decoding {decoding:.2f} of painting")


if __name__ == "__main__":
    main()
