"""Which learning rate a new network learns fastest with: short runs from the same weights over the
same batches.

    python -m benchmarks.learning_rates --data cifar10 --preset cifar10-base
        [--rates 3e-3 5e-3 8e-3] [--updates 400] [--layers 6 --width 256] [--batch 32]
        [--compile-cache FILE]

Each run warms up as the recipe says and then keeps its rate. The figure is the mean training loss
of its last quarter, in bits/dim; the others say what an update costs. On a GPU it comes before a
training: compiled code stays in the file, which `scanline train --compile-cache` reads.
"""

import argparse
import copy
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from scanline.model.base.device import peak_flops, resolve_device
from scanline.model.base.machine import print_json
from scanline.model.datasets.source import open_data
from scanline.model.network.transformer import Transformer
from scanline.model.training.data.prefetch import Batches
from scanline.model.training.optimise.cuda_graph_updater import new_updater
from scanline.model.training.optimise.optimiser import learning_rate
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.presets import PRESETS
from scanline.model.training.run.plan import plan
from scanline.model.training.run.sizing import operations_per_image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="pictures with classes, as of `scanline train`"
    )
    parser.add_argument("--preset", choices=list(PRESETS))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--batch", type=int, help="images of an update; by default the recipe's")
    parser.add_argument("--rates", nargs="+", type=float, default=[3e-3, 5e-3, 8e-3])
    parser.add_argument("--updates", type=int, default=400, help="of each run")
    parser.add_argument("--compile-cache", type=Path)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()

    images = open_data(options.data, classes=True)
    assert images.labels is not None
    changes = {"updates": options.updates, "schedule": "constant"}
    if options.batch is not None:
        changes["batch"] = options.batch
    chosen = plan(
        images, changes, preset=options.preset, layers=options.layers, width=options.width
    )
    device = torch.device(resolve_device("auto"))
    torch.manual_seed(chosen.training.seed)
    model = Transformer(chosen.model).to(device)
    compiled = not options.no_compile and (options.compile_cache or True)
    updater = new_updater(model, chosen.training, Group(), product_dtype(device), compiled)
    first = copy.deepcopy(updater.state_dict())
    batches = Batches(images.train, images.labels.train, chosen.training, chosen.model)
    operations = operations_per_image(updater.model.parameter_count, batches.sampler.count)

    results = []
    for rate in options.rates:
        recipe = replace(chosen.training, learning_rate=rate)
        losses = []
        began = 0.0
        updater.load_state_dict(copy.deepcopy(first))
        for number in range(options.updates):
            if number == options.updates // 2:
                losses[-1].item()  # the device has caught up, and nothing is compiled from here on
                began = perf_counter()
            batch, labels, drawn = batches[number]
            assert labels is not None
            if drawn is not None:
                drawn = drawn.to(device)
            recipe_rate = learning_rate(recipe, number)
            loss, _ = updater.update(
                batch.to(device), number, recipe_rate, labels.to(device), drawn
            )
            losses.append(loss)
        last = torch.stack(losses[3 * options.updates // 4 :]).mean().item()
        seconds = (perf_counter() - began) / (options.updates - options.updates // 2)
        flops = operations * recipe.batch / seconds
        peak = peak_flops(device.type)
        share = None if peak is None else flops / peak
        results.append(
            {
                "rate": rate,
                "bits_per_dim": last,
                "seconds_of_update": seconds,
                "share_of_peak": share,
            }
        )
        of_peak = "" if share is None else f", {share:.1%} of the peak"
        of_update = f"{1e3 * seconds:.1f} ms an update of {recipe.batch}{of_peak}"
        print(f"{rate:g}: {last:.4f} bits/dim, {of_update}", flush=True)
    weights = updater.model.parameter_count
    print_json("learning_rates", vars(options), weights=weights, results=results)


if __name__ == "__main__":
    main()
