"""The network in plain torch operations, on any device: the backend that needs
neither our library nor our kernels.

A matrix product of another shape, or on another number of threads, may round differently,
and one bit can flip a pixel. So slots are computed a fixed number at a time, empty ones
included, and on a CPU in one thread: an image's bytes depend neither on the rest of the
batch nor on the number of slots or threads.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from scanline.kernels import LN2
from scanline.kernels.categorical.reference import range_bits
from scanline.kernels.codec.reference import Readers, decode
from scanline.kernels.codec.reference import intervals as quantised_intervals
from scanline.kernels.philox import uniforms
from scanline.model.backends.backend import Backend
from scanline.model.backends.pending import DeviceClock, Pending
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.base.device import AMPERE
from scanline.model.base.state import State
from scanline.model.network.transformer import Transformer

TILE = 32  # slots, on a CPU; a multiple of 32 keeps every elementwise loop in whole vectors
# On a GPU, as many as its launches have time for: with fewer, a step of thousands of images is
# bound by launches; with more, one image waits for the arithmetic of others. Computed for an A100,
# and for a T4, which runs torch alone.
TILE_AMPERE = 1024
TILE_BEFORE = 128


class EagerBackend(Backend):
    """Run `Transformer.step` on tiles of slots, one tile after the other in each step."""

    state_dtype = torch.float32
    is_asynchronous = False
    prefill_images = 1
    prefills_in_chunks = False  # a product of another shape may round differently

    def __init__(self, model: Transformer) -> None:
        device = model.device
        self.model = model
        self.rows = tile(device)
        self.name = f"torch ({device.type})"
        if device.type == "cuda":
            card = torch.cuda.get_device_name(device)
            processor = f"{card}, {self.rows} slots at a time"
        else:
            processor = torch.backends.cpu.get_cpu_capability()
        # torch rounds differently on another processor
        self.build = self.arithmetic = f"torch {torch.__version__}, {processor}"

    @torch.inference_mode()
    def advance(self, pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        """See Backend.advance; tiles without an image to step are skipped."""
        clock = DeviceClock(self.model.device)
        # Images in flight that are not to step share tiles with those that are, and keep their
        # state.
        paused = pool.state.position < self.model.config.bytes
        paused[pool.rows(slots)] = False
        before = pool.state.chosen(paused)
        pool.advance_only(slots, lambda chosen: self._advance(chosen, steps))
        pool.state.put(paused, before)
        return clock.stop()

    def prefill(self, batch: PrefillBatch) -> torch.Tensor:
        """See Backend.prefill, through the parallel view, one image at a time; for intervals step
        by step, since the parallel view rounds differently."""
        shape = (len(batch.images), int(batch.stops.max()))
        bits = torch.zeros(shape, dtype=torch.float64, device=batch.images.device)
        with torch.inference_mode(), _repeatable():
            for row, stop in enumerate(batch.stops.tolist()):
                start = int(batch.state.position[row])
                if start < stop:
                    bits[row, start:stop] = self._prefill_image(batch, row, start, stop)
        return bits

    def _prefill_image(self, batch: PrefillBatch, row: int, start: int, stop: int) -> torch.Tensor:
        """Return the bits [stop - start] float64 of the known bytes of one image of a batch."""
        model = self.model
        this = slice(row, row + 1)
        image = batch.images[this]
        state = batch.state.part(row, row + 1)
        label = batch.labels[this]
        known = image[:, start:stop]
        if batch.intervals is None:
            parameters = model.parallel(image, state, stop, label)
        else:
            parameters = self._stepped(image, state, stop, label)
            steps = known.unflatten(1, (-1, model.config.step_bytes))
            intervals = quantised_intervals(model.distribution, parameters, steps)
            batch.intervals[row, start:stop] = intervals.flatten(1, 2)[0]
        tolerance = batch.tolerances[this]
        if tolerance.any():
            bits = range_bits(parameters.cpu().numpy(), known.cpu().numpy(), tolerance)
            return torch.from_numpy(bits[0])
        return model.bits(parameters, image, start, stop)[0]

    def _stepped(
        self,
        image: torch.Tensor,  # [1, N]
        state: State,  # changed in place
        stop: int,
        label: torch.Tensor,  # [1]
    ) -> torch.Tensor:
        """Return the parameters [1, n, P] of one image's steps up to `stop`, as `advance` computes
        them: in a tile."""
        config = self.model.config
        device = self.model.device
        first = torch.zeros(1, dtype=torch.int64, device=device)
        tile = State.zeros(config, self.rows, device)
        tile.put(first, state)
        images = torch.zeros(self.rows, config.bytes, dtype=torch.uint8, device=device)
        images[0] = image[0]
        labels = torch.zeros(self.rows, dtype=torch.int64, device=device)
        labels[0] = label[0]
        parameters = []
        start = int(state.position[0])
        for _ in range(start, stop, config.step_bytes):
            of_step = self.model.step(images, tile, labels)
            parameters.append(of_step[:1])
        state.put(first, tile.chosen(first))
        return torch.stack(parameters, dim=1)

    def _advance(self, pool: SlotPool, steps: int) -> None:
        length = self.model.config.bytes
        slots = torch.arange(len(pool.images), device=self.model.device)
        # The tiles that have an image to step.
        is_unfinished = pool.state.position < length
        busy = is_unfinished.view(-1, self.rows).any(dim=1)
        tiles: list[tuple[slice, SlotPool]] = []
        for tile in busy.nonzero().flatten().tolist():
            first = tile * self.rows
            stop = first + self.rows
            tiles.append((slice(first, stop), pool.part(first, stop)))
        width = self.model.distribution.width
        parameters = torch.zeros(len(slots), width, device=slots.device)
        with torch.inference_mode(), _repeatable():
            for _ in range(steps):
                position = pool.state.position.clone()
                for rows, part in tiles:
                    parameters[rows] = self.model.step(part.images, part.state, part.label)
                # The slots whose parameters bytes are drawn from as well: of an image that is not
                # guided, its own.
                partners = slots + pool.partner * (position < length)
                for rows, part in tiles:
                    others = parameters[partners[rows]]
                    self._paint(part, position[rows], parameters[rows], others)

    def _paint(
        self,
        tile: SlotPool,
        position: torch.Tensor,  # [B]
        parameters: torch.Tensor,  # [B, P]
        others: torch.Tensor,  # [B, P], of the partners of guided images
    ) -> None:
        """Paint the step at `position` of every image in a tile, IN PLACE, and add its cost under
        `parameters`. Finished images are computed too, without effect."""
        config = self.model.config
        distribution = self.model.distribution
        done = (position >= config.bytes).unsqueeze(1)
        first = position.clamp(max=config.bytes - config.step_bytes)
        places = first.unsqueeze(1) + torch.arange(config.step_bytes, device=first.device)  # [B, n]
        draws = [uniforms(tile.seed, tile.index, place) for place in places.unbind(1)]
        values = tile.images.gather(1, places)
        known = tile.known.gather(1, places)
        drawing = (torch.stack(draws, dim=1), tile.temperature, values, known | done)
        painted = distribution.sample(parameters, *drawing)

        # Guided images, from the parameters with and without the class.
        is_guided = (tile.partner != 0).unsqueeze(1) & ~done
        if config.can_be_guided and is_guided.any():
            has_class = (tile.label != 0).unsqueeze(1)
            with_class = torch.where(has_class, parameters, others)
            without = torch.where(has_class, others, parameters)
            guided = distribution.sample_guided(with_class, without, tile.guidance, *drawing)
            painted = torch.where(is_guided, guided, painted)

        # Images that are painted from codes.
        is_coded = (tile.code_range > 0) & ~done.squeeze(1)
        if is_coded.any():
            rows = is_coded.nonzero().flatten()
            readers = Readers(
                tile.code[rows], tile.code_at[rows], tile.code_value[rows], tile.code_range[rows]
            )
            painted[rows] = decode(distribution, parameters[rows], readers)
            tile.code_at[rows] = readers.at
            tile.code_value[rows] = readers.value
            tile.code_range[rows] = readers.range

        tile.images.scatter_(1, places, painted)
        cost = -distribution.log_prob(parameters, painted).double() / LN2
        are_others_finite = others.isfinite().all(dim=1, keepdim=True)
        cost.masked_fill_(is_guided & ~are_others_finite, math.nan)
        cost.masked_fill_(done, 0.0)
        tile.bits.add_(cost.sum(dim=1))
        cost.masked_fill_(~known, 0.0)
        tile.known_bits.add_(cost.sum(dim=1))


def tile(device: torch.device) -> int:
    """Return how many slots a device computes at a time."""
    if device.type == "cpu":
        return TILE
    if torch.cuda.get_device_capability(device) >= AMPERE:
        return TILE_AMPERE
    return TILE_BEFORE


@contextmanager
def _repeatable() -> Iterator[None]:
    """One thread and no TF32 for torch's operations inside; the caller's settings after it."""
    threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
