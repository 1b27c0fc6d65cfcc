"""The progress bar of all commands, shown only where stderr is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def progress_bar(counts: bool = True) -> Progress:
    """Return a progress bar; its tasks have a field `note`, shown at the end of the line. counts:
    show how much of the total is done, and an estimate of the time that is left."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=40 if counts else 20),
        *(
            (MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            if counts
            else (TimeElapsedColumn(),)
        ),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    )


def add_stage(bar: Progress, what: str, total: int, unit: str) -> Callable[[int], None]:
    """Add a line to the bar and return a callback that gets how much of `total` is done."""
    task = bar.add_task(what, total=total, note=unit)
    return lambda done: bar.update(task, completed=done)


@contextmanager
def model_bar(what: str, unit: str = "bytes") -> Iterator[Callable[[int, int], None]]:
    """Yield what a method of `scanline.Model` takes as its progress: it moves a bar."""
    with progress_bar() as bar:
        task = bar.add_task(what, total=None, note=unit)
        yield lambda done, total: bar.update(task, completed=done, total=total)
