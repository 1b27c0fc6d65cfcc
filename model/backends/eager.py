"""The network in plain torch operations, on any device: the backend that needs neither our library nor our kernels.

A matrix product of another shape, or on another number of threads, may round differently, and one bit can flip a pixel.
So slots are computed a fixed number at a time, empty ones included, and on a CPU in one thread: an image's bytes depend
neither on the rest of the batch nor on the number of slots or threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from scanline.kernels import mixture
from scanline.kernels.philox import uniforms
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.state import State

TILE = {"cpu": 32, "cuda": 1024}  # slots; a multiple of 32 keeps every elementwise loop in whole vectors


class EagerBackend:
    """Runs `Transformer.step` on tiles of slots, one tile after the other."""

    state_dtype = torch.float32

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.rows = TILE[model.device.type]
        self.name = f"torch ({model.device.type})"

    def warm_up(self, slots: SlotPool) -> None:
        """Nothing: torch needs no preparation."""

    def advance(self, slots: SlotPool, steps: int) -> None:
        """As Backend.advance; tiles without an image in flight are skipped."""
        busy = (slots.state.position < self.model.config.bytes).view(-1, self.rows).any(dim=1)
        with torch.inference_mode(), _one_thread():
            for tile in busy.nonzero().flatten().tolist():
                part = slots.part(tile * self.rows, (tile + 1) * self.rows)
                for _ in range(steps):
                    self._step(part)

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """As Backend.read, through the parallel view, one image at a time."""
        start, scale = int(state.position[0]), self.model.config.scale
        found = []
        with torch.inference_mode(), _one_thread():
            for i in range(len(images)):
                image = images[i : i + 1]
                parameters = self.model.parallel(image, state.part(i, i + 1), stop)
                found.append(mixture.bits(parameters, image[:, start:stop], scale))
        return torch.cat(found)

    def close(self) -> None:
        """Nothing: there are no threads."""

    def _step(self, tile: SlotPool) -> None:
        """Paints the next byte of every image in a tile, IN PLACE. Finished images are computed too, without effect."""
        config, last = self.model.config, self.model.config.bytes - 1
        done = tile.state.position > last
        place = tile.state.position.clamp(max=last)
        column = place.unsqueeze(1)
        draws = uniforms(tile.seed, tile.index, place)
        parameters = self.model.step(tile.images, tile.state)
        painted = mixture.sample(parameters, draws, tile.temperature, config.scale)
        kept = tile.known.gather(1, column).squeeze(1) | done
        value = torch.where(kept, tile.images.gather(1, column).squeeze(1), painted)
        tile.images.scatter_(1, column, value.unsqueeze(1))
        tile.bits.add_(mixture.bits(parameters, value, config.scale).masked_fill(done, 0.0))


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for torch's operations inside; the caller's number of threads after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
