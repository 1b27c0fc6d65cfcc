"""The clock of every measurement, and the facts about this machine that every result carries.

Numbers of a machine that others use at the same time are worth nothing, so their share is measured and told too.
"""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

BUSY = 0.05  # share of all processor time that others may take before a warning is due


def durations(
    call: Callable[[], object],
    seconds: float,
    device: str = "cpu",
    least: int = 3,
    prepare: Callable[[], object] = lambda: None,
) -> list[float]:
    """Seconds of each call, after one that is not counted, until `seconds` have passed and `least` were made.

    `prepare` runs before every call, on nobody's time.
    """
    times: list[float] = []
    spent, counted = 0.0, False
    while not counted or len(times) < least or spent < seconds:
        prepare()
        synchronise(device)
        start = time.perf_counter()
        call()
        synchronise(device)
        if counted:
            times.append(time.perf_counter() - start)
            spent += times[-1]
        counted = True
    return times


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def facts() -> dict[str, Any]:
    """Date, machine, commit, versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "others_share_of_cpu": _others_share(),
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def warning(facts: dict[str, Any]) -> str | None:
    """A sentence where others kept the machine busy meanwhile."""
    others = facts["others_share_of_cpu"]
    if others is None or others <= BUSY:
        return None
    return f"WARNING: other programs took {others:.0%} of the processors' time; measure on an idle machine"


def print_json(benchmark: str, configuration: dict[str, Any], **results: Any) -> None:
    """The last line of a script in benchmarks/: machine, commit, configuration, results."""
    known = facts()
    if sentence := warning(known):
        print(sentence)
    print(json.dumps({"benchmark": benchmark, **known, "configuration": configuration, **results}))


def _machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        cpu = next((line.split(":")[1].strip() for line in info.open() if line.startswith("model name")), cpu)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts = {
        "cpu": cpu,
        "cores": cores,
        "threads": torch.get_num_threads(),
        "isa": torch.backends.cpu.get_cpu_capability(),
    }
    return facts | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def _times() -> tuple[float, float, float] | None:
    """Processor seconds since the machine started: all there were, all that were used, and those of this program
    and its finished children; None where the system does not say."""
    if not (stat := Path("/proc/stat")).exists():
        return None
    ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]  # user nice system idle iowait ...
    hertz = os.sysconf("SC_CLK_TCK")
    return sum(ticks) / hertz, (sum(ticks) - ticks[3] - ticks[4]) / hertz, sum(os.times()[:4])


_BEFORE = _times()


def _others_share() -> float | None:
    """Of all processor time since this module was loaded, what other programs used."""
    now = _times()
    if _BEFORE is None or now is None:
        return None
    there, used, ours = (after - before for after, before in zip(now, _BEFORE, strict=True))
    return max(0.0, used - ours) / there if there else 0.0


def _commit() -> str | None:
    """The commit that is checked out, `-dirty` where tracked files differ from it; None outside a clone of ours."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        ours = git("rev-parse", "--show-prefix") == "model/bench/"  # not a repository that we are only installed in
        return git("describe", "--always", "--dirty", "--exclude=*") if ours else None
    except (OSError, subprocess.CalledProcessError):
        return None
