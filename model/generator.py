"""Paints many images at once: a fixed pool of slots, each with the state, bytes and position of one image.

Images join (`place`) and leave (`clear`) between any two calls of `advance`; who sits beside an image never
changes its bytes. Owns weights and states; which slot is free and whose turn it is, somebody else decides.
"""

from dataclasses import dataclass

import numpy as np
import torch

from kernels.philox import uniforms
from model import mixture
from model.byte_step import byte_step
from model.scoring import LN2, bits, first_byte_bits
from model.state import State
from model.tiles import Tiles
from model.transformer import Transformer


@dataclass(frozen=True)
class Canvas:
    """One image to paint: its random numbers are those of (seed, index); known bytes are forced."""

    seed: int
    index: int
    temperature: float = 1.0
    known: np.ndarray | None = None  # [N] uint8
    mask: np.ndarray | None = None  # [N] bool, True where a byte is known

    @property
    def prefix(self) -> int:
        """How many bytes are known before the first unknown one."""
        if self.mask is None:
            return 0
        return len(self.mask) if self.mask.all() else int(np.argmin(self.mask))


@dataclass(frozen=True)
class Prefix:
    """What the network knows after the known bytes at the front of an image; any number of slots may start from it."""

    state: State  # of one image
    bits: float  # that the prefix costs


class Generator:
    """`slots` images in flight, each at its own position; memory is taken once, here."""

    def __init__(self, model: Transformer, slots: int, threads: int | None = None) -> None:
        self.model, self.config, self.slots = model, model.config, slots
        self.tiles = Tiles(model.device, threads)
        self.byte_step = byte_step(model, self.tiles.rows)
        rows = -(-slots // self.tiles.rows) * self.tiles.rows
        self.state = State.zeros(self.config, rows, model.device)
        self.state.position.fill_(self.config.bytes)  # nobody there: as if done
        device = model.device
        self.images = torch.zeros(rows, self.config.bytes, dtype=torch.uint8, device=device)
        self.known = torch.zeros(rows, self.config.bytes, dtype=torch.bool, device=device)
        self.bits = torch.zeros(rows, dtype=torch.float64, device=device)
        self.seed = torch.zeros(rows, dtype=torch.int64, device=device)
        self.index = torch.zeros(rows, dtype=torch.int64, device=device)
        self.temperature = torch.ones(rows, device=device)

    @torch.inference_mode()
    def prefill(self, canvas: Canvas) -> Prefix:
        """Runs the known front of an image through the parallel view, alone: its company cannot matter.

        In one thread, as the steps are, so that the number of threads cannot matter either.
        """
        prefix: list[Prefix] = []
        self.tiles.run(lambda _: prefix.append(self._prefill(canvas)), [0])
        return prefix[0]

    def score(self, image: np.ndarray) -> np.ndarray:
        """Bits [N] float64 of every byte of an image [N] uint8, computed alone, beside the slots."""
        result: list[torch.Tensor] = []
        pixels = torch.tensor(image, device=self.model.device).unsqueeze(0)
        self.tiles.run(lambda _: result.append(bits(self.model, pixels)[0].cpu()), [0])
        found: np.ndarray = result[0].numpy()
        return found

    @torch.inference_mode()
    def place(self, slot: int, canvas: Canvas, prefix: Prefix | None = None) -> None:
        """Starts an image in a slot, whatever the slot held; from `prefix` where its front has been prefilled."""
        first = self.config.first
        if canvas.mask is None or canvas.known is None:
            self.known[slot] = False
            self.images[slot] = 0
        else:
            self.known[slot] = torch.tensor(canvas.mask)
            self.images[slot] = torch.tensor(canvas.known)
        self.seed[slot], self.index[slot], self.temperature[slot] = canvas.seed, canvas.index, canvas.temperature
        self.bits[slot] = 0
        if prefix is not None:
            self.state.put(slot, prefix.state)
            self.bits[slot] = prefix.bits
            return
        self.state.clear(slot, first)
        if first:
            self._first_byte(slot)

    @torch.inference_mode()
    def clear(self, slot: int) -> None:
        """Empties a slot: its image is done or nobody waits for it any more."""
        self.state.position[slot] = self.config.bytes

    @torch.inference_mode()
    def advance(self, steps: int) -> None:
        """Paints up to `steps` bytes of every image that is not done."""
        rows = self.tiles.rows
        busy = (self.state.position < self.config.bytes).view(-1, rows).any(dim=1)
        tiles = busy.nonzero().flatten().tolist()
        if not tiles:
            return
        places = self.state.position.unsqueeze(1) + torch.arange(steps, device=self.model.device)
        chosen = busy.repeat_interleave(rows)
        draws = torch.empty(len(self.images), steps, 2, device=self.model.device)
        draws[chosen] = uniforms(self.seed[chosen, None], self.index[chosen, None], places[chosen])
        self.tiles.run(lambda tile: self._advance(tile * rows, draws), tiles)

    def positions(self) -> np.ndarray:
        """Position [slots] of every slot: the bytes before it are painted; N where an image is done."""
        positions: np.ndarray = self.state.position[: self.slots].cpu().numpy()
        return positions

    def image(self, slot: int) -> np.ndarray:
        """A copy of the bytes [N] uint8 of a slot."""
        image: np.ndarray = self.images[slot].cpu().numpy().copy()
        return image

    def bits_per_dim(self, slot: int) -> float:
        """Mean bits of the bytes before the slot's position, under the model at temperature 1."""
        return float(self.bits[slot]) / self.config.bytes

    def close(self) -> None:
        self.tiles.close()

    def _prefill(self, canvas: Canvas) -> Prefix:
        with torch.inference_mode():
            assert canvas.known is not None
            first, stop = self.config.first, canvas.prefix
            state = State.zeros(self.config, 1, self.model.device)
            images = torch.tensor(canvas.known, device=self.model.device).unsqueeze(0)
            bits = first_byte_bits(self.config, images[:, 0]).item() if first and stop else 0.0
            if stop > first:
                parameters = self.model.parallel(images, state, stop)
                logs = mixture.log_prob(parameters, images[:, first:stop], self.config.scale)
                bits -= logs.double().sum().item() / LN2
            return Prefix(state, bits)

    def _first_byte(self, slot: int) -> None:
        """Draws byte 0 from the histogram of a model without a start token, or takes the known one."""
        histogram = torch.tensor(self.config.first_byte_histogram, dtype=torch.float64, device=self.model.device)
        rows = slice(slot, slot + 1)
        if not self.known[slot, 0]:
            tempered = histogram.pow(1 / self.temperature[rows].double())
            draw = uniforms(self.seed[rows], self.index[rows], torch.zeros_like(self.seed[rows]))[:, 0].double()
            cumulative = tempered.cumsum(0)
            value = torch.searchsorted(cumulative, draw * cumulative[-1], right=True)
            self.images[rows, 0] = value.to(torch.uint8)
        self.bits[rows] = first_byte_bits(self.config, self.images[rows, 0])

    def _advance(self, first: int, draws: torch.Tensor) -> None:
        """All steps of one tile; draws [rows, steps, 2] are everybody's."""
        rows = slice(first, first + self.tiles.rows)
        state = self.state.rows(rows.start, rows.stop)
        tile = [x[rows] for x in (self.images, self.known, self.bits, self.temperature)]
        for step in range(draws.shape[1]):
            self.byte_step(*tile, state.s, state.z, state.position, draws[rows, step])
