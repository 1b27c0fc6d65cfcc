"""What an image in flight costs in memory, at its first byte and at its last: the same.

    python benchmarks/state_memory.py                  the shipped model
    python benchmarks/state_memory.py --random mnist --images 1000

The part of `scanline bench` over position, alone, for any number of images: they are painted at once to the end, and
looked at on the way. "Tensors" are what the generator owns: `state_bytes_per_image`, the image's own bytes, as many
again to mark the known ones, and a few numbers. "Process" is resident memory (model/bench/memory_over_position.py).
"""

import argparse

from rich.console import Console
from rich.table import Table

from scanline.model import zoo
from scanline.model.bench.correctness import reference
from scanline.model.bench.load import subject
from scanline.model.bench.machine import print_json
from scanline.model.bench.memory_over_position import LOOKS, ours
from scanline.model.training.presets import PRESETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", help=f"shipped model or model directory; {zoo.DEFAULT} by default")
    parser.add_argument("--random", choices=sorted(PRESETS), help="random weights in the shape of a preset instead")
    parser.add_argument("--images", type=int, default=256, help="in flight; the log's figure is for 1000")
    parser.add_argument("--looks", type=int, default=LOOKS, help="at how many positions to look")
    options = parser.parse_args()
    try:
        model = subject(options.model, options.random, "cpu")
    except ValueError as error:
        parser.error(str(error))
    config = model.config

    checked = reference(model, [options.images])
    looks = ours(model, checked, options.images, options.looks).looks
    table = Table(title=f"{options.images} images in flight, bytes for each", title_style="")
    for column in ("position", "tensors", "process"):
        table.add_column(column, justify="right")
    for look in looks:
        process = "" if look.process_bytes is None else f"{look.process_bytes:,.0f}"
        table.add_row(f"{look.position}", f"{look.tensor_bytes:,.0f}", process)
    Console(width=110).print(table)
    expected = config.state_bytes_per_image + config.bytes
    print(f"state_bytes_per_image {config.state_bytes_per_image:,} + the image's {config.bytes:,} = {expected:,}")
    print(f"checked: same bytes in other company; the two views differ by {checked.views_differ:.1e} bits/dim")
    print_json(
        "state_memory",
        {"options": vars(options), "model": config.to_dict()},
        state_bytes_per_image=config.state_bytes_per_image,
        image_bytes=config.bytes,
        views_differ_bits_per_dim=checked.views_differ,
        results=[vars(look) for look in looks],
    )


if __name__ == "__main__":
    main()
