"""The network on a GPU: a step of many images is some forty launches of our own kernels and
nothing else, recorded once into CUDA graphs of several sizes and replayed for every step. Known
bytes are prefilled by the same kernels.

Positions, draws and known bytes stay on the device; the host hands the numbers of the slots to
step to a graph. Every kernel computes an image from that image alone, in one order, so neither the
size of the graph nor the place in it changes a bit. Without a GPU the same launches run one by one
in Triton's interpreter, for tests.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
import triton

from scanline.kernels.codec.coder import Decoder
from scanline.kernels.gpu import reported_compilation
from scanline.kernels.triton.copy_slots import copy_slots
from scanline.kernels.triton.sampling import draw_uniforms
from scanline.model.backends import particles
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Backend, Painted
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.cuda_ahead import KernelAhead, Pass, can_paint_ahead
from scanline.model.backends.cuda_graph import Replay, recorded
from scanline.model.backends.cuda_prefill import KernelPrefill
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.groups import Groups
from scanline.model.backends.pending import DeviceClock, Pending, to_host
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.base.device import HOPPER
from scanline.model.base.precision import DEFERRED
from scanline.model.base.state import NUMBERS, State
from scanline.model.network.transformer import Transformer

BITS = 2  # raised with every change of a bit of our kernels' results

log = logging.getLogger("scanline.model")


@dataclass(frozen=True)
class CudaOptions:
    """How the work is cut into graphs and launches: speed only, no byte depends on
    it, but where states are in 16 bits on `deferred`. `python -m benchmarks.gpu`
    tries it (`--parts goals one`)."""

    # Images of a graph: in small steps, because a graph computes all of its rows; the largest is
    # even, so that both slots of a guided image are in one. The activations of 4,096 are 38 MB at
    # the paper's size, less than an H100's L2 of 50 MB; whether they stay there is not measured.
    sizes: tuple[int, ...] = (1, 8, *range(64, 1025, 64), *range(1536, 4097, 512))
    # In one graph of few images, whose steps are expected to be short
    # compared with the launch of a graph.
    steps: int = 8
    few: int = 256  # images
    # Streams that share a graph of `many` images: one multiplies while another
    # moves its states. 2 are not measured.
    streams: int = 1
    many: int = 1024  # images
    # images up to which a step loads all deferred ones before it knows their number; not measured
    at_once: int = 0
    # Images of a graph that prefills, ascending, and steps of each. The buffers of 16,384
    # steps are 154 MB at the paper's size.
    prefill_graphs: tuple[tuple[int, int], ...] = ((1, 1024), (16, 256), (64, 64), (256, 64))
    # steps at most that a slot keeps beside s and z; 0: these are written in every step
    deferred: int = DEFERRED
    # Sizes of passes that paint ahead, by images, ascending; none: there is no `paint_ahead`. Not
    # tried on a GPU.
    ahead: tuple[Pass, ...] = ()


def copy_particles(pool: SlotPool, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """As particles.copy_slots: one launch for each array, which reads no slot that is its own
    source."""
    for name in NUMBERS:
        copy_slots(getattr(pool.state, name), sources, targets, layered=True)
    copy_slots(pool.images, sources, targets)
    copy_slots(pool.bits, sources, targets)


class CudaBackend(Backend):
    """Triton kernels in CUDA graphs; s is stored in `state_dtype` (float32, float16 or bfloat16)
    between steps. With int8 weights, all of its bits are the cpu kernel's."""

    rows = 1
    is_asynchronous = True
    prefills_in_chunks = True

    def __init__(
        self,
        model: Transformer,
        state_dtype: torch.dtype = torch.float32,
        chained: bool = True,
        options: CudaOptions = CudaOptions(),
        narrow: bool = False,
        int8_weights: bool = False,
    ) -> None:
        """See KernelSequence for `chained`, which a GPU before Hopper is not, and `narrow`."""
        self.model = model
        self.config = model.config
        self.state_dtype = state_dtype
        self.options = options
        passes = tuple(
            (images, min(steps, self.config.steps)) for images, steps in options.prefill_graphs
        )
        self.prefill_images, self.prefill_steps = passes[-1]
        self.deferred = options.deferred
        if int8_weights and (self.config.first or self.config.steps % (DEFERRED + 1)):
            # A digest and the self-test read states between two writings of s and z, which
            # State.complete rounds otherwise.
            self.deferred = 0
        self.device = device = model.device
        self.on_gpu = device.type == "cuda"
        processor = "interpreter"
        if self.on_gpu:
            processor = torch.cuda.get_device_name(device)
            if chained:
                processor += ", chained launches"
        if narrow:
            processor += ", narrow programs"
        self.name = f"triton ({processor})"
        self.has_cpu_bits = int8_weights
        if int8_weights:
            self.name = f"triton ({processor}, weights int8)"
            self.build = CpuBackend.build
            self.arithmetic = CpuBackend.arithmetic
        else:
            # Triton's compiler decides the bits of all kernels
            self.build = self.arithmetic = f"triton {triton.__version__}, {processor}, bits {BITS}"
        with torch.inference_mode():
            chainable = self.on_gpu and torch.cuda.get_device_capability(device) >= HOPPER
            self.kernels = KernelSequence(
                model, chained and chainable, narrow, options.at_once, int8_weights
            )
            prefill_rows = [images * steps for images, steps in passes]
            can_ahead = can_paint_ahead(self.config) and not int8_weights
            passes_ahead = options.ahead if can_ahead else ()
            ahead_rows = [ahead.rows for ahead in passes_ahead]
            rows = max(options.sizes[-1], *prefill_rows, *ahead_rows)
            self.buffers = Buffers.of(self.config, rows, device)
            state = State.zeros(
                self.config, self.prefill_images, device, state_dtype, self.deferred
            )
            self.kernel_prefill = KernelPrefill(self.kernels, self.buffers, passes, state)
            self.kernel_ahead: KernelAhead | None = None
            if passes_ahead:
                self.kernel_ahead = KernelAhead(self.kernels, self.buffers, passes_ahead)
            self.paints_ahead = self.kernel_ahead is not None
        self.pool: SlotPool | None = None  # that the graphs were recorded for
        # What the host knows of each slot: as SlotPool.partner, and whether it has a code.
        self.partner = np.zeros(0, np.int64)
        self.is_coded = np.zeros(0, np.bool_)
        # by size, number of steps and whether codes are read
        self.graphs: dict[tuple[int, int, bool], Replay] = {}

    @torch.inference_mode()
    def warm_up(self, pool: SlotPool) -> None:
        """Record the graphs of one image and of all slots, whose launches are of every kind:
        those of other sizes are recorded when they are needed, in milliseconds, as those that
        read codes are, but for one. Record the graphs that prefill, so that no later one compiles
        anything or finds too little memory."""
        least = self.options.sizes[0]
        most = self._graph_size(min(len(pool.images), self.options.sizes[-1]))
        with reported_compilation():
            for size in (least, most):
                for steps in self._graph_steps(size):
                    self._graph(pool, size, steps)
            self._graph(pool, least, 1, decodes=True)
            if self.kernel_ahead is not None:
                self.kernel_ahead.follow(pool)
                self.kernel_ahead.warm_up()
            self._warm_up_prefill()
            itself = torch.zeros(1, dtype=torch.int64, device=self.device)
            copy_particles(pool, itself, itself)  # copies nothing, but is compiled
            draw_uniforms(itself, itself, itself)

    def _warm_up_prefill(self) -> None:
        """Record the graphs that prefill, and one that also writes intervals."""
        if not self.has_cpu_bits:  # else both are one function
            self.kernel_prefill.in_one_launch = self.kernel_prefill.one_launch_is_exact(
                self.state_dtype, self.deferred
            )
        if not self.kernel_prefill.in_one_launch:
            log.warning(
                "known bytes are prefilled with a launch for each: one for all rounds differently here"
            )
        stop = self.config.first + self.config.step_bytes
        intervals = torch.zeros(1, stop, 2, dtype=torch.int32, device=self.device)
        self._prefill_zeros(1, stop, intervals)
        if self.on_gpu:  # in the interpreter, every row takes its time
            for images, _ in self.options.prefill_graphs:
                self._prefill_zeros(images, stop, None)

    def _prefill_zeros(self, count: int, stop: int, intervals: torch.Tensor | None) -> None:
        state = State.zeros(self.config, count, self.device, self.state_dtype, self.deferred)
        images = torch.zeros(count, self.config.bytes, dtype=torch.uint8, device=self.device)
        self.prefill(PrefillBatch.of(images, state, np.full(count, stop), intervals=intervals))

    def place(self, pool: SlotPool, arrivals: Arrivals) -> None:
        """See Backend.place."""
        self._follow(pool)
        slots = arrivals.slots.numpy()
        self.partner[slots] = arrivals.partner.numpy()
        self.is_coded[slots] = False
        pool.place(arrivals)
        if self.kernel_ahead is not None:
            self.kernel_ahead.follow(pool)
            self.kernel_ahead.forget(pool.rows(slots))

    def put_codes(self, pool: SlotPool, slots: np.ndarray, decoders: Sequence[Decoder]) -> None:
        """See Backend.put_codes."""
        self._follow(pool)
        self.is_coded[slots] = True
        pool.put_codes(slots, decoders)

    @torch.inference_mode()
    def advance(self, pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        """See Backend.advance: the slots are packed into graphs, whichever their numbers are."""
        self._follow(pool)
        clock = DeviceClock(self.device)
        slots = self._pairs_first(slots)
        most = self.options.sizes[-1]
        for first in range(0, len(slots), most):
            chosen = slots[first : first + most]
            size = self._graph_size(len(chosen))
            numbers = torch.full((size,), -1, pin_memory=self.on_gpu)
            numbers[: len(chosen)] = torch.from_numpy(chosen)
            self.buffers.slots[:size].copy_(numbers, non_blocking=True)
            decodes = bool(self.is_coded[chosen].any())
            left = steps
            for graph_steps in self._graph_steps(size):
                for _ in range(left // graph_steps):
                    self._graph(pool, size, graph_steps, decodes)()
                left %= graph_steps
        return clock.stop()

    @torch.inference_mode()
    def paint_ahead(
        self, pool: SlotPool, slots: np.ndarray, passes: int, stops: np.ndarray
    ) -> Pending[Painted]:
        """See Backend.paint_ahead; only with `options.ahead`, and not of every model."""
        ahead = self.kernel_ahead
        assert ahead is not None
        self._follow(pool)
        ahead.follow(pool)
        clock = DeviceClock(self.device)
        of_all = np.zeros(len(pool.images), np.int64)
        of_all[slots] = stops
        ahead.totals.zero_()
        slots = self._pairs_first(slots)
        most = ahead.passes[-1].images
        for first in range(0, len(slots), most):
            chosen = slots[first : first + most]
            decodes = bool(self.is_coded[chosen].any())
            ahead.run(pool.rows(chosen), pool.rows(of_all[chosen]), passes, decodes)
        totals = to_host(ahead.totals.clone())
        seconds = clock.stop()
        images = int((self.partner[slots] >= 0).sum())

        def on_host() -> Painted:
            passes, computed, painted, wrong = totals.wait().tolist()
            return Painted(seconds.wait(), images, passes, computed, painted, wrong)

        return Pending(on_host)

    @torch.inference_mode()
    def resample(self, pool: SlotPool, groups: Groups) -> None:
        """See Backend.resample: queued as every call is, so that it lies between the graphs before
        and after it."""
        particles.resample(pool, groups, copy_particles, draw_uniforms)

    @torch.inference_mode()
    def choose(self, pool: SlotPool, groups: Groups) -> None:
        """See Backend.choose."""
        particles.choose(pool, groups, draw_uniforms)

    @torch.inference_mode()
    def prefill(self, batch: PrefillBatch) -> torch.Tensor:
        """See Backend.prefill, with the bits of `advance`."""
        return self.kernel_prefill.run(batch)

    def close(self) -> None:
        self.pool = None
        self.graphs = {}
        self.kernel_prefill.graphs = {}
        self.kernel_ahead = None

    def _follow(self, pool: SlotPool) -> None:
        """Know nothing of the slots of another pool."""
        if len(self.partner) != len(pool.images):
            self.partner = np.zeros(len(pool.images), np.int64)
            self.is_coded = np.zeros(len(pool.images), np.bool_)

    def _pairs_first(self, slots: np.ndarray) -> np.ndarray:
        """Return slots [n] in another order: first those of guided images, both of one in a row."""
        partner = self.partner[slots]
        if not partner.any():
            return slots
        lower = slots[partner > 0]
        upper = lower + partner[partner > 0]
        pairs = np.stack((lower, upper), axis=1)
        return np.concatenate((pairs.ravel(), slots[partner == 0]))

    def _graph_size(self, count: int) -> int:
        """Return how many rows the smallest graph of so many images has."""
        return next(size for size in self.options.sizes if size >= count)

    def _graph_steps(self, size: int) -> tuple[int, ...]:
        """Return how many steps the graphs of a size have, the most first; the last is 1."""
        if size <= self.options.few and self.options.steps > 1:
            return (self.options.steps, 1)
        return (1,)

    def _graph(self, pool: SlotPool, size: int, steps: int, decodes: bool = False) -> Replay:
        """Return a function that paints so many steps of the images in the first `size` of the
        buffers' slots; decodes: some of them from codes."""
        # Graphs hold addresses: another pool needs its own.
        if pool is not self.pool:
            self.pool = pool
            self.graphs = {}
        key = (size, steps, decodes)
        if key not in self.graphs:
            self.graphs[key] = self._recorded(pool, size, steps, decodes)
        return self.graphs[key]

    def _recorded(self, pool: SlotPool, size: int, steps: int, decodes: bool) -> Replay:
        """Return the replay of a graph; without a GPU, its launches one by one."""
        streams = self.options.streams if size >= self.options.many else 1
        # Equal parts, but for pairs, of which none is divided.
        ends = [2 * (size * stream // streams // 2) for stream in range(streams)] + [size]
        parts = [self.buffers.part(first, stop) for first, stop in pairwise(ends)]

        def run(part: Buffers) -> None:
            for _ in range(steps):
                self.kernels.run(pool, part, decodes)

        if self.on_gpu:
            # Kernels must be compiled before they are recorded; with no slot
            # chosen, this step changes no image.
            chosen = self.buffers.slots[:size].clone()
            self.buffers.slots[:size] = -1
            for part in parts:
                self.kernels.run(pool, part, decodes)
            self.buffers.slots[:size] = chosen
        return recorded(self.device, *(partial(run, part) for part in parts))
