"""Facts that every result carries: date, machine, commit, versions, and how
busy other programs kept the machine.

Times taken on a busy machine are not comparable, so a result taken on one carries a warning.
"""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from scanline.model.base.resources import cores

# share of all processor time that other programs may use before a result carries a warning
BUSY = 0.05


def facts() -> dict[str, Any]:
    """Return date, machine, commit, versions; `others_share_of_cpu` counts from this module's
    import to this call."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "others_share_of_cpu": _others_share(),
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def busy_warning(facts: dict[str, Any]) -> str | None:
    """Return a sentence if other programs kept the machine busy meanwhile, else None."""
    share = facts["others_share_of_cpu"]
    if share is None or share <= BUSY:
        return None
    return f"WARNING: other programs used {share:.0%} of the processors' time; measure on an idle machine"


def print_json(benchmark: str, configuration: dict[str, Any], **results: Any) -> None:
    """Print the last line of a script in benchmarks/: a JSON object of machine, commit,
    configuration and results."""
    machine = facts()
    warning = busy_warning(machine)
    if warning is not None:
        print(warning)
    line = {"benchmark": benchmark, **machine, "configuration": configuration, **results}
    print(json.dumps(line, default=str))  # paths


def _machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":")[1].strip()
                break
    isa = torch.backends.cpu.get_cpu_capability()
    machine = {"cpu": cpu, "cores": cores(), "threads": torch.get_num_threads(), "isa": isa}
    if torch.cuda.is_available():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine


def _processor_seconds() -> tuple[float, float, float] | None:
    """Return processor seconds since the machine started: available, used by all, used by this
    process and children. None where there is no /proc/stat."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    # user nice system idle iowait ...
    ticks = [int(word) for word in stat.read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    per_second = os.sysconf("SC_CLK_TCK")
    by_this_process = sum(os.times()[:4]) + _ticks_of_running_children(os.getpid()) / per_second
    available = sum(ticks)
    return available / per_second, (available - idle) / per_second, by_this_process


def _ticks_of_running_children(parent: int) -> int:
    """Return the ticks of the running children of a process, and theirs; 0 where the system does
    not list children."""
    ticks = 0
    for listed in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            children = [int(child) for child in listed.read_text().split()]
            stats = [Path(f"/proc/{child}/stat").read_text() for child in children]
        except OSError:  # one has ended meanwhile
            continue
        for stat in stats:
            # After the name, which is in brackets, the twelfth to the fifteenth field: its own and
            # its finished children's.
            fields = stat.rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
        ticks += sum(map(_ticks_of_running_children, children))
    return ticks


_AT_IMPORT = _processor_seconds()


def _others_share() -> float | None:
    """Return the share of all processor time since this module was imported that other programs
    used."""
    now = _processor_seconds()
    if _AT_IMPORT is None or now is None:
        return None
    available = now[0] - _AT_IMPORT[0]
    used = now[1] - _AT_IMPORT[1]
    by_this_process = now[2] - _AT_IMPORT[2]
    if not available:
        return 0.0
    return max(0.0, used - by_this_process) / available


def _commit() -> str | None:
    """Return the commit that is checked out, with `-dirty` if tracked files differ; None outside a
    clone of Scanline. The folder that has `model` is a clone only if it is the top level of its
    repository: an installed package may lie inside another repository, as in a project's .venv."""
    clone = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(clone), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not Path(git("rev-parse", "--show-toplevel")).samefile(clone):
            return None
        return git("describe", "--always", "--dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None
