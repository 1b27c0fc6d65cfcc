"""Products of large batches: each by the tile of its programs, and those of a layer in one launch against four."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from benchmarks.gpu.kernels import layer_products
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, attempt, config, microseconds, model, started, step_seconds
from scanline.kernels.triton.linear import NARROW, WIDE, Halves, Tiling, linear
from scanline.kernels.triton.moments import row_moments
from scanline.kernels.triton.rows import feed_forward_rows

TILINGS = {"wide": WIDE, "narrow": NARROW, "square": Tiling(64, 64, 64, 3, 4, False)}
ROWS, LAST = (1024, 4096, 8192), "query_key_value"


def tilings(sizes: Sizes) -> Iterator[Finding]:
    """Yield times of a layer's products and of whole steps, and how many numbers differ between one launch and four."""
    for name in sizes.models(*SHIPPED, PAPER[0]):
        for rows in ROWS if not sizes.dry else (3,):
            layer = _Layer(name, rows, sizes)
            yield from attempt(f"tilings/{name}/{rows}/layer", partial(layer.findings, f"tilings/{name}/{rows}"))
        for way, tile_rows in (("one_launch", sizes.most), ("launches", None)):
            what = f"tilings/{name}/{sizes.most}/step/{way}"
            yield from attempt(what, partial(_step, what, name, tile_rows, sizes))


def _step(what: str, name: str, tile_rows: int | None, sizes: Sizes) -> Iterator[Finding]:
    generator = started(model(name, sizes), sizes.most, tile_rows=tile_rows)
    yield Finding(what, 1e6 * float(np.median(step_seconds(generator, sizes))), "us a step")
    generator.close()


class _Layer:
    """The products of a layer, the next one's projection last, with random weights that are float16 numbers."""

    def __init__(self, name: str, rows: int, sizes: Sizes) -> None:
        self.of, self.sizes, self.products = config(name, sizes), sizes, layer_products(name, sizes)
        width, self.linears, made = self.of.model_width, {}, partial(torch.zeros, device=sizes.device)
        for product, (inner, outer, *_) in self.products.items():
            weight = torch.randn(outer, inner, device=sizes.device) / 64
            self.linears[product] = Halves.of(weight.half().float()), made(outer)
        self.start, self.attended = torch.randn(2, rows, width, device=sizes.device)
        self.x, self.moments, self.norm = self.start.clone(), row_moments(self.start), (made(width) + 1, made(width))
        self.hidden, self.projected = (made(rows, len(self.linears[of][1])) for of in ("feed_forward_in", LAST))
        self.tensors = {  # what each product reads and writes
            "attention_out": (self.attended, self.x),
            "feed_forward_in": (self.x, self.hidden),
            "feed_forward_out": (self.hidden, self.x),
            LAST: (self.x, self.projected),
        }

    def findings(self, what: str) -> Iterator[Finding]:
        for product in self.tensors:
            for name, tiling in TILINGS.items():
                time = microseconds(partial(self.product, product, tiling), self.sizes)
                yield Finding(f"{what}/{product}/{name}", time, "us")
        results = []
        for way in (self.launches, self.one_launch):
            self.x.copy_(self.start)
            way()
            results.append(torch.cat((self.x, self.projected), dim=1))
            yield Finding(f"{what}/layer/{way.__name__}", microseconds(way, self.sizes), "us")
        yield Finding(f"{what}/layer/differing", int((results[0] != results[1]).sum()), "numbers")

    def product(self, name: str, tiling: Tiling | None = None) -> None:
        """Launch a product as a step does."""
        _, _, normed, activation, residual = self.products[name]
        x, out = self.tensors[name]
        read, written = (self.moments, None) if normed else (None, self.moments)
        norm, added = self.norm if normed else None, out if residual else None
        linear(x, *self.linears[name], out, norm, activation, added, tiling, moments=read, out_moments=written)

    def launches(self) -> None:
        """Change x in place, and write its projection, by four launches."""
        for name in self.tensors:
            self.product(name)

    def one_launch(self) -> None:
        """As `launches`."""
        first, second = self.linears["feed_forward_in"], self.linears["feed_forward_out"]
        attended, after = (
            (self.attended, self.linears["attention_out"]),
            (self.norm, self.linears[LAST], self.projected),
        )
        feed_forward_rows(self.x, first, second, self.of.activation, self.norm, None, attended, after)
