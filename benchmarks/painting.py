"""How fast this machine paints: seconds for one image, and images/s over batch sizes.

    python benchmarks/painting.py                  the shipped model
    python benchmarks/painting.py MODEL            another shipped model, or a model directory
    python benchmarks/painting.py --random mnist   random weights in a preset's shape (mnist and cifar10: the paper's)

"One image" is `paint` from call to bytes, nothing kept from before. A batch of B is B images in flight in one
generator, and images/s = B / (N x seconds of a step), N steps to an image. "Of the ceiling" is the arithmetic of
the matrix products of those images over the best float32 rate that the same products, and nothing else, reached
in this run at any of the batch sizes; "products" is what they take alone at that batch size.

"Authors" is the same work done by the authors' own library in its recurrent form, in turn with ours: random weights
in the same shape, a value and a position embedding side by side, a mixture of ten logistics sampled in torch. It
needs pytorch-fast-transformers 0.4.0, which has no wheels and builds CUDA extensions wherever it finds an nvcc, so
for a CPU build keep nvcc out of the PATH (with torch and setuptools installed; 4 minutes):

    env PATH="$(dirname "$(which python)"):/usr/bin:/bin" MAX_JOBS=1 \\
        python -m pip install --no-build-isolation --no-deps pytorch-fast-transformers==0.4.0
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import numpy as np
import torch
from machine import copy_rate, durations, print_json, products_seconds, synchronise
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn

from model import zoo
from model.checkpoint import load_model, store_by_columns
from model.config import ModelConfig
from model.generator import Canvas, Generator
from model.painting import Painted, paint
from model.presets import PRESETS
from model.scoring import bits
from model.transformer import Transformer

SEED = 1
CHECKED = 3  # images that are compared with the parallel view and between batch sizes
BOUND = 1e-3  # bits/dim between the two views


@dataclass(frozen=True)
class Rate:
    """One batch size; times in milliseconds."""

    batch: int
    step_median: float
    step_p99: float
    images_per_second: float
    calls: int

    @classmethod
    def of(cls, config: ModelConfig, batch: int, steps: list[float]) -> "Rate":
        """From the seconds of a step, one for each call that was timed."""
        median, p99 = (float(np.percentile(steps, q)) for q in (50, 99))
        return cls(batch, 1e3 * median, 1e3 * p99, batch / (config.bytes * median), len(steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", default=zoo.DEFAULT, help="shipped model or model directory")
    parser.add_argument("--random", choices=sorted(PRESETS), help="random weights in the shape of a preset instead")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--steps", type=int, default=8, help="bytes painted in one call of the generator")
    parser.add_argument("--seconds", type=float, default=6.0, help="measuring time for each batch size and program")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()

    torch.manual_seed(0)
    try:
        model = load(options)
    except ValueError as error:
        parser.error(str(error))
    config, device = model.config, options.device
    checked, difference = check(model)
    alone = durations(
        lambda: assert_same(checked, paint(model, 1, seed=SEED).images[0], 0), options.seconds, device, least=1
    )
    one_image = float(np.median(alone))

    installed = find_spec("fast_transformers") is not None
    if not installed:
        print("the authors' library is not installed, so its columns stay empty (this file's head says how to get it)")
    shapes = product_shapes(config)
    flop = 2 * sum(inner * outer for inner, outer in shapes)  # of one step of one image
    products, ours, theirs = {}, [], []
    for batch in track(options.batches, "painting", console=Console(stderr=True), transient=True):
        products[batch] = products_seconds(shapes, batch, device)
        ours.append(Rate.of(config, batch, our_steps(model, batch, options, checked)))
        theirs.append(Rate.of(config, batch, their_steps(config, batch, options)) if installed else None)
    rate = max(batch * flop / seconds for batch, seconds in products.items())
    copied = copy_rate(device)
    state_bound = copied / (2 * config.state_bytes_per_image * config.bytes)
    fractions = [our.images_per_second * config.bytes * flop / rate for our in ours]

    show(f"{options.random or options.model}: ms a step, median and p99; images/s", ours, fractions, products, theirs)
    print(f"one image, alone and from nothing: {one_image:.2f} s")
    print(
        f"ceilings: {rate / 1e9:.0f} GFLOP/s of float32 matrix products = {rate / (flop * config.bytes):.1f} images/s;"
        f" {copied / 1e9:.1f} GB/s of copy = {state_bound:.1f} images/s where states stay in no cache"
    )
    print(f"checked: views differ by {difference:.1e} bits/dim; the same bytes at every batch size")
    print_json(
        "painting",
        {"options": vars(options), "model": config.to_dict()},
        one_image_seconds={"median": one_image, "all": alone},
        ceilings={
            "matrix_flop_per_second": rate,
            "products_ms": {batch: 1e3 * seconds for batch, seconds in products.items()},
            "copy_bytes_per_second": copied,
            "images_per_second_by_products": rate / (flop * config.bytes),
            "images_per_second_by_state_traffic": state_bound,
        },
        ours=[asdict(our) | {"of_ceiling": fraction} for our, fraction in zip(ours, fractions, strict=True)],
        authors=[asdict(their) for their in theirs if their],
        views_differ_bits_per_dim=difference,
    )


def show(
    title: str, ours: list[Rate], fractions: list[float], products: dict[int, float], theirs: list[Rate | None]
) -> None:
    table = Table(title=title, title_style="")
    for column in ("batch", "median", "p99", "products", "images/s", "of the ceiling"):
        table.add_column(column, justify="right")
    for column in ("authors", "p99", "images/s", "we are"):
        table.add_column(column, justify="right", style="dim")
    for our, their, fraction in zip(ours, theirs, fractions, strict=True):
        row = [f"{our.batch}", f"{our.step_median:.2f}", f"{our.step_p99:.2f}", f"{1e3 * products[our.batch]:.2f}"]
        row += [f"{our.images_per_second:.2f}", f"{fraction:.0%}"]
        if their:
            row += [f"{their.step_median:.2f}", f"{their.step_p99:.2f}", f"{their.images_per_second:.2f}"]
            row += [f"{our.images_per_second / their.images_per_second:.1f}x"]
        table.add_row(*row)
    Console(width=110).print(table)


def load(options: argparse.Namespace) -> Transformer:
    if options.random:
        model = Transformer(PRESETS[options.random].model).eval().requires_grad_(False)
        store_by_columns(model)  # as a loaded model's weights lie
        return model.to(options.device)
    return load_model(zoo.find(options.model), options.device)


def check(model: Transformer) -> tuple[Painted, float]:
    """A few images of the run's seed, whose running likelihood must be that of the parallel view; how far it is."""
    painted = paint(model, CHECKED, seed=SEED)
    parallel = bits(model, torch.from_numpy(painted.images).to(model.device)).mean(dim=1).cpu().numpy()
    difference = float(np.abs(parallel - painted.bits_per_dim).max())
    assert difference <= BOUND, f"recurrent steps and parallel view differ by {difference} bits/dim"
    return painted, difference


