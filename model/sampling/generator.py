"""Paints many images at once: a fixed pool of slots, each with the state, bytes and position of one image.

Images join (`place`) and leave (`clear`) between any two calls of `advance`; an image's bytes never depend on what else
is in the pool. Owns weights and states; the scheduler decides which image gets which slot.
"""

from dataclasses import dataclass

import numpy as np
import torch

from scanline.kernels.philox import uniforms
from scanline.model.backends import choose
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer, first_byte_bits, with_first_byte
from scanline.model.precision import DEFAULT
from scanline.model.sampling.messages import ImageSpec
from scanline.model.state import State


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
        self.model, self.config, self.slots = model, model.config, slots
        self.backend = choose(model, threads, precision, backend)
        rows = -(-slots // self.backend.rows) * self.backend.rows
        self.pool = SlotPool.empty(self.config, rows, model.device, self.backend.state_dtype)

    def warm_up(self) -> None:
        """Do what the first images would otherwise wait for: on a GPU, compile kernels and record graphs."""
        self.backend.warm_up(self.pool)

    def prefix(self, spec: ImageSpec) -> int:
        """How many bytes before the first unknown one can be prefilled: those of whole steps."""
        return spec.prefix - spec.prefix % self.config.step_bytes

    @torch.inference_mode()
    def prefill(self, spec: ImageSpec) -> Prefix:
        """Run the known bytes at the front of an image through the network at once, on their own."""
        assert spec.known is not None
        first, stop = self.config.first, self.prefix(spec)
        state = self._fresh(1)
        images = torch.tensor(spec.known, device=self.model.device).unsqueeze(0)
        bits = first_byte_bits(self.config, images[:, 0]).item() if first and stop else 0.0
        if stop > first:
            bits += self.backend.read(images, state, stop).sum().item()
        return Prefix(state, bits)

    @torch.inference_mode()
    def score(self, images: np.ndarray) -> np.ndarray:
        """Bits [B, N] float64 of every byte of images [B, N] uint8, without using a slot."""
        given = torch.tensor(images, device=self.model.device)
        predicted = self.backend.read(given, self._fresh(len(given)), self.config.bytes)
        found: np.ndarray = with_first_byte(self.config, given, predicted).cpu().numpy()
        return found

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

    def advance(self, steps: int) -> None:
        """Paint up to `steps` steps of every image that is not done."""
        self.backend.advance(self.pool, steps)

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

    def _fresh(self, count: int) -> State:
        return State.zeros(self.config, count, self.model.device, self.backend.state_dtype)

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
