"""Processor cores and memory that this process may use: the machine's, or less where a
control group (cgroup) limits them.

A container, a pod and a systemd service are cgroups. Groups are nested, and each has limits of its
own: the tightest on the way from ours up to the root counts. Versions 1 and 2 are read, also both
at once; what cannot be read is no limit. https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, inf
from pathlib import Path

ROOT = Path("/")


def cores(root: Path = ROOT) -> int:
    """Return the cores that this process may use, at least one: those it may run on,
    or as many as its CPU quota pays for.

    A part of a core counts as a core: with 1.5 CPUs, two threads paint half as fast again as one
    (docs/configure.md). root: where /proc and /sys are.
    """
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    quotas = [_cpus(group) for group in _groups("cpu", root)]
    return max(1, ceil(min([allowed, *quotas])))


def free_memory(root: Path = ROOT) -> int:
    """Return bytes that this process could allocate now: the machine's, or what the tightest limit
    leaves. Pages of files count as free, as the system drops them first. root: as of cores()."""
    free: float = _free_of_machine(root)
    for group in _groups("memory", root):
        free = min(free, _free_of_group(group))
    return max(0, int(free))


def threads() -> int:
    """Return the threads to compute with: torch's setting, by itself the machine's cores, or
    cores() if fewer."""
    import torch

    return min(torch.get_num_threads(), cores())


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch compute in this thread alone: for many small operations, where waking other threads
    takes longer than the work, and ten times as long on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def limit_torch_threads() -> None:
    """Let torch itself compute with at most cores() threads."""
    import torch

    torch.set_num_threads(threads())


def _free_of_machine(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of our cgroup and its parents, for each mounted version that could limit
    `controller`."""
    for kinds, path in _memberships(root):
        if kinds and controller not in kinds:
            continue
        for mounted, mount in _mounts(controller if kinds else "", root):
            # A container may see a part of the tree, or its host's path where only its own group is
            # mounted.
            inside = path.relative_to(mounted) if path.is_relative_to(mounted) else Path()
            folder = mount / inside
            for group in (folder, *folder.parents):
                if group.is_relative_to(mount) and group.is_dir():
                    yield group


def _memberships(root: Path) -> Iterator[tuple[list[str], Path]]:
    """From /proc/self/cgroup: controllers (none: version 2) and the path of our group in their
    tree."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        yield [kind for kind in kinds.split(",") if kind], Path(path)


def _mounts(controller: str, root: Path) -> Iterator[tuple[Path, Path]]:
    """From /proc/self/mountinfo: which part of the tree is mounted, and where; version 2 without a
    controller."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        of_mount, _, of_system = line.partition(" - ")
        mounted, place = of_mount.split()[3:5]
        kind, _, options = of_system.split(maxsplit=2)
        is_wanted = kind == "cgroup2"
        if controller:
            is_wanted = kind == "cgroup" and controller in options.split(",")
        if is_wanted:
            yield Path(mounted), root / place.lstrip("/")


def _cpus(group: Path) -> float:
    """Return the CPUs that a group's quota pays for."""
    words = _read(group / "cpu.max").split()  # version 2: "max 100000" or "150000 100000"
    if not words:  # version 1: -1 is no limit
        words = [_read(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit():
        return inf
    quota = int(words[0])
    period = int(words[1])
    return quota / period if period else inf


def _free_of_group(group: Path) -> float:
    """Return bytes below a group's limit: of its usage, pages of files that were not used lately
    count as free."""
    limits = _numbers(group, "memory.max", "memory.high", "memory.limit_in_bytes")
    usage = _numbers(group, "memory.current", "memory.usage_in_bytes")
    if not limits or not usage:
        return inf
    statistics = dict(line.split() for line in _read(group / "memory.stat").splitlines())
    inactive = statistics.get("total_inactive_file", statistics.get("inactive_file", 0))
    return min(limits) - usage[0] + int(inactive)


def _numbers(group: Path, *names: str) -> list[int]:
    """Return the numbers that files of a group hold; "max" and a missing file are none."""
    texts = [_read(group / name).strip() for name in names]
    return [int(text) for text in texts if text.isdigit()]


def _read(path: Path) -> str:
    """Return a file's text; empty where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
