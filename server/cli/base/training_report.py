"""The output of `scanline train`: the pictures, the network, progress; and
its handling of SIGINT and SIGTERM.
"""

import json
import logging
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from scanline.model.datasets.sources import left_out, listed
from scanline.server.cli.base.progress import progress_bar

if TYPE_CHECKING:
    from scanline.model.base.config import ModelConfig
    from scanline.model.datasets.source import ImageSet
    from scanline.model.training import TrainingConfig
    from scanline.model.training.run.curve import Row

RUNNING_MEAN = 5  # rows of the curve
LINE_SECONDS = 30.0  # between two lines where there is no terminal


def print_images(data: Path, images: "ImageSet", to_stderr: bool) -> None:
    """Print how many pictures there are to train and to test on, and the
    refused files, each with its reason.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    counts = f"{len(images.train):,} pictures of {images.size} to train on, {len(images.test):,} to test on"
    repeated = f"; {images.duplicates:,} duplicates left out" if images.duplicates else ""
    print(f"{data}: {counts}{repeated}", file=stream)
    if images.labels:
        names = images.labels.names
        print(f"{len(names):,} classes: {listed(names)}", file=stream)
        if untested := images.labels.untested:
            print(f"no test picture shows {listed(untested)}", file=stream)
    for note in images.notes:
        print(note, file=stream)
    if images.refused:
        print(left_out(images.refused), file=stream)


def print_network(
    weights: int, model: "ModelConfig", config: "TrainingConfig", start: str | None
) -> None:
    """Print what is trained, and for how long."""
    length = (
        f"{config.updates:,} updates" if config.minutes is None else f"{config.minutes:g} minutes"
    )
    branches = f" in each of {config.branches} branches" if config.branches > 1 else ""
    begun = f" of {start}" if start else ""
    plateau = f", the rate falls in the last {config.decay:.0%}" if config.has_plateau else ""
    print(
        f"network{begun}: {model.layers} layers of width {model.model_width}, {weights:,} weights, predicts"
        f" {model.predicts.replace('_', ' ')}; {length}, {config.batch} pictures an update{branches}{plateau}"
    )


@contextmanager
def training_progress(
    config: "TrainingConfig", name: str, as_json: bool, peak: float | None = None
) -> Iterator[Callable[["Row"], None]]:
    """Yield a function that reports a row: on a bar if stderr is a terminal, else as a line from
    time to time. peak: the images/s by the products alone, at the highest rate of the GPU."""
    total = config.updates if config.minutes is None else 60 * config.minutes
    rows: deque[Row] = deque(maxlen=RUNNING_MEAN)
    printed = 0.0
    tested = ""
    with progress_bar(counts=False) as bar, _logged(sys.stderr if as_json else sys.stdout):
        task = bar.add_task(f"training {name}", total=total, note="")

        def report(row: "Row") -> None:
            nonlocal printed, tested
            if as_json:
                print(json.dumps(asdict(row)), flush=True)
            rows.append(row)
            if row.test_bits_per_dim is not None:
                tested = f", test {row.test_bits_per_dim:.3f}"
            mean = sum(earlier.bits_per_dim for earlier in rows) / len(rows)
            since = rows[0] if len(rows) > 1 else None
            updates, seconds = (row.update, row.seconds) if since is None else _passed(since, row)
            rate = updates * config.batch * config.branches / max(seconds, 1e-9)
            share = "" if peak is None else f" ({rate / peak:.1%} of the peak)"
            done = row.update if config.minutes is None else min(row.seconds, total)
            left = (
                (total - done) * (seconds / max(updates, 1))
                if config.minutes is None
                else total - done
            )
            note = (
                f"{mean:.3f} bits/dim{tested}, {rate:.3g} images/s{share}, {_duration(left)} left"
            )
            bar.update(task, completed=done, note=note)
            due = row.test_bits_per_dim is not None or row.seconds - printed >= LINE_SECONDS
            if bar.disable and not as_json and due:
                print(f"update {row.update:,}: {note}", flush=True)
                printed = row.seconds

        yield report


@contextmanager
def _logged(stream: TextIO) -> Iterator[None]:
    """Write what training logs to a stream: whether updates are compiled and
    recorded, after how many seconds.
    """
    log = logging.getLogger("scanline.training")
    handler = logging.StreamHandler(stream)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _passed(since: "Row", row: "Row") -> tuple[int, float]:
    return row.update - since.update, row.seconds - since.seconds


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Yield a list that gets the number of a SIGINT or SIGTERM; a
    second one has its usual effect.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for stopping, handler in before.items():
            signal.signal(stopping, handler)
        print("interrupted; saving a checkpoint after this update", file=sys.stderr, flush=True)

    for number in before:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
