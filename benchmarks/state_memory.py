"""What an image in flight costs in memory, at its first byte and at its last: the same.

    python benchmarks/state_memory.py                  the shipped model
    python benchmarks/state_memory.py --random mnist --slots 1000

Paints `slots` images at once to the end and looks at every stop. "Tensors" are the bytes of all tensors that the
generator owns, for each slot: `state_bytes_per_image`, the image's own bytes, as many again to mark the known
ones, and a few numbers. "Process" is the resident memory that the operating system has handed over since before
the generator was made, for each slot, once painting has begun: the same, and the scratch of one call shared by all.

Linux with glibc only: resident memory is read from /proc, and freed memory given back before the first look.
"""

import argparse
import ctypes
import os
from pathlib import Path

import numpy as np
import torch
from machine import print_json
from rich.console import Console
from rich.table import Table

from model import zoo
from model.checkpoint import load_model
from model.generator import Canvas, Generator
from model.painting import paint
from model.presets import PRESETS
from model.scoring import bits
from model.transformer import Transformer

SEED = 1
STEPS = 8  # bytes painted in one call, whose random numbers are drawn at once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", default=zoo.DEFAULT, help="shipped model or model directory")
    parser.add_argument("--random", choices=sorted(PRESETS), help="random weights in the shape of a preset instead")
    parser.add_argument("--slots", type=int, default=256, help="images in flight; the log's figure is for 1000")
    parser.add_argument("--looks", type=int, default=8, help="at how many positions to look")
    options = parser.parse_args()

    torch.manual_seed(0)
    try:
        model = load(options)
    except ValueError as error:
        parser.error(str(error))
    config, slots = model.config, options.slots
    first = paint(model, 1, seed=SEED)  # what torch loads and starts at first use is not the images'
    ctypes.CDLL(None).malloc_trim(0)  # and what it freed would be used again, unseen

    before = resident()
    generator = Generator(model, slots)
    for slot in range(slots):
        generator.place(slot, Canvas(SEED, slot))
    table = Table(title=f"{options.random or options.model}: {slots} images in flight, bytes for each", title_style="")
    for column in ("position", "tensors", "process"):
        table.add_column(column, justify="right")
    results = []
    for stop in sorted({1, *np.linspace(1, config.bytes, options.looks).astype(int).tolist()}):
        while (room := stop - int(generator.positions().min())) > 0:
            generator.advance(min(room, STEPS))
        assert (generator.positions() == stop).all()
        look = {"position": stop, "tensors": owned(generator) / slots, "process": (resident() - before) / slots}
        table.add_row(f"{stop}", f"{look['tensors']:,.0f}", f"{look['process']:,.0f}")
        results.append(look)
    difference = check(model, generator, first.images[0])
    generator.close()

    Console(width=110).print(table)
    expected = config.state_bytes_per_image + config.bytes
    growth = results[-1]["process"] - results[0]["process"]
    print(f"state_bytes_per_image {config.state_bytes_per_image:,} + the image's {config.bytes:,} = {expected:,}")
    print(f"from position 1 to {config.bytes}: {growth:+,.0f} for each image, {growth * slots / 1e6:.2f} MB in all")
    print(f"checked: bytes as painted alone; likelihoods within {difference:.1e} bits/dim of the parallel view")
    print_json(
        "state_memory",
        {"options": vars(options), "model": config.to_dict()},
        state_bytes_per_image=config.state_bytes_per_image,
        image_bytes=config.bytes,
        process_growth_per_image=growth,
        views_differ_bits_per_dim=difference,
        results=results,
    )


def load(options: argparse.Namespace) -> Transformer:
    if options.random:
        return Transformer(PRESETS[options.random].model).eval().requires_grad_(False)
    return load_model(zoo.find(options.model))


def check(model: Transformer, generator: Generator, alone: np.ndarray) -> float:
    """That the images in flight were real ones: the first as it is painted alone, and the likelihoods of a few as the
    parallel view has them; how far these are, in bits/dim. Afterwards, for its own memory must not be counted."""
    assert np.array_equal(generator.image(0), alone), "the same seed painted other bytes"
    few = range(0, generator.slots, max(1, generator.slots // 3))
    parallel = bits(model, torch.from_numpy(np.stack([generator.image(slot) for slot in few]))).mean(dim=1)
    difference = max(abs(parallel[i].item() - generator.bits_per_dim(slot)) for i, slot in enumerate(few))
    assert difference < 1e-3, f"recurrent steps and parallel view differ by {difference} bits/dim"
    return difference


def owned(owner: object) -> int:
    """Bytes of the tensors that an object of ours holds, however deep, the network's weights apart."""
    if isinstance(owner, torch.Tensor):
        return owner.nbytes
    if isinstance(owner, Transformer) or not type(owner).__module__.startswith("model."):
        return 0
    return sum(owned(member) for member in vars(owner).values())


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
