"""The clock of a run of so many updates or minutes: its learning rate, and when checkpoints and rows are due.

A run of minutes counts the seconds of all its parts, checkpoints included, so that an interrupted one continues where
its learning rate was. Only a run of updates is repeatable bit for bit.
"""

import time

from scanline.model.training.config import TrainingConfig
from scanline.model.training.optimise.optimiser import learning_rate

LONGEST_WARM_UP = 0.05  # of a run of minutes, however few updates fit in it
CHECKPOINTS = 10  # of a run of minutes
MIN_BETWEEN, MAX_BETWEEN = 60.0, 600.0  # seconds between two checkpoints
LARGEST_SHARE = 0.2  # of the time may go into checkpoints
ROW_UPDATES, ROW_SECONDS = 20, 10.0  # a row of the curve: every so many updates; in a run of minutes, or seconds


class RunClock:
    """The clock of a run, from construction on; `seconds` is what its earlier parts took."""

    def __init__(self, config: TrainingConfig, seconds: float = 0.0) -> None:
        self.config = config
        self.limit = None if config.minutes is None else 60 * config.minutes
        self.started = time.monotonic() - seconds
        self.last_checkpoint = self.last_row = seconds
        self.between = min(max((self.limit or 0) / CHECKPOINTS, MIN_BETWEEN), MAX_BETWEEN)

    @property
    def seconds(self) -> float:
        """Seconds of the whole run until now."""
        return time.monotonic() - self.started

    def rate(self, update: int) -> float:
        """Return the learning rate of an update: in a run of minutes it falls linearly with the clock, to zero."""
        if self.limit is None:
            return learning_rate(self.config, update)
        spent = min(1.0, self.seconds / self.limit)
        warm = max((update + 1) / max(1, self.config.warm_up), spent / LONGEST_WARM_UP)
        return self.config.learning_rate * min(1.0, warm) * (1 - spent)

    def ended(self, done: int) -> bool:
        """Return whether the run is over after so many updates."""
        return done >= self.config.updates or (self.limit is not None and self.seconds >= self.limit)

    def checkpoint_due(self, done: int) -> bool:
        """Return whether to write a checkpoint after so many updates."""
        if self.limit is None:
            return done % self.config.checkpoint_every == 0
        return self.seconds - self.last_checkpoint >= self.between

    def checkpoint_written(self, began: float) -> None:
        """Count the time to the next checkpoint from now; `began` is the second at which this one was begun."""
        self.last_checkpoint = self.last_row = self.seconds
        self.between = max(self.between, (self.seconds - began) / LARGEST_SHARE)

    def row_due(self, done: int) -> bool:
        """Return whether the curve gets a row after so many updates; if so, start the next interval."""
        due = done % ROW_UPDATES == 0 or (self.limit is not None and self.seconds - self.last_row >= ROW_SECONDS)
        if due:
            self.last_row = self.seconds
        return due
