"""The progress bar of all commands, shown only where stderr is a terminal."""

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar() -> Progress:
    """Return a progress bar; its tasks have a field `note`, shown at the end of the line."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    )


def add_stage(bar: Progress, what: str, total: int, unit: str) -> Callable[[int], None]:
    """Add a line to the bar and return a callback that gets how much of `total` is done."""
    task = bar.add_task(what, total=total, note=unit)
    return lambda done: bar.update(task, completed=done)
