"""The generator: a fixed pool of slots, each with the state, bytes and
position of one image, painted all at once.

Images join (`place_many`), are fetched (`fetch`) and leave (`clear`) between any two
calls of `start`; an image's bytes never depend on what else is in the pool. On a GPU
these calls are queued in order, and none waits. Owns weights and states; the scheduler
decides which image gets which slot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache

import numpy as np
import torch

from scanline.kernels.philox import uniforms
from scanline.model.backends import open_backend
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Painted
from scanline.model.backends.groups import Groups
from scanline.model.backends.pending import Pending, to_device
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import Fetched
from scanline.model.base import resources
from scanline.model.base.precision import DEFAULT
from scanline.model.base.state import State
from scanline.model.network.transformer import Transformer, first_byte_bits
from scanline.model.sampling.base.digest import class_head_digest, coding_digests, model_digest
from scanline.model.sampling.base.errors import synchronize
from scanline.model.sampling.base.prefill_state import PrefillState, Prefix, Reading
from scanline.model.sampling.kinds.guided import pair
from scanline.model.sampling.kinds.image_spec import ImageSpec, write_numbers


@dataclass(frozen=True)
class Started:
    """What a device was given to paint."""

    positions: Pending[np.ndarray]  # [n] int64: where the images stand after it
    painted: Pending[Painted]


BITS = Reading()


class Generator:
    """`slots` images in flight, each at its own position; all memory is allocated here."""

    def __init__(
        self,
        model: Transformer,
        slots: int,
        threads: int | None = None,
        precision: str = DEFAULT,
        backend: str | None = None,
        spare: int = 0,
        synchronize: Callable[[], None] = synchronize,
    ) -> None:
        """See `open_backend`, which may run a copy of the model on another device: `self.model` is
        what runs. spare: slots besides, of the scheduler's. synchronize: see `unrecoverable`."""
        self.threads = threads or resources.threads()
        opened = open_backend(model, slots + spare, self.threads, precision, backend)
        self.model = opened.model
        self.backend = opened.backend
        self.backend_name = opened.name
        self.fallbacks = opened.fallbacks
        self.pool = opened.slots
        self.config = model.config
        self.slots = slots
        self.spare = spare
        self.synchronize = synchronize
        self.precision = precision
        head = self.model.class_head
        self.model.class_head = None if head is None else head.to(self.model.device)

    @property
    def is_asynchronous(self) -> bool:
        """Whether the device works on its own, so that it may be given steps
        before the last ones have ended.
        """
        return self.backend.is_asynchronous

    @property
    def paints_ahead(self) -> bool:
        """Whether a pass may paint several steps of an image."""
        return self.backend.paints_ahead

    @property
    def positions_are_late(self) -> bool:
        """Whether it is known only once the device has painted where images stand."""
        return self.is_asynchronous and self.paints_ahead

    @cached_property
    def digest(self) -> str:
        """The digest of everything that decides which bytes are painted
        (digest.py); computed at its first use.
        """
        return model_digest(self.model, self.backend, self.precision)

    @cached_property
    def class_head_digest(self) -> str:
        """The digest of the class head, empty where there is none; computed at its first use."""
        return class_head_digest(self.model.class_head)

    @cached_property
    def codings(self) -> tuple[str, ...]:
        """The digests of everything that decides what a code paints (digest.py), that of new files
        first; computed at their first use."""
        return coding_digests(self.model, self.backend, self.precision)

    def prefix(self, spec: ImageSpec) -> int:
        """Return how many bytes before the first unknown one can be
        prefilled: those of whole steps.
        """
        return spec.prefix - spec.prefix % self.config.step_bytes

    @torch.inference_mode()
    def start_prefill(
        self,
        images: np.ndarray,
        stops: Sequence[int],
        labels: Sequence[int] = (),
        tolerances: Sequence[int] = (),
        reading: Reading = BITS,
    ) -> PrefillState:
        """Prepare to run the bytes of images [B, N] uint8 before `stops` [B]
        through the network, without a slot.

        labels: [B], as in ImageSpec; tolerances: [B], as in PrefillBatch; all 0 by default.
        """
        count = len(images)
        ends = np.array(stops, np.int64)
        bits = np.zeros((count, int(ends.max())))
        if self.config.first:
            read = ends > 0
            first = first_byte_bits(self.config, torch.tensor(images[read, 0]))
            bits[read, :1] = first.unsqueeze(1).numpy()
        device = self.model.device
        dtype = reading.run.state_dtype or self.backend.state_dtype
        batch = PrefillBatch(
            to_device(np.array(images), device),
            State.zeros(self.config, count, device, dtype, self.backend.deferred),
            ends,
            to_device(np.array(labels or [0] * count, np.int64), device),
            np.array(tolerances or [0] * count, np.int64),
        )
        return reading.run(reading, self.model, self.backend, self.threads, batch, bits)

    def run_prefill(self, prefill: PrefillState, steps: int | None = None) -> Pending[float]:
        """Start to run the next chunk of a prefill, IN PLACE; see PrefillState.next_chunk."""
        return prefill.next_chunk(steps)

    def prefill(self, spec: ImageSpec) -> Prefix:
        """Run the known first bytes of one image through the network at once."""
        assert spec.known is not None
        prefill = self.start_prefill(spec.known[None], [self.prefix(spec)], [spec.label])
        self.run_prefill(prefill).wait()
        return prefill.prefix(0)

    def score(self, images: np.ndarray, labels: Sequence[int] = ()) -> np.ndarray:
        """Return bits [B, N] float64 of every byte of images [B, N] uint8 with
        `labels` [B], without using a slot.
        """
        prefill = self.start_prefill(images, [self.config.bytes] * len(images), labels)
        while not prefill.done:
            self.run_prefill(prefill).wait()
        return prefill.bits

    @torch.inference_mode()
    def place_many(
        self,
        slots: Sequence[int],
        specs: Sequence[ImageSpec],
        prefixes: Sequence[Prefix | None] | None = None,
    ) -> None:
        """Start images in different slots, whatever these held; from a prefix where there is one.

        A guided image is two consecutive specs, with its label and without.
        """
        images = zip(slots, specs, prefixes or [None] * len(specs), strict=True)
        # Sorted in a stable way: those without a prefix come first.
        ordered = sorted(images, key=lambda image: image[2] is not None)
        ordered_slots = [slot for slot, _, _ in ordered]
        ordered_specs = [spec for _, spec, _ in ordered]
        ordered_prefixes = [prefix for _, _, prefix in ordered]
        # Images that share a prefix share its copy on the way to the device.
        different = {id(prefix): prefix for prefix in ordered_prefixes if prefix is not None}
        number_of = {key: number for number, key in enumerate(different)}
        arrivals = Arrivals.empty(
            len(specs),
            self.config.bytes,
            prefixes=[prefix.state for prefix in different.values()],
            prefix=[number_of[id(prefix)] for prefix in ordered_prefixes if prefix is not None],
            pinned=self.model.device.type == "cuda",
        )
        self._describe(arrivals, ordered_slots, ordered_specs, ordered_prefixes)
        if self.config.can_be_guided:
            pair(arrivals, ordered_specs)
        self.backend.place(self.pool, arrivals)
        coded = [
            (slot, spec.code)
            for slot, spec in zip(slots, specs, strict=True)
            if spec.code is not None
        ]
        if coded:
            chosen = np.array([slot for slot, _ in coded], np.int64)
            self.backend.put_codes(self.pool, chosen, [code for _, code in coded])

    def _describe(
        self,
        arrivals: Arrivals,
        slots: list[int],
        specs: list[ImageSpec],
        prefixes: list[Prefix | None],
    ) -> None:
        """Write the images' numbers and bytes, and where they start."""
        first = self.config.first
        arrivals.slots.numpy()[:] = slots
        write_numbers(arrivals, specs)
        images = arrivals.images.numpy()
        known = arrivals.known.numpy()
        for row, spec in enumerate(specs):
            if spec.known is not None and spec.mask is not None:
                images[row], known[row] = spec.known, spec.mask
        for row, prefix in enumerate(prefixes):
            if prefix is not None and prefix.painted:
                images[row, : prefix.position] = np.frombuffer(prefix.painted, np.uint8)
        if first:
            self._draw_first_bytes(arrivals)
        arrivals.position.numpy()[:] = [
            first if prefix is None else prefix.position for prefix in prefixes
        ]
        started = arrivals.without_prefix
        of_prefixes = [prefix for prefix in prefixes[started:] if prefix is not None]
        arrivals.bits.numpy()[started:] = [prefix.bits for prefix in of_prefixes]
        arrivals.evidence_bits.numpy()[started:] = [
            0 if prefix.painted else prefix.bits for prefix in of_prefixes
        ]

    def _draw_first_bytes(self, arrivals: Arrivals) -> None:
        """Draw byte 0 of each image from the histogram of a model without a
        start token, unless it is known.
        """
        histogram = self.config.first_byte_histogram
        assert histogram is not None
        values = arrivals.images[:, 0]
        unknown = ~arrivals.known[:, 0]
        for temperature in arrivals.temperature.float().unique().double().tolist():
            rows = unknown & (arrivals.temperature.float() == temperature)
            seed = arrivals.seed[rows]
            index = arrivals.index[rows]
            draw = uniforms(seed, index, torch.zeros_like(seed))[:, 0].double()
            cumulative = _tempered(histogram, temperature).cumsum(0)
            values[rows] = torch.searchsorted(cumulative, draw * cumulative[-1], right=True).to(
                torch.uint8
            )
        arrivals.bits.copy_(first_byte_bits(self.config, values))
        arrivals.evidence_bits.copy_(arrivals.bits.masked_fill(unknown, 0.0))

    def place(self, slot: int, spec: ImageSpec, prefix: Prefix | None = None) -> None:
        """Start one image in a slot, as place_many does."""
        self.place_many([slot], [spec], [prefix])

    @torch.inference_mode()
    def clear(self, slots: Sequence[int]) -> None:
        """Empty slots whose images were cancelled."""
        if slots:
            self.pool.empty_slots(np.array(slots, np.int64))

    def start(
        self, slots: np.ndarray, positions: np.ndarray, passes: int, stops: np.ndarray
    ) -> Started:
        """Start up to `passes` passes of the images in `slots` [n] int64, ascending, which stand at
        `positions` [n] int64: each paints a step, or several where the backend paints ahead. No
        step begins at an image's stop, of `stops` [n] int64, which is the next place that has to be
        looked at, or N.
        """
        if self.paints_ahead:
            painted = self.backend.paint_ahead(self.pool, slots, passes, stops)
            return Started(self.pool.positions(slots), painted)
        # An image moves by the same bytes in every step, so that its position is known before the
        # steps have ended; all stop where the first one has to.
        size = self.config.step_bytes
        inner = stops < self.config.bytes
        if inner.any():
            passes = min(passes, int((stops - positions)[inner].min()) // size)
        seconds = self.step(slots, passes)
        after = np.minimum(positions + passes * size, self.config.bytes)
        images = len(slots)
        steps = passes * images
        painted = Pending(lambda: Painted(seconds.wait(), images, steps, steps, steps, 0))
        return Started(Pending.ended(after), painted)

    def step(self, slots: np.ndarray, steps: int) -> Pending[float]:
        """Start up to `steps` steps of the images in `slots` [n] int64, ascending, one by one;
        return the device's seconds.
        """
        return self.backend.advance(self.pool, slots, steps)

    def paint(self, passes: int) -> Painted:
        """Run up to `passes` passes of every image that is not done, as the engine does; of these
        there must be one.
        """
        slots = self.pool.in_flight()
        positions = self.pool.state.position.cpu().numpy()[slots]
        stops = np.full(len(slots), self.config.bytes)
        return self.start(slots, positions, passes, stops).painted.wait()

    def advance(self, steps: int) -> None:
        """Paint up to `steps` steps of every image that is not done."""
        self.step(self.pool.in_flight(), steps).wait()

    @torch.inference_mode()
    def resample(self, groups: Groups) -> None:
        """Draw the slots of groups anew where few have most of the
        weight, after the steps started before.
        """
        self.backend.resample(self.pool, groups)

    @torch.inference_mode()
    def choose(self, groups: Groups) -> None:
        """Draw one slot of each group by weight, after the steps started before; the leader's
        slot then has its image and bits."""
        self.backend.choose(self.pool, groups)

    @torch.inference_mode()
    def fetch(self, slots: Sequence[int]) -> Pending[Fetched]:
        """Copy the bytes and bits of `slots` [n] as they are after
        the steps that were started before.
        """
        return self.backend.fetch(self.pool, np.array(slots, np.int64))

    def positions(self) -> np.ndarray:
        """Return the position [slots] of every slot: the bytes before it are
        painted; N where an image is done.
        """
        positions: np.ndarray = self.pool.state.position[: self.slots].cpu().numpy()
        return positions

    def image(self, slot: int) -> np.ndarray:
        """Return a copy of the bytes [N] uint8 of a slot."""
        image: np.ndarray = self.fetch([slot]).wait().images[0]
        return image

    @torch.inference_mode()
    def position(self, slot: int) -> Pending[int]:
        """Copy the position of a slot as it is after the steps that were started before."""
        copied = self.pool.positions(np.array([slot]))
        return Pending(lambda: int(copied.wait()[0]))

    @torch.inference_mode()
    def state(self, slot: int, layer: int, head: int) -> Pending[tuple[np.ndarray, np.ndarray]]:
        """Copy s [C, M] and z [C] float32 of a slot as they are after
        the steps that were started before.
        """
        return self.pool.snapshot(slot, layer, head, self.config.step_bytes)

    def bits_per_dim(self, slot: int) -> float:
        """Return the mean bits of the bytes before the slot's position,
        under the model at temperature 1.
        """
        return float(self.pool.bits[slot]) / self.config.bytes

    def close(self) -> None:
        self.backend.close()


@lru_cache(64)
def _tempered(histogram: tuple[float, ...], temperature: float) -> torch.Tensor:
    """Return weights [256] float64 in proportion to p^(1/T), in decimal arithmetic: its digits are
    the same on every machine, unlike those of a mathematics library."""
    if temperature == 1:
        return torch.tensor(histogram, dtype=torch.float64)
    most = Decimal(max(histogram))
    power = 1 / Decimal(temperature)
    return torch.tensor(
        [float((Decimal(p) / most) ** power) for p in histogram], dtype=torch.float64
    )
