"""Updates on a GPU as one CUDA graph: a host needs longer for several hundred launches than the
device for its work.

A graph repeats the launches that it was recorded from, with the same numbers: what changes from
update to update is copied to where it was recorded, rates and the average's share as tensors.
"""

import copy
import logging
from pathlib import Path
from typing import Any

import torch

from scanline.kernels.gpu import summary
from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.positions import Positions
from scanline.model.training.optimise.loss import SAME_LOSS
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater

WARM_UP = 3  # updates as written before one is recorded: they compile, and make what is made once

log = logging.getLogger("scanline.training")


class RecordedUpdater(Updater):
    """An Updater whose updates are recorded, after the first few; where that fails, as
    written. Every batch must have one size."""

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        group: Group,
        dtype: torch.dtype,
        compiled: bool | Path,
    ) -> None:
        if model.device.type == "cuda":
            # Gradients are added up on the stream of the first update, and nothing can be recorded
            # on the default one.
            torch.cuda.set_stream(torch.cuda.Stream(model.device))
        super().__init__(model, config, group, dtype, compiled)
        self.written = 0  # updates as written so far
        self.graph: torch.cuda.CUDAGraph | None = None
        self.refused = False

    def _move(
        self,
        batch: torch.Tensor,
        labels: torch.Tensor | None,
        positions: Positions | None,
        share: float | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.refused or self.written < WARM_UP:
            self.written += 1
            return super()._move(batch, labels, positions, share)
        rates = [float(parameters["lr"]) for parameters in self.optimiser.param_groups]
        inputs = _tensors(batch, labels, positions)
        if self.graph is None:
            # In the host's memory: the card's may have no room for weights, average and optimiser a
            # second time.
            before = _on_host(self.state_dict())
            expected_loss = self.loss(self.model, batch, self.dtype, labels, positions).detach()
            # Before anything can fail in one process alone: all of them average equally often.
            self.group.average([expected_loss])
            expected = expected_loss.item()
            try:
                self._record(batch, labels, positions)
                loss, norm = self._replay(inputs, rates, float(share))
                if not abs(loss.item() - expected) <= SAME_LOSS:
                    raise RuntimeError(
                        f"the loss of a recorded update is {loss.item()} instead of {expected}"
                    )
                log.info("an update is one CUDA graph")
                return loss, norm
            except Exception as error:  # of the driver, the compiler or torch
                log.warning("training without a CUDA graph, which is slower: %s", summary(error))
                self.load_state_dict(before)
                self.refused = True
                for parameters, rate in zip(self.optimiser.param_groups, rates, strict=True):
                    parameters["lr"] = rate
                return super()._move(batch, labels, positions, share)
        return self._replay(inputs, rates, float(share))

    def _record(
        self, batch: torch.Tensor, labels: torch.Tensor | None, positions: Positions | None
    ) -> None:
        """Record an update with tensors of its own for all that changes; nothing is moved."""
        self.rates = [torch.zeros((), device=batch.device) for _ in self.optimiser.param_groups]
        self.share = torch.zeros((), device=batch.device)
        batch = batch.clone()
        if labels is not None:
            labels = labels.clone()
        if positions is not None:
            positions = Positions(positions.position.clone(), positions.weight.clone())
        self.inputs = _tensors(batch, labels, positions)
        for parameters, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            parameters["lr"] = rate
        self._set_capturable(True)
        try:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            # A thread of NCCL asks for events meanwhile, which only its own recording must not.
            mode = "global" if self.group.size == 1 else "thread_local"
            with torch.cuda.graph(
                graph, stream=torch.cuda.current_stream(), capture_error_mode=mode
            ):
                self.results = super()._move(batch, labels, positions, self.share)
        finally:
            self._set_capturable(False)
        self.graph = graph

    def _replay(
        self, inputs: list[torch.Tensor], rates: list[float], share: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for recorded, new in zip(self.inputs, inputs, strict=True):
            recorded.copy_(new)
        for tensor, rate in zip(self.rates, rates, strict=True):
            tensor.fill_(rate)
        self.share.fill_(share)
        assert self.graph is not None
        self.graph.replay()
        loss, norm = self.results
        return loss.clone(), norm.clone()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See Updater.load_state_dict; a graph is recorded anew, since an optimiser's tensors are
        others, or none."""
        super().load_state_dict(state)
        self.graph = None
        self.written = 0

    def close(self) -> None:
        """See Updater.close."""
        self.graph = None

    def _set_capturable(self, capturable: bool) -> None:
        """Have torch's optimisers take their rates and steps from tensors, which they refuse to be
        recorded without."""
        for parameters in self.optimiser.param_groups:
            if "capturable" in parameters:
                parameters["capturable"] = capturable


def new_updater(
    model: Transformer,
    config: TrainingConfig,
    group: Group,
    dtype: torch.dtype,
    compiled: bool | Path,
) -> Updater:
    """Return the updater for the model's device."""
    kind = RecordedUpdater if model.device.type == "cuda" else Updater
    return kind(model, config, group, dtype, compiled)


def _on_host(state: Any) -> Any:
    """Return a copy of a state, dictionaries of tensors and other values, with its tensors in the
    host's memory."""
    if isinstance(state, torch.Tensor):
        return state.to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: _on_host(value) for key, value in state.items()}
    return copy.deepcopy(state)


def _tensors(
    batch: torch.Tensor, labels: torch.Tensor | None, positions: Positions | None
) -> list[torch.Tensor]:
    """Return the tensors that change from update to update."""
    tensors = [batch]
    if labels is not None:
        tensors.append(labels)
    if positions is not None:
        tensors += [positions.position, positions.weight]
    return tensors
