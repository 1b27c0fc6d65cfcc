"""Cores, memory and forks of a process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import pytest

from scanline.model.resources import cores, free_memory

ALLOWED = len(os.sched_getaffinity(0))
GIB = 2**30
NO_LIMIT_1 = 9223372036854771712  # version 1 writes the largest whole number of pages
V2 = "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
V1_CPU = "34 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "35 30 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V1_GROUP = "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"
CPU_1 = Path("/sys/fs/cgroup/cpu")


def machine(root: Path, groups: str, mounts: str, files: dict[str, object]) -> Path:
    """A tree with /proc and /sys: `files` by their paths under /sys/fs/cgroup. 8 GiB are free."""
    files = {
        "proc/self/cgroup": groups,
        "proc/self/mountinfo": f"22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n{mounts}",
        "proc/meminfo": f"MemTotal: {16 * 2**20} kB\nMemFree: 1000 kB\nMemAvailable: {8 * 2**20} kB\n",
        **{f"sys/fs/cgroup/{name}": content for name, content in files.items()},
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n" if isinstance(content, int) else str(content))
    return root


def test_without_groups_they_are_the_machines(tmp_path: Path) -> None:
    for root in (tmp_path / "nothing", machine(tmp_path, "0::/\n", V2, {"cgroup.procs": ""})):
        assert cores(root) == ALLOWED
    assert free_memory(tmp_path) == 8 * GIB


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", ALLOWED), ("100000 100000", 1), ("20000 100000", 1), ("400 1000", 1), ("9900000 100000", ALLOWED)],
)
def test_a_quota_of_version_2_limits_cores(tmp_path: Path, quota: str, expected: int) -> None:
    assert cores(machine(tmp_path, "0::/pod\n", V2, {"pod/cpu.max": f"{quota}\n"})) == expected


@pytest.mark.skipif(ALLOWED < 2, reason="there is one core")
def test_a_part_of_a_core_counts_as_one(tmp_path: Path) -> None:
    assert cores(machine(tmp_path, "0::/pod\n", V2, {"pod/cpu.max": "150000 100000\n"})) == 2


@pytest.mark.parametrize("tightest", ["cpu.max", "pod/cpu.max", "pod/inner/cpu.max"])
def test_the_tightest_quota_on_the_way_up_counts(tmp_path: Path, tightest: str) -> None:
    files: dict[str, object] = dict.fromkeys(("cpu.max", "pod/cpu.max", "pod/inner/cpu.max"), "1600000 100000\n")
    assert cores(machine(tmp_path, "0::/pod/inner\n", V2, files | {tightest: "100000 100000\n"})) == 1


@pytest.mark.parametrize(("quota", "expected"), [(-1, ALLOWED), (50000, 1), (100000, 1)])
def test_a_quota_of_version_1_limits_cores(tmp_path: Path, quota: int, expected: int) -> None:
    group = "cpu,cpuacct/docker/abc"
    files = {f"{group}/cpu.cfs_quota_us": quota, f"{group}/cpu.cfs_period_us": 100000}
    assert cores(machine(tmp_path, V1_GROUP, V1_CPU + V1_MEMORY, files)) == expected


def test_in_a_container_only_its_own_group_is_mounted(tmp_path: Path) -> None:
    """Version 1 without a cgroup namespace: the path is the host's, and the mount says which part of the tree it is."""
    mounts = V1_CPU.replace(" / /", " /docker/abc /")
    files = {"cpu,cpuacct/cpu.cfs_quota_us": 100000, "cpu,cpuacct/cpu.cfs_period_us": 100000}
    assert cores(machine(tmp_path, V1_GROUP, mounts, files)) == 1


def test_a_group_of_another_namespace_is_read_where_it_is_mounted(tmp_path: Path) -> None:
    files: dict[str, object] = {"cpu.max": "100000 100000\n", "memory.max": GIB, "memory.current": 0}
    root = machine(tmp_path, "0::/../other\n", V2, files)
    assert (cores(root), free_memory(root)) == (1, GIB)


