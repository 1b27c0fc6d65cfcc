"""Painting ahead by the kernels of a step: a pass of the network over several steps of each image,
whose bytes, bits and states are those of step by step.

The arithmetic is the step's: no row of a product depends on the others, the recurrence adds step
by step, and a draw depends on seed, image and position alone. What a pass paints is decided on the
device (kernels/ahead). A pass is recorded as a CUDA graph, which has a place for each row, run or
not.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch

from scanline.kernels.ahead.reference import Images, Plan
from scanline.kernels.ahead.triton import accept, plan
from scanline.kernels.causal_conv.triton import Norm
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.step.ahead_triton import add_rows, fused_recurrent_rows
from scanline.model.backends.cuda_graph import Replay, recorded
from scanline.model.backends.cuda_step import Buffers, KernelSequence, Rows
from scanline.model.backends.slots import SlotPool
from scanline.model.base.config import ModelConfig


@dataclass(frozen=True)
class Pass:
    """The size of a recorded pass."""

    images: int  # at most; an even number, or one
    rows: int  # for the steps of all images
    widest: int  # steps of an image, at most; no more than a row of the image has pixels

    @property
    def is_full(self) -> bool:
        """Whether there is room for all steps of all images, so that every pixel is guessed."""
        return self.rows >= self.images * self.widest


def can_paint_ahead(config: ModelConfig) -> bool:
    """Return whether there are kernels for it: a step must be a whole pixel, and what a causal
    convolution keeps is not kept of rows that may be wrong."""
    return config.step_bytes == config.channels and not config.causal_conv


class KernelAhead:
    """Passes of several steps of each image with the kernels and in the buffers of a step.

    passes: by images, ascending.
    """

    def __init__(self, kernels: KernelSequence, buffers: Buffers, passes: tuple[Pass, ...]) -> None:
        self.kernels = kernels
        self.buffers = buffers
        self.config = config = kernels.config
        self.passes = passes
        self.device = device = buffers.slots.device
        size = config.step_bytes
        rows = max(ahead.rows for ahead in passes)
        assert rows <= len(buffers.slots)
        self.plans = []
        for ahead in passes:
            widest = min(ahead.widest, config.width)
            plan = Plan.of(ahead.images, ahead.rows, widest, size, device)
            self.plans.append(plan)
        # phi(k) and v of the rows of a pass in each layer
        self.step_size = config.heads * (config.key_width + config.value_width)
        self.kept = torch.zeros(config.layers * rows * self.step_size, device=device)
        self.bits, self.known_bits = torch.zeros(2, rows, dtype=torch.float64, device=device)
        self.costs = self.bits[:, None]
        if isinstance(kernels.distribution, PixelLogistics):
            self.costs = torch.zeros(rows, size, dtype=torch.float64, device=device)
        # as in kernels.ahead.reference.accept
        self.totals = torch.zeros(4, dtype=torch.int64, device=device)
        # Of the pool that `follow` was called with last:
        self.pool: SlotPool | None = None
        self.images: Images
        # by number of the pass, and whether codes are read
        self.graphs: dict[tuple[int, bool], Replay] = {}

    def follow(self, pool: SlotPool) -> None:
        """Know nothing of another pool: graphs hold addresses."""
        if pool is self.pool:
            return
        self.pool = pool
        self.graphs = {}
        self.images = Images(
            images=pool.images,
            known=pool.known,
            position=pool.state.position,
            bits=pool.bits,
            known_bits=pool.known_bits,
            partner=pool.partner,
            code_range=pool.code_range,
            drawn=torch.zeros_like(pool.images),
            drawn_to=torch.zeros_like(pool.state.position),
        )

    def forget(self, slots: torch.Tensor) -> None:
        """Forget what was drawn behind wrong guesses of the images that `slots` [n] had before."""
        self.images.drawn_to.index_fill_(0, slots, 0)

    def run(self, slots: torch.Tensor, stops: torch.Tensor, passes: int, decodes: bool) -> None:
        """Run passes of images in `slots` [n] int64, of guided ones both and first, up to `stops`
        [n]; both may be on the host. decodes: some from codes."""
        count = len(slots)
        number = 0
        while self.passes[number].images < count:
            number += 1
        of_pass = self.plans[number]
        of_pass.slots.fill_(-1)
        of_pass.slots[:count].copy_(slots, non_blocking=True)
        of_pass.stops[:count].copy_(stops, non_blocking=True)
        replay = self._graph(number, decodes)
        for _ in range(passes):
            replay()

    def warm_up(self) -> None:
        """Record all passes without codes, and one that reads them; change no image."""
        for number in range(len(self.passes)):
            self._graph(number, decodes=False)
        self._graph(0, decodes=True)

    def _graph(self, number: int, decodes: bool) -> Replay:
        key = (number, decodes)
        if key not in self.graphs:
            self.graphs[key] = self._recorded(number, decodes)
        return self.graphs[key]

    def _recorded(self, number: int, decodes: bool) -> Replay:
        launches = partial(self._launch, number, decodes)
        if self.device.type == "cuda":
            # Kernels must be compiled before they are recorded; with
            # no slot chosen, this pass changes no image.
            of_pass = self.plans[number]
            chosen = of_pass.slots.clone()
            of_pass.slots.fill_(-1)
            launches()
            of_pass.slots.copy_(chosen)
        return recorded(self.device, launches)

    def _launch(self, number: int, decodes: bool) -> None:
        """Run one pass of the images in the slots of its plan."""
        assert self.pool is not None
        pool = self.pool
        state = pool.state
        config = self.config
        of_pass = self.plans[number]
        count = len(of_pass.at)
        kept = self.kept[: config.layers * count * self.step_size]
        kept = kept.view(config.layers, count, self.step_size)
        rows = Rows(
            at=of_pass.at,
            bits=self.bits[:count],
            known_bits=self.known_bits[:count],
            costs=self.costs[:count],
        )
        rows.bits.zero_()
        rows.known_bits.zero_()
        plan(of_pass, self.images, config.width, self.passes[number].is_full)
        buffers = replace(self.buffers.part(0, count), slots=of_pass.row_slots)
        self.kernels.input.run(pool.images, state.position, pool.label, buffers, of_pass.at)

        def recur(i: int) -> None:
            fused_recurrent_rows(
                buffers.projected,
                state.s[i],
                state.z[i],
                state.deferred[i],
                of_pass.slots,
                of_pass.begin,
                of_pass.count,
                of_pass.first,
                of_pass.stride,
                kept[i],
                config.step_bytes,
                config.feature_map,
                buffers.attended,
            )

        self.kernels.predict(buffers, pool.label, recur, _no_conv)
        if decodes:
            self.kernels.decode(pool, buffers)
        code_range = pool.code_range if decodes else None
        self.kernels.sample(pool, buffers, code_range=code_range, rows=rows)
        accept(of_pass, self.images, rows.costs, rows.bits, self.totals)
        add_rows(
            kept,
            state.s,
            state.z,
            state.deferred,
            of_pass.slots,
            of_pass.begin,
            of_pass.painted,
            of_pass.first,
            of_pass.stride,
            config.step_bytes,
        )


def _no_conv(number: int, conv_weight: torch.Tensor, norm: Norm | None) -> None:
    raise AssertionError("a model with a causal convolution does not paint ahead here")
