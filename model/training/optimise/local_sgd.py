"""Branches of a run (local SGD; Stich, "Local SGD Converges Fast and Communicates Little",
2019): each process trains weights of its own on batches of its own, and every so many updates
all branches continue from their mean.

The mean is that of their averaged weights and of their optimisers' states. The first branch has the
clock: it sends the others the rate of each update, or GATHER, to save their states with its own. So
a checkpoint changes no branch, and a run that resumes from one continues bit for bit.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch

from scanline.model.training.config import TrainingConfig
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater

GATHER = -1.0  # sent instead of a rate: the others send their states


class Branches:
    """This process among those of a run, which has a branch in each; or one branch, whose batches
    they share."""

    def __init__(self, group: Group, config: TrainingConfig, updater: Updater) -> None:
        self.group = group
        self.config = config
        self.updater = updater
        self.several = config.branches > 1
        average = updater.average.model
        # the mean, as of the last state_dict()
        self.model = copy.deepcopy(average) if self.several else average

    def batch_number(self, update: int) -> int:
        """Return the number of this branch's batch among the batches of all updates and
        branches."""
        return update * self.group.size + self.group.rank if self.several else update

    def rate(self, first_rate: float = 0.0) -> float:
        """Return the first process's rate of the next update. The others wait for it, and send
        their states at GATHER. WorkerError where another process has ended."""
        rate = self.group.broadcast(first_rate)
        while rate == GATHER:
            self.group.gather(self.updater.state_dict())
            rate = self.group.broadcast(first_rate)
        return rate

    def average(self, done: int) -> None:
        """Continue from the mean of all branches, in place, if one is due after so many updates."""
        if not self.several or done % self.config.branch_updates:
            return
        state = self.updater.state_dict()
        self.group.average(list(_floats([state["average"], state["optimiser"]])))
        self.updater.model.load_state_dict(state["average"])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all branches to the first process, which alone may ask, and make
        `model` their mean."""
        state = self.updater.state_dict()
        if not self.several:
            return state
        self.group.broadcast(GATHER)
        states = self.group.gather(state)
        self._set_mean(states)
        return state | {"others": states[1:]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue this branch from the state of all, which may have further entries."""
        if not self.several:
            self.updater.load_state_dict(state)
            return
        states = [state, *state["others"]]
        self.updater.load_state_dict(states[self.group.rank])
        self._set_mean(states)

    def _set_mean(self, states: list[dict[str, Any]]) -> None:
        averages = [state["average"] for state in states]
        mean = {
            name: torch.stack([average[name] for average in averages]).mean(0)
            for name in averages[0]
        }
        self.model.load_state_dict(mean)


def _floats(tree: Any) -> Iterator[torch.Tensor]:
    """Yield the floating-point tensors of nested dicts and lists, in the same order in every
    branch."""
    if isinstance(tree, torch.Tensor):
        if tree.is_floating_point():
            yield tree
    elif isinstance(tree, dict | list):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _floats(part)
