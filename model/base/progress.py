"""How a long call of the Python API reports what is done: to a function, or as a bar in a terminal
or a notebook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

# a bar or none, or a function of the bytes done and of all
Progress: TypeAlias = bool | Callable[[int, int], None]


@contextmanager
def reporting(progress: Progress, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many of `total` bytes are done, and reports it.

    The bar is tqdm's where it is installed, which notebooks also
    show without ipywidgets, else rich's.
    """
    if callable(progress):
        report = progress
        yield lambda done: report(done, total)
    elif not progress:
        yield lambda done: None
    else:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            from rich.progress import Progress as Bar

            with Bar() as bar:
                task = bar.add_task(what, total=total)
                yield lambda done: bar.update(task, completed=done)
        else:
            with tqdm(desc=what, total=total, unit=" bytes", unit_scale=True) as line:
                yield lambda done: line.update(done - line.n)
