"""Paints many images at once: a fixed pool of slots, each with the state, bytes and position of one image.

Images join (`place`) and leave (`clear`) between any two calls of `advance`; an image's bytes never depend on what else
is in the pool. Owns weights and states; the scheduler decides which image gets which slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from scanline.kernels.philox import uniforms
from scanline.model.backends import open_backend
from scanline.model.network.transformer import Transformer, first_byte_bits
from scanline.model.precision import DEFAULT
from scanline.model.sampling.digest import model_digest
from scanline.model.sampling.messages import ImageSpec
from scanline.model.state import State


@dataclass
class Reading:
    """Images whose known bytes before `stop` are being run through the network, all of them at one position."""

    images: torch.Tensor  # [B, N] uint8
    state: State  # of B images
    bits: np.ndarray  # [B, stop] float64, of the bytes before the position
    first: int  # byte, before which nothing is run
    position: int
    stop: int
    step_bytes: int

    @property
    def done(self) -> bool:
        return self.position >= self.stop

    def prefix(self, row: int) -> "Prefix":
        """A copy of the state of one image after its known bytes."""
        state = self.state.part(row, row + 1)
        copy = State(state.s.clone(), state.z.clone(), state.position.clone())
        bits = float(self.bits[row, : self.first].sum()) + torch.tensor(self.bits[row, self.first :]).sum().item()
        return Prefix(copy, bits)


@dataclass(frozen=True)
class Prefix:
    """The state after the known bytes at the front of an image; any number of slots may start from it."""

    state: State  # of one image
    bits: float  # of the prefix, under the model


class Generator:
    """`slots` images in flight, each at its own position; all memory is allocated here."""

    def __init__(
        self,
        model: Transformer,
        slots: int,
        threads: int | None = None,
        precision: str = DEFAULT,
        backend: str | None = None,
    ) -> None:
        """See `open_backend`, which may run a copy of the model on another device: `self.model` is what runs."""
        opened = open_backend(model, slots, threads, precision, backend)
        self.model, self.backend, self.pool = opened.model, opened.backend, opened.slots
        self.backend_name, self.fallbacks = opened.name, opened.fallbacks
        self.config, self.slots, self.precision = model.config, slots, precision

    @cached_property
    def digest(self) -> str:
        """Of everything that decides which bytes are painted (digest.py); computed when it is first asked for."""
        return model_digest(self.model, self.backend, self.precision)

    def prefix(self, spec: ImageSpec) -> int:
        """How many bytes before the first unknown one can be prefilled: those of whole steps."""
        return spec.prefix - spec.prefix % self.config.step_bytes

    @torch.inference_mode()
    def start_reading(self, images: np.ndarray, stop: int) -> Reading:
        """Prepare to run the bytes before `stop` of images [B, N] uint8 through the network, without using a slot."""
        given = torch.tensor(images, device=self.model.device)
        state = State.zeros(self.config, len(given), self.model.device, self.backend.state_dtype)
        bits = np.empty((len(given), stop))
        if self.config.first and stop:
            bits[:, 0] = first_byte_bits(self.config, given[:, 0]).cpu().numpy()
        first = self.config.first
        return Reading(given, state, bits, first, first, stop, self.config.step_bytes)

    @torch.inference_mode()
    def read(self, reading: Reading, steps: int | None = None) -> None:
        """Run the next `steps` steps of a reading, IN PLACE: all of them by default, and where the backend would round
        differently in pieces."""
        if reading.done:
            return
        start, stop = reading.position, reading.stop
        if steps is not None and self.backend.reads_in_pieces:
            stop = min(stop, start + steps * self.config.step_bytes)
        reading.bits[:, start:stop] = self.backend.read(reading.images, reading.state, stop).cpu().numpy()
        reading.position = stop

    def prefill(self, spec: ImageSpec) -> Prefix:
        """Run the known bytes at the front of an image through the network at once, on their own."""
        assert spec.known is not None
        reading = self.start_reading(spec.known[None], self.prefix(spec))
        self.read(reading)
        return reading.prefix(0)

    def score(self, images: np.ndarray) -> np.ndarray:
        """Bits [B, N] float64 of every byte of images [B, N] uint8, without using a slot."""
        reading = self.start_reading(images, self.config.bytes)
        self.read(reading)
        return reading.bits

    @torch.inference_mode()
    def place(self, slot: int, spec: ImageSpec, prefix: Prefix | None = None) -> None:
        """Start an image in a slot, whatever the slot held; from `prefix` where its front has been prefilled."""
        first, pool = self.config.first, self.pool
        if spec.mask is None or spec.known is None:
            pool.known[slot] = False
            pool.images[slot] = 0
        else:
            pool.known[slot] = torch.tensor(spec.mask)
            pool.images[slot] = torch.tensor(spec.known)
        pool.seed[slot], pool.index[slot], pool.temperature[slot] = spec.seed, spec.index, spec.temperature
        pool.bits[slot] = 0
        if prefix is not None:
            pool.state.put(slot, prefix.state)
            pool.bits[slot] = prefix.bits
            return
        pool.state.clear(slot, first)
        if first:
            self._first_byte(slot)

    @torch.inference_mode()
    def clear(self, slot: int) -> None:
        """Empty a slot whose image was cancelled."""
        self.pool.state.position[slot] = self.config.bytes

    @torch.inference_mode()
    def advance(self, steps: int, paused: Sequence[int] = ()) -> None:
        """Paint up to `steps` steps of every image that is not done, but for those in the slots `paused`."""
        position = self.pool.state.position
        if paused:
            kept, rows = position.clone(), torch.tensor(paused, device=position.device)
            position[rows] = self.config.bytes
        self.backend.advance(self.pool, steps)
        if paused:
            position[rows] = kept[rows]

    def positions(self) -> np.ndarray:
        """Position [slots] of every slot: the bytes before it are painted; N where an image is done."""
        positions: np.ndarray = self.pool.state.position[: self.slots].cpu().numpy()
        return positions

    def image(self, slot: int) -> np.ndarray:
        """A copy of the bytes [N] uint8 of a slot."""
        image: np.ndarray = self.pool.images[slot].cpu().numpy().copy()
        return image

    def images(self, slots: list[int]) -> np.ndarray:
        """Copies of the bytes [n, N] uint8 of slots, fetched at once."""
        if self.pool.images.device.type == "cpu":
            # not by torch, which would wake threads of its own, and these spin beside the step's for milliseconds
            copies: np.ndarray = self.pool.images.numpy()[slots]
            return copies
        images: np.ndarray = self.pool.images[slots].cpu().numpy()
        return images

    def state(self, slot: int, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
        """Copies of s [C, M] and z [C] float32 of a slot, after the bytes before its position."""
        state = self.pool.state
        return state.s[layer, slot, head].float().cpu().numpy().copy(), state.z[layer, slot, head].cpu().numpy().copy()

    def bits_per_dim(self, slot: int) -> float:
        """Mean bits of the bytes before the slot's position, under the model at temperature 1."""
        return float(self.pool.bits[slot]) / self.config.bytes

    def close(self) -> None:
        self.backend.close()

    def _first_byte(self, slot: int) -> None:
        """Draw byte 0 from the histogram of a model without a start token, unless it is known."""
        pool, rows = self.pool, slice(slot, slot + 1)
        histogram = torch.tensor(self.config.first_byte_histogram, dtype=torch.float64, device=self.model.device)
        if not pool.known[slot, 0]:
            tempered = histogram.pow(1 / pool.temperature[rows].double())
            draw = uniforms(pool.seed[rows], pool.index[rows], torch.zeros_like(pool.seed[rows]))[:, 0].double()
            cumulative = tempered.cumsum(0)
            value = torch.searchsorted(cumulative, draw * cumulative[-1], right=True)
            pool.images[rows, 0] = value.to(torch.uint8)
        pool.bits[rows] = first_byte_bits(self.config, pool.images[rows, 0])
