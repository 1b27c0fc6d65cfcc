"""What the machine can do, measured in the run that leans on it, and the JSON line that ends every benchmark.

The ceilings are torch's own: float32 matrix products of given shapes, and a copy that no cache holds. A
fraction of them says how far a program is from this machine, where a bare images/s only says how big it is.
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
import torch.nn.functional as F

BUSY = 0.05  # share of all processor time that others may take before a warning is due
COPY_BYTES = 2**30  # read, and as many written; more than any last-level cache


def durations(call: Callable[[], object], seconds: float, device: str = "cpu", least: int = 3) -> list[float]:
    """Seconds of each call, after one that is not counted, until `seconds` have passed and `least` were made."""
    call()
    synchronise(device)
    times: list[float] = []
    while len(times) < least or sum(times) < seconds:
        start = time.perf_counter()
        call()
        synchronise(device)
        times.append(time.perf_counter() - start)
    return times


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def products_seconds(shapes: list[tuple[int, int]], rows: int, device: str = "cpu") -> float:
    """Median seconds of x [rows, inner] @ W [inner, outer] once for every (inner, outer) of `shapes`, each
    with weights of its own, so that they come from where a network's weights come from."""
    pairs = [
        (torch.randn(rows, inner, device=device), torch.randn(outer, inner, device=device)) for inner, outer in shapes
    ]
    with torch.inference_mode():
        times = durations(lambda: [F.linear(x, weight) for x, weight in pairs], seconds=0.5, device=device)
    return sorted(times)[len(times) // 2]


def copy_rate(device: str = "cpu") -> float:
    """Bytes per second, read + written, of a copy of COPY_BYTES."""
    source = torch.ones(COPY_BYTES // 4, device=device)
    target = torch.zeros_like(source)
    return 2 * COPY_BYTES / min(durations(lambda: target.copy_(source), seconds=0.5, device=device))


def print_json(benchmark: str, configuration: dict[str, Any], **results: Any) -> None:
    """The last line of a benchmark: machine, commit, configuration, results."""
    others = _others_share()
    if others is not None and others > BUSY:
        print(f"WARNING: other programs took {others:.0%} of the processors' time; measure on an idle machine")
    facts = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "others_share_of_cpu": others,
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    print(json.dumps({"benchmark": benchmark, **facts, "configuration": configuration, **results}))


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
    """The commit that is checked out, `-dirty` where tracked files differ from it; None outside a clone."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
