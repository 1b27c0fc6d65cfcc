"""The network on a CPU, run by the compiled kernel: one call runs several steps of every image."""

from time import perf_counter

import numpy as np
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.categorical.reference import range_bits
from scanline.kernels.cpu.shape import CODES, FIELDS, STATE
from scanline.kernels.window import wave_table
from scanline.model.backends import particles
from scanline.model.backends.backend import Backend, Painted
from scanline.model.backends.groups import Groups
from scanline.model.backends.pending import Pending
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.base import resources
from scanline.model.base.config import ModelConfig
from scanline.model.base.precision import DEFAULT, PRECISIONS, Precision
from scanline.model.base.state import State
from scanline.model.network.transformer import Transformer
from scanline.model.network.window_input import WindowInput

# The arrays that the kernel takes to paint and to copy slots, besides their states and positions.
PAINTED = (
    *(
        "images",
        "known",
        "bits",
        "seed",
        "index",
        "temperature",
        "label",
        "known_bits",
        "partner",
        "guidance",
    ),
    *CODES,
)
COPIED = ("images", "bits")


class CpuBackend(Backend):
    """Any number of slots; those with an image in flight are gathered into tiles,
    and a single image costs one row.
    """

    has_cpu_bits = True
    rows = 1
    state_dtype = torch.float32
    is_asynchronous = False
    paints_ahead = True
    widest = 0  # steps of an image in a pass at most; 0: as many as are worth their cost
    prefills_in_chunks = True
    # the same bits on every processor, with any number of threads
    build = f"cpu kernel {cpu_kernels.ABI}"
    arithmetic = f"cpu kernel {cpu_kernels.ARITHMETIC}"

    def __init__(
        self,
        model: Transformer,
        threads: int | None = None,
        precision: Precision = PRECISIONS[DEFAULT],
        isa: str | None = None,
        weights: str | None = None,
    ) -> None:
        """isa: one of cpu_kernels.instruction_sets(), by default the best. weights: how they are
        stored (float32, float16 or int8), by default the smallest that the precision allows. Raises
        ValueError if the precision needs another device."""
        if precision.state_dtype != torch.float32:
            raise ValueError("precision 'bfloat16-state' needs a GPU")
        self.config = model.config
        self.parameters = model.distribution.width
        isa = isa or cpu_kernels.instruction_sets()[0]
        self.prefill_images = threads = threads or resources.threads()
        if weights is None:
            # which would convert them in software
            lossless = _fits_float16(model) and isa != "portable"
            weights = "int8" if precision.int8_weights else "float16" if lossless else "float32"
        self.network = cpu_kernels.Network(
            kernel_shape(model.config), kernel_tensors(model), weights, threads, isa
        )
        self.pool: SlotPool | None = None  # which `advance` was called with last, and its arrays
        self.checked: cpu_kernels.CheckedSlots
        self.name = (
            f"cpu kernel ({self.network.isa}, {threads} threads, weights {weights}, state float32)"
        )

    def advance(self, pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        """See Backend.advance."""
        began = perf_counter()
        self.network.advance(self._checked(pool), steps, slots)
        return Pending.ended(perf_counter() - began)

    def paint_ahead(
        self, pool: SlotPool, slots: np.ndarray, passes: int, stops: np.ndarray
    ) -> Pending[Painted]:
        """See Backend.paint_ahead."""
        began = perf_counter()
        of_all = np.zeros(len(pool.images), np.int64)
        of_all[slots] = stops
        done = self.network.advance(
            self._checked(pool), passes, slots, widest=self.widest, stop=of_all
        )
        seconds = perf_counter() - began
        images = int((pool.partner.numpy()[slots] >= 0).sum())
        painted = Painted(seconds, images, done.passes, done.computed, done.painted, done.wrong)
        return Pending.ended(painted)

    def _checked(self, pool: SlotPool) -> cpu_kernels.CheckedSlots:
        """Return the pool's arrays, which are checked when it is new."""
        if pool is not self.pool:
            self.pool = pool
            self.checked = cpu_kernels.CheckedSlots(self.network.shape, _arrays(pool))
        return self.checked

    def resample(self, pool: SlotPool, groups: Groups) -> None:
        """See Backend.resample."""
        particles.resample(pool, groups, self._copy)

    def prefill(self, batch: PrefillBatch) -> torch.Tensor:
        """See Backend.prefill: the same arithmetic as `advance`, many positions of an image at a
        time; images that end at the same byte are run together."""
        stops = batch.stops
        starts = batch.state.position.numpy()
        bits = torch.zeros(len(stops), int(stops.max()), dtype=torch.float64)
        if bad := stops[stops < starts].tolist():
            raise ValueError(_cannot_run(starts.max(), bad[0], batch))
        for stop in np.unique(stops[starts < stops]).tolist():
            rows = np.flatnonzero((stops == stop) & (starts < stop))
            start = int(starts[rows[0]])  # now: the positions move
            # In nearly all cases all images end together: nothing is copied.
            if len(rows) == len(stops):
                bits[:, start:] = self._prefill_together(batch)
                break
            part = batch.chosen(rows)
            chosen = torch.from_numpy(rows)
            bits[chosen, start:stop] = self._prefill_together(part)
            batch.state.put(chosen, part.state)
            if batch.intervals is not None and part.intervals is not None:
                batch.intervals[chosen] = part.intervals
        return bits

    def prefill_parameters(self, batch: PrefillBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return bits [B, stop - start] of images that end at one byte, and the
        parameters [B, n, P] of the n steps.
        """
        steps = (int(batch.stops[0]) - int(batch.state.position[0])) // self.config.step_bytes
        parameters = torch.empty(len(batch.images), max(0, steps), self.parameters)
        return self._prefill_together(batch, parameters), parameters

    def _prefill_together(
        self, batch: PrefillBatch, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return bits [B, stop - start] of images that all end at one byte, and write their
        `parameters` [B, n, P], from which the bits of those with a tolerance are computed."""
        wide = np.flatnonzero(batch.tolerances)
        if len(wide) and parameters is None:
            return self.prefill_parameters(batch)[0]
        start = int(batch.state.position[0])
        stop = int(batch.stops[0])
        size = self.config.step_bytes
        whole = start % size == stop % size == 0
        length = batch.images.shape[1]
        # beyond them lies other memory
        if length != self.config.bytes or not start < stop <= length or not whole:
            raise ValueError(_cannot_run(start, stop, batch))
        bits = torch.empty(len(batch.images), stop - start, dtype=torch.float64)
        intervals = (
            None if batch.intervals is None else torch.empty(*bits.shape, 2, dtype=torch.int32)
        )
        arrays = {
            **_state_arrays(batch.state),
            "images": batch.images.contiguous(),
            "label": batch.labels,
        }
        self.network.read(arrays, start, stop, bits, parameters, intervals)
        if batch.intervals is not None and intervals is not None:
            batch.intervals[:, start:stop] = intervals
        if len(wide) and parameters is not None:
            values = batch.images[wide, start:stop].numpy()
            bits[wide] = torch.from_numpy(
                range_bits(parameters[wide].numpy(), values, batch.tolerances[wide])
            )
        return bits

    def _copy(self, pool: SlotPool, sources: torch.Tensor, targets: torch.Tensor) -> None:
        if not torch.equal(sources, targets):
            self.network.copy_slots(_arrays(pool, COPIED), sources, targets)

    def close(self) -> None:
        """Free threads and weights."""
        self.network.close()


def _cannot_run(start: int, stop: int, batch: PrefillBatch) -> str:
    return f"cannot run bytes {start} to {stop} of images of {batch.images.shape[1]} bytes"


@resources.one_torch_thread()
def _fits_float16(model: Transformer) -> bool:
    """Return whether float16 holds the network's matrices without loss, as
    it does those of a stored model.
    """
    matrices = [module.weight for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return all(torch.equal(matrix.half().float(), matrix) for matrix in matrices)


def kernel_shape(config: ModelConfig) -> cpu_kernels.Shape:
    """Return the shape that cpu_kernels.Network expects."""
    reads = "window" if config.step == "pixel" else "byte"
    mixture = "categorical" if config.predicts == "categorical" else "pixel_logistics"
    numbers = {
        "reads": cpu_kernels.READS[reads],
        "predicts": cpu_kernels.PREDICTS[mixture],
        "pre_norm": config.norm == "pre",
        "gelu": config.activation == "gelu",
        "concat": config.embedding_join == "concat",
        "axial": config.position == "axial",
        "exp_scale": config.scale == "exp",
        "centred": config.window_centred,
        "skip": config.predicts == "pixel_logistics",
        "classes": len(config.classes),
    }
    # The others have their names in the configuration.
    for name in FIELDS:
        if name not in numbers:
            numbers[name] = getattr(config, name)
    return cpu_kernels.Shape(**numbers)


def kernel_tensors(model: Transformer) -> list[torch.Tensor]:
    """Return the weights in the order that cpu_kernels.Network expects."""
    embedding = model.embedding
    config = model.config
    tensors: list[torch.Tensor]
    if isinstance(embedding, WindowInput):
        tensors = [wave_table(config.waves)] if config.waves else []
        tensors += [embedding.linear.weight, embedding.linear.bias, embedding.row, embedding.column]
    elif config.position == "axial":
        tensors = [embedding.value, embedding.row, embedding.column]
        tensors += [embedding.channel] if config.channels > 1 else []
    else:
        tensors = [embedding.value, embedding.waves]
    for block in model.blocks:
        for part in (block.norm, block.expand, block.contract):
            tensors += [part.weight, part.bias]
        tensors += [tensor for tensor in (block.taps, block.expand.biases) if tensor is not None]
    for layer in model.layers:
        products = (
            layer.query_key_value,
            layer.attention_out,
            layer.feed_forward_in,
            layer.feed_forward_out,
        )
        for part in (*products, layer.attention_norm, layer.feed_forward_norm):
            tensors += [part.weight, part.bias]
        tensors += [
            tensor for tensor in (layer.taps, layer.feed_forward_in.biases) if tensor is not None
        ]
    tensors += [model.norm.weight, model.norm.bias, model.head.weight, model.head.bias]
    if config.predicts == "pixel_logistics":
        tensors += [model.skip.weight, model.skip.bias]
    return [*tensors, model.classes] if config.classes else tensors


def _arrays(slots: SlotPool, names: tuple[str, ...] = PAINTED) -> dict[str, torch.Tensor]:
    return {name: getattr(slots, name) for name in names} | _state_arrays(slots.state)


def _state_arrays(state: State) -> dict[str, torch.Tensor]:
    return {name: getattr(state, name) for name in STATE}