def test_memory_below_the_limit_of_version_2_is_free_and_so_are_pages_of_files(tmp_path: Path) -> None:
    files: dict[str, object] = {
        "pod/memory.max": 2 * GIB,
        "pod/memory.high": "max\n",
        "pod/memory.current": GIB,
        "pod/memory.stat": f"anon 5\ninactive_file {GIB // 4}\nactive_file {GIB // 8}\n",
    }
    assert free_memory(machine(tmp_path, "0::/pod\n", V2, files)) == GIB + GIB // 4
    (tmp_path / "sys/fs/cgroup/pod/memory.high").write_text(f"{GIB}\n")
    assert free_memory(tmp_path) == GIB // 4


def test_the_tightest_memory_limit_of_version_1_counts_beside_an_empty_version_2(tmp_path: Path) -> None:
    files: dict[str, object] = {
        "memory/memory.limit_in_bytes": NO_LIMIT_1,
        "memory/memory.usage_in_bytes": 3 * GIB,
        "memory/docker/memory.limit_in_bytes": 2 * GIB,
        "memory/docker/memory.usage_in_bytes": GIB,
        "memory/docker/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB // 2}\n",
        "memory/docker/abc/memory.limit_in_bytes": 4 * GIB,
        "memory/docker/abc/memory.usage_in_bytes": 0,
    }
    unified = V2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    root = machine(tmp_path, V1_GROUP + "0::/\n", V1_CPU + V1_MEMORY + unified, files)
    assert free_memory(root) == GIB + GIB // 2
    (root / "sys/fs/cgroup/memory/docker/memory.usage_in_bytes").write_text(f"{3 * GIB}\n")
    assert free_memory(root) == 0


def test_the_machines_memory_counts_where_it_is_less(tmp_path: Path) -> None:
    files: dict[str, object] = {"memory.max": 12 * GIB, "memory.current": 0}
    assert free_memory(machine(tmp_path, "0::/\n", V2, files)) == 8 * GIB


@pytest.mark.parametrize("text", ["", "max\n", "nonsense\n", "1 2 3\n", "100000 0\n"])
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, text: str) -> None:
    root = machine(tmp_path, "0::/\n", V2, {"cpu.max": text, "memory.max": text, "memory.current": text})
    assert (cores(root), free_memory(root)) == (ALLOWED, 8 * GIB)


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """A real group of version 1 with a quota of one CPU."""
    group = CPU_1 / f"scanline-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text("100000")
        yield group
    finally:
        group.rmdir()


@pytest.mark.slow
@pytest.mark.skipif(not os.access(CPU_1 / "cgroup.procs", os.W_OK), reason="this process may not make a cgroup")
def test_a_process_in_a_real_group_sees_its_quota(limited_group: Path) -> None:
    program = (
        f"from pathlib import Path; Path('{limited_group}/cgroup.procs').write_text('0')\n"
        "import torch; torch.set_num_threads(2)\n"
        "from scanline.model import resources; print(resources.cores(), resources.threads())"
    )
    for microseconds in (100_000, 150_000):
        (limited_group / "cpu.cfs_quota_us").write_text(str(microseconds))
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        expected = min(ALLOWED, ceil(microseconds / 100_000))
        assert ran.stdout.split() == [str(expected)] * 2


FORKED = """
import os, sys, torch, scanline
torch.set_num_threads(2)
model = scanline.load(sys.argv[1], device="cpu", threads=2)
before = model.sample(3, seed=1).array
torch.zeros(10**6).exp()  # by torch's threads
painting = model.stream(1, seed=1)
next(painting)
if not (child := os.fork()):
    assert (model.sample(3, seed=1).array == before).all()
    try:
        list(painting)
        os._exit(1)
    except RuntimeError:
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
list(painting)
assert "torch._dynamo" not in sys.modules  # the compiler, which takes 150 MB; meta tensors may import it too
"""


def test_a_fork_paints_the_same_and_cannot_go_on_with_what_its_parent_paints(
    grey_directory: Path,
) -> None:
    command = [sys.executable, "-c", FORKED, str(grey_directory)]
    logged = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stderr
    assert "load the model after a fork" in logged
