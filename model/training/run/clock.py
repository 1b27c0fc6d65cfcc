"""The clock of a run of so many updates or minutes: its learning rate, and when
checkpoints, tests and rows are due.

A run of minutes counts the seconds of all its parts, checkpoints included, so that an interrupted
one continues where its learning rate was. Only a run of updates is repeatable bit for bit.
"""

import time

from scanline.model.training.config import TrainingConfig
from scanline.model.training.optimise.optimiser import falling, learning_rate

LONGEST_WARM_UP = 0.05  # of a run of minutes, however few updates fit in it
# between two checkpoints of a run of minutes, the most that a run that is cut off can lose
SAVE_SECONDS = 120.0
TESTS = 10  # of a run of minutes: checkpoints with a test figure and a new sheet
# seconds between two tests
MIN_BETWEEN = 60.0
MAX_BETWEEN = 600.0
LARGEST_SHARE = 0.2  # of the time may go into checkpoints
# a row of the curve: every so many updates; in a run of minutes, or seconds
ROW_UPDATES = 20
ROW_SECONDS = 10.0


class RunClock:
    """The clock of a run, from construction on; `seconds` is what its earlier parts took."""

    def __init__(self, config: TrainingConfig, seconds: float = 0.0) -> None:
        self.config = config
        self.limit = None if config.minutes is None else 60 * config.minutes
        self.started = time.monotonic() - seconds
        self.last_checkpoint = self.last_test = self.last_row = seconds
        self.between_tests = min(max((self.limit or 0) / TESTS, MIN_BETWEEN), MAX_BETWEEN)
        self.between = min(self.between_tests, SAVE_SECONDS)
        # the second from which the warm-up counts: the first update compiles
        self.compiled = 0.0 if seconds else None

    @property
    def seconds(self) -> float:
        """Seconds of the whole run until now."""
        return time.monotonic() - self.started

    def rate(self, update: int) -> float:
        """Return the learning rate of an update: in a run of minutes its schedule follows the
        clock."""
        if self.limit is None:
            return learning_rate(self.config, update)
        if self.compiled is None and update:
            self.compiled = self.seconds
        warming = (self.seconds - (self.compiled or 0.0)) / (LONGEST_WARM_UP * self.limit)
        warm = max((update + 1) / max(1, self.config.warm_up), warming)
        return self.config.learning_rate * min(1.0, warm) * falling(self.config, self._left(update))

    def cooling(self, done: int) -> bool:
        """Return whether the plateau of the learning rate is over after so many updates; False
        where it has none."""
        return self.config.has_plateau and self._left(done) <= self.config.decay

    def _left(self, done: int) -> float:
        """Return the share of the run that is left after so many updates."""
        if self.limit is None:
            return (self.config.updates - done) / max(1, self.config.updates - self.config.warm_up)
        return max(0.0, 1 - self.seconds / self.limit)

    def ended(self, done: int) -> bool:
        """Return whether the run is over after so many updates."""
        is_late = self.limit is not None and self.seconds >= self.limit
        return is_late or done >= self.config.updates

    def checkpoint_due(self, done: int) -> bool:
        """Return whether to write a checkpoint after so many updates."""
        if self.limit is None:
            return done % self.config.checkpoint_every == 0
        return self.seconds - self.last_checkpoint >= self.between

    def test_due(self) -> bool:
        """Return whether the next checkpoint has a test figure and a sheet, as each of a run of
        updates has."""
        return self.limit is None or self.seconds - self.last_test >= self.between_tests

    def checkpoint_written(self, began: float, tested: bool) -> None:
        """Count the time to the next checkpoint, and test, from now; `began` is the second at which
        this one was begun."""
        self.last_checkpoint = self.last_row = self.seconds
        least = (self.seconds - began) / LARGEST_SHARE
        if tested:
            self.last_test = self.seconds
            self.between_tests = max(self.between_tests, least)
        else:
            self.between = max(self.between, least)

    def row_due(self, done: int) -> bool:
        """Return whether the curve gets a row after so many updates; if so, start the next
        interval."""
        is_late = self.limit is not None and self.seconds - self.last_row >= ROW_SECONDS
        due = is_late or done % ROW_UPDATES == 0
        if due:
            self.last_row = self.seconds
        return due
