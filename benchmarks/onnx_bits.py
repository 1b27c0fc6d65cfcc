"""What the weights of an exported step cost in bits/dim, and what they weigh.

    python benchmarks/onnx_bits.py mnist-small --data DIR              float32, float16 and int8, 500 test images
    python benchmarks/onnx_bits.py cifar10-small --data DIR --images 1000

Each export runs byte by byte in onnxruntime over the first test images, their bytes forced; "exact" is the parallel
view in torch on the same images. "differs" is against exact: the mean, and the largest of a single image.
"""

import argparse
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from scanline.kernels import mixture
from scanline.model import datasets, zoo
from scanline.model.bench.machine import print_json
from scanline.model.config import ModelConfig
from scanline.model.evaluation.likelihood import LN2, bits, with_first_byte
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.onnx_graph import WEIGHTS
from scanline.model.formats.onnx_step import export_step
from scanline.model.state import State


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", default=zoo.DEFAULT, help="shipped model or model directory")
    parser.add_argument("--data", type=Path, required=True, help="directory with the published files")
    parser.add_argument("--images", type=int, default=500, help="first ones of the test set")
    parser.add_argument("--batch", type=int, default=50)
    options = parser.parse_args()
    model = load_model(zoo.find(options.model))
    config = model.config
    dataset = datasets.of_shape(config.height, config.width, config.channels)
    images = torch.tensor(datasets.load(dataset, options.data, "test")[: options.images])

    parts = images.split(options.batch)
    exact = torch.cat([bits(model, part).mean(dim=1) for part in track(parts, "exact")])
    table = Table(title=f"{options.model}, {len(images)} test images of {dataset}", title_style="")
    for column in ("weights", "MB", "bits/dim", "differs", "at most"):
        table.add_column(column, justify="right")
    table.add_row("exact", "", f"{exact.mean():.5f}", "", "")
    results = []
    for weights in WEIGHTS:
        file = export_step(model, weights).SerializeToString()
        session = onnxruntime.InferenceSession(file)
        each = torch.cat([stepped_bits(session, config, part) for part in track(parts, weights)])
        differs = (each - exact).mean().item()
        most = (each - exact).abs().max().item()
        table.add_row(weights, f"{len(file) / 1e6:.2f}", f"{each.mean():.5f}", f"{differs:+.5f}", f"{most:.5f}")
        results.append({"weights": weights, "bytes": len(file), "differs": differs, "at_most": most})
    Console(width=110).print(table)
    print_json("onnx_bits", {"options": {**vars(options), "data": dataset}}, exact=exact.mean().item(), results=results)


def stepped_bits(session: onnxruntime.InferenceSession, config: ModelConfig, images: torch.Tensor) -> torch.Tensor:
    """Bits per dimension [B] of images [B, N]."""
    state = State.zeros(config, len(images))
    feeds = {"image": images.numpy(), "s": state.s.numpy(), "z": state.z.numpy()}
    found = []
    for place in range(config.first, config.bytes):
        feeds["position"] = np.full(len(images), place, np.int32)
        parameters, feeds["s"], feeds["z"] = session.run(["parameters", "next_s", "next_z"], feeds)
        cost = -mixture.log_prob(torch.from_numpy(parameters), images[:, place], config.scale).double() / LN2
        found.append(cost)
    return with_first_byte(config, images, torch.stack(found, dim=1)).mean(dim=1)


if __name__ == "__main__":
    main()
