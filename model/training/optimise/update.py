"""One update of the weights: loss, gradients, averaged over processes and clipped, optimiser,
moving average."""

from pathlib import Path
from typing import Any

import torch

from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.positions import Positions
from scanline.model.training.optimise.loss import CompiledLoss, loss_of
from scanline.model.training.optimise.optimiser import MovingAverage, clip_gradients, optimiser
from scanline.model.training.optimise.processes import Group


class Updater:
    """A model with its loss, optimiser and moving average. dtype: of products. compiled: the loss
    by torch.compile, where that works, and a path: with this file as its cache (see
    `CompiledLoss`)."""

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        group: Group,
        dtype: torch.dtype,
        compiled: bool | Path,
    ) -> None:
        self.model = model
        self.config = config
        self.group = group
        self.dtype = dtype
        self.average = MovingAverage(model, config.average)
        self.optimiser = optimiser(model, config, dtype)
        cache = compiled if isinstance(compiled, Path) else None
        self.loss = CompiledLoss(cache, writes=group.rank == 0) if compiled else loss_of

    def update(
        self,
        batch: torch.Tensor,
        number: int,
        rate: float,
        labels: torch.Tensor | None = None,
        positions: Positions | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Move the weights by one update of this number (from 0) at this rate, in place, and return
        the loss in bits over all images, and the norm of its gradient.

        batch [B, N] uint8: the update's images, labels [B] int64 their labels, positions the
        positions to compute; each process takes its share, at the same rate. WorkerError where
        another process has ended.
        """
        share = self.group.share
        batch = share(batch)
        if labels is not None:
            labels = share(labels)
        if positions is not None:
            positions = Positions(share(positions.position), share(positions.weight))
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = parameters["scale"] * rate
        return self._move(batch, labels, positions, self.average.share(number))

    def _move(
        self,
        batch: torch.Tensor,
        labels: torch.Tensor | None,
        positions: Positions | None,
        share: float | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Move the weights by this process's part of an update, at the rates that the
        optimiser has; `share` is the average's."""
        loss = self.loss(self.model, batch, self.dtype, labels, positions)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        loss = self.group.average_gradients(self.model, loss.detach())
        norm = clip_gradients(self.model, self.config.clip)
        self.optimiser.step()
        self.average.move(self.model, share)
        return loss, norm

    def close(self) -> None:
        """Free what must not outlive the group: a CUDA graph that has its exchange."""

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` continues from."""
        parts = {"model": self.model, "average": self.average.model, "optimiser": self.optimiser}
        return {name: part.state_dict() for name, part in parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, which may have further entries, and no optimiser's."""
        self.model.load_state_dict(state["model"])
        self.average.model.load_state_dict(state["average"])
        if state["optimiser"]:
            self.optimiser.load_state_dict(state["optimiser"])
