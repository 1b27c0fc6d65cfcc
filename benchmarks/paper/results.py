"""What a part has measured: one JSON file per part, written after each point, so that a run that was killed resumes.

A point is a dict of numbers under a key, such as "mnist/linear/images_per_second". Every point names the run that
measured it, and every run the date, machine, versions and commit (scanline.model.machine.facts), since a resumed
file may hold points of several. Nothing in here knows what is measured; the page is made from these files alone.

    {"part": "scaling", "quick": false, "runs": [FACTS], "points": {KEY: {"run": 0, "seconds": 1.5, ...}}}
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scanline.model.atomic import write_atomically
from scanline.model.machine import facts

Point = dict[str, Any]


class Results:
    """The points of one part, and the time that this run may still spend on it.

    part: the file's name in `folder`. quick: shapes are cut down, and the page says so. resume: keep what is there;
    else that of a quick run is dropped at the first measured point. seconds: from construction on; `measure` starts no
    point after. data: the folder with the data sets, such as mnist/. plots: where `section` draws to. ValueError, a
    sentence, where a full run would resume a quick one, or the other way round, or where results of a full run would be
    lost.
    """

    def __init__(
        self,
        folder: Path,
        part: str,
        *,
        quick: bool = False,
        resume: bool = False,
        seconds: float = math.inf,
        data: Path = Path("data"),
        plots: Path | None = None,
    ) -> None:
        self.path, self.part, self.quick = folder / f"{part}.json", part, quick
        self.data = data
        self.plots = folder / "paper" if plots is None else plots
        self.runs: list[dict[str, Any]] = []
        self.points: dict[str, Point] = {}
        self._deadline = time.monotonic() + seconds
        self._run: int | None = None  # of this process, in `runs`; set at its first point
        if not self.path.exists():
            return
        held = json.loads(self.path.read_text())
        if resume and held["quick"] != quick:
            kinds = ("a quick run", "a full run") if quick else ("a full run", "a quick run")
            raise ValueError(f"{kinds[0]} cannot resume {kinds[1]}, which {self.path} holds")
        if resume:
            self.runs, self.points = held["runs"], held["points"]
        elif not held["quick"]:
            raise ValueError(f"{self.path} holds results; --resume goes on with them, another --out starts anew")

    @classmethod
    def load(cls, folder: Path, part: str, plots: Path | None = None) -> "Results":
        """Return what the file holds, quick or not; no points where there is none."""
        path = folder / f"{part}.json"
        quick = path.exists() and json.loads(path.read_text())["quick"]
        return cls(folder, part, quick=quick, resume=True, plots=plots)

    @property
    def remaining(self) -> float:
        """Seconds that this run may still spend on the part; negative when it is over."""
        return self._deadline - time.monotonic()

    def measure(self, key: str, call: Callable[[], Point]) -> Point | None:
        """Return the point of `key`; where there is none yet, call, store and return it. None when the time is up.

        `call` returns what JSON can hold; "run" and "seconds" (of the call) are added.
        """
        if key in self.points:
            return self.points[key]
        if self.remaining <= 0:
            return None
        print(f"{self.part}: {key}", flush=True)
        start = time.perf_counter()
        point = call()
        self.points[key] = {"run": self._this_run(), "seconds": time.perf_counter() - start, **point}
        self._save()
        return self.points[key]

    def get(self, key: str) -> Point | None:
        """Return the point of `key`, or None."""
        return self.points.get(key)

    def _this_run(self) -> int:
        if self._run is None:
            self._run = len(self.runs)
            self.runs.append(facts())
        self.runs[self._run] = facts()  # how busy other programs were is known at the end only
        return self._run

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        held = {"part": self.part, "quick": self.quick, "runs": self.runs, "points": self.points}
        write_atomically(self.path, lambda path: path.write_text(json.dumps(held, indent=1, allow_nan=False) + "\n"))