def assert_same(checked: Painted, image: np.ndarray, index: int) -> None:
    """The bytes painted so far, image [n] of that index, must be those of the first run."""
    assert np.array_equal(image, checked.images[index, : len(image)]), "the same seed painted other bytes"


def product_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """(inner, outer) of every matrix product of one step."""
    width, keys, hidden = config.model_width, config.heads * config.key_width, config.feed_forward
    layer = [(width, 2 * keys + width), (width, width), (width, hidden), (hidden, width)]
    return [*(layer * config.layers), (width, 3 * config.components)]


def our_steps(model: Transformer, batch: int, options: argparse.Namespace, checked: Painted) -> list[float]:
    """Seconds of a step, from each call of a generator with `batch` images in flight, all in the middle of painting."""
    generator = Generator(model, batch)
    try:
        for slot in range(batch):
            generator.place(slot, Canvas(SEED, slot))
        # every position costs the same: images that end early start again
        calls, room = 0, model.config.bytes // options.steps

        def advance() -> None:
            nonlocal calls
            if calls == room:
                for slot in range(batch):
                    generator.place(slot, Canvas(SEED, slot))
                calls = 0
            generator.advance(options.steps)
            calls += 1

        times = durations(advance, options.seconds, options.device)
        for slot in range(min(batch, CHECKED)):
            assert_same(checked, generator.image(slot)[: generator.positions()[slot]], slot)
        return [seconds / options.steps for seconds in times]
    finally:
        generator.close()


def their_steps(config: ModelConfig, batch: int, options: argparse.Namespace) -> list[float]:
    """Seconds of a pixel with the authors' library, after some pixels that are not counted."""
    with torch.inference_mode():
        paint_pixel = authors_painter(config, batch, options.device)
        for _ in range(9):
            paint_pixel()
        synchronise(options.device)
        return durations(paint_pixel, options.seconds, options.device, least=20)


def authors_painter(config: ModelConfig, batch: int, device: str) -> Callable[[], None]:
    """A call that paints the next pixel of `batch` images as a user of the authors' library would write it."""
    from fast_transformers.builders import RecurrentEncoderBuilder

    builder = RecurrentEncoderBuilder.from_kwargs(
        attention_type="linear",
        n_layers=config.layers,
        n_heads=config.heads,
        query_dimensions=config.key_width,
        value_dimensions=config.value_width,
        feed_forward_dimensions=config.feed_forward,
    )
    half = config.model_width // 2
    transformer = builder.get().eval().to(device)
    value_embedding = nn.Embedding(256, half, device=device)
    position_embedding = torch.randn(config.bytes, half, device=device)
    predictor = nn.Linear(config.model_width, 3 * config.components, device=device)
    images = torch.zeros(batch, config.bytes, dtype=torch.int64, device=device)
    state, position = None, 0

    def paint_pixel() -> None:
        nonlocal state, position
        if position == config.bytes - 1:
            state, position = None, 0
        place = position_embedding[position].expand(batch, half)
        output, state = transformer(torch.cat((value_embedding(images[:, position]), place), dim=1), state)
        logits, means, log_scales = predictor(output).chunk(3, dim=1)
        picked = torch.multinomial(logits.softmax(dim=1), 1)
        mean, scale = means.gather(1, picked), log_scales.gather(1, picked).clamp(min=-7).exp()
        u = torch.rand_like(mean).clamp(1e-5, 1 - 1e-5)
        x = (mean + scale * (u.log() - (1 - u).log())).clamp(-1, 1)
        position += 1
        images[:, position] = ((x + 1) * 127.5).round().long().squeeze(1)

    return paint_pixel


if __name__ == "__main__":
    main()
