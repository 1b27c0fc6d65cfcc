"""The network in plain torch operations, on any device: the way that needs no compiler and no kernels of ours."""

import torch

from scanline.kernels import mixture
from scanline.kernels.philox import uniforms
from scanline.model.backends.byte_step import byte_step
from scanline.model.backends.slots import SlotPool
from scanline.model.backends.tiles import Tiles
from scanline.model.evaluation.likelihood import LN2
from scanline.model.network.transformer import Transformer
from scanline.model.state import State


class EagerBackend:
    """Tiles of a fixed number of rows, each byte a graph of some two hundred operations."""

    state_dtype = torch.float32

    def __init__(self, model: Transformer, threads: int | None = None) -> None:
        self.model = model
        self.tiles = Tiles(model.device, threads)
        self.rows = self.tiles.rows
        self.name = f"torch ({model.device.type})"
        self.byte_step = byte_step(model, self.rows)

    def warm_up(self, slots: SlotPool) -> None:
        """Nothing: torch runs its operations as they come."""

    @torch.inference_mode()
    def advance(self, slots: SlotPool, steps: int) -> None:
        """Idle tiles are passed over; the others run side by side."""
        position, length = slots.state.position, self.model.config.bytes
        busy = (position < length).view(-1, self.rows).any(dim=1)
        tiles = busy.nonzero().flatten().tolist()
        if not tiles:
            return
        places = position.unsqueeze(1) + torch.arange(steps, device=position.device)
        chosen = busy.repeat_interleave(self.rows)
        draws = torch.empty(len(position), steps, 2, device=position.device)
        draws[chosen] = uniforms(slots.seed[chosen, None], slots.index[chosen, None], places[chosen])
        self.tiles.run(lambda tile: self._advance(slots, tile * self.rows, draws), tiles)

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """Through the parallel view, image by image in one thread, as the steps are: company cannot matter."""
        found: list[torch.Tensor] = [torch.empty(0)] * len(images)

        def one(row: int) -> None:
            found[row] = self._read(images[row : row + 1], state.rows(row, row + 1), stop)

        self.tiles.run(one, range(len(images)))
        return torch.cat(found)

    def close(self) -> None:
        self.tiles.close()

    def _advance(self, slots: SlotPool, first: int, draws: torch.Tensor) -> None:
        """All steps of one tile; draws [B, steps, 2] are everybody's."""
        rows = slice(first, first + self.rows)
        state = slots.state.rows(rows.start, rows.stop)
        tile = [x[rows] for x in (slots.images, slots.known, slots.bits, slots.temperature)]
        for step in range(draws.shape[1]):
            self.byte_step(*tile, state.s, state.z, state.position, draws[rows, step])

    def _read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        with torch.inference_mode():
            start = int(state.position[0])
            parameters = self.model.parallel(images, state, stop)
            return -mixture.log_prob(parameters, images[:, start:stop], self.model.config.scale).double() / LN2
