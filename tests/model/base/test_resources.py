"""Cores, memory and forks of a process, and the facts about its machine."""

import os
import subprocess
import sys

import pytest

from scanline.model.base import machine
from scanline.model.base.resources import cores, free_memory

ALLOWED = len(os.sched_getaffinity(0))
GIB = 2**30
NO_LIMIT_1 = 9223372036854771712  # version 1 writes the largest whole number of pages
V2 = "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
V1_CPU = "34 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "35 30 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V1_GROUP = "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"
ONE_CPU = "100000 100000\n"


def tree(root, groups, mounts, files):
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


def test_without_groups_they_are_the_machines(tmp_path):
    for root in (tmp_path / "nothing", tree(tmp_path, "0::/\n", V2, {"cgroup.procs": ""})):
        assert cores(root) == ALLOWED
    assert free_memory(tmp_path) == 8 * GIB


def version_1(quota):
    return {
        "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": quota,
        "cpu,cpuacct/docker/abc/cpu.cfs_period_us": 100000,
    }


WIDE = dict.fromkeys(("cpu.max", "pod/cpu.max", "pod/inner/cpu.max"), "1600000 100000\n")
# groups, mounts, files, and the cores that they leave
CORES = {
    "a quota": ("0::/pod\n", V2, {"pod/cpu.max": ONE_CPU}, 1),
    "a part of a core counts as one": ("0::/pod\n", V2, {"pod/cpu.max": "20000 100000\n"}, 1),
    "and a half": ("0::/pod\n", V2, {"pod/cpu.max": "150000 100000\n"}, min(2, ALLOWED)),
    "more than there are": ("0::/pod\n", V2, {"pod/cpu.max": "9900000 100000\n"}, ALLOWED),
    "the tightest on the way up, at its end": (
        "0::/pod/inner\n",
        V2,
        WIDE | {"cpu.max": ONE_CPU},
        1,
    ),
    "the tightest on the way up, in its midst": (
        "0::/pod/inner\n",
        V2,
        WIDE | {"pod/cpu.max": ONE_CPU},
        1,
    ),
    "the tightest on the way up, its own": (
        "0::/pod/inner\n",
        V2,
        WIDE | {"pod/inner/cpu.max": ONE_CPU},
        1,
    ),
    "no quota of version 1": (V1_GROUP, V1_CPU + V1_MEMORY, version_1(-1), ALLOWED),
    "half a core of version 1": (V1_GROUP, V1_CPU + V1_MEMORY, version_1(50000), 1),
    # version 1 without a namespace: the path is the host's, and the
    # mount says which part of the tree it is
    "a container's own group alone": (
        V1_GROUP,
        V1_CPU.replace(" / /", " /docker/abc /"),
        {"cpu,cpuacct/cpu.cfs_quota_us": 100000, "cpu,cpuacct/cpu.cfs_period_us": 100000},
        1,
    ),
    "a group of another namespace, where it is mounted": (
        "0::/../other\n",
        V2,
        {"cpu.max": ONE_CPU},
        1,
    ),
}


@pytest.mark.parametrize("case", CORES)
def test_quotas_limit_cores(tmp_path, case):
    *machine_of, expected = CORES[case]
    assert cores(tree(tmp_path, *machine_of)) == expected


def test_memory_below_the_limit_of_version_2_is_free_and_so_are_pages_of_files(
    tmp_path,
):
    files = {
        "pod/memory.max": 2 * GIB,
        "pod/memory.high": "max\n",
        "pod/memory.current": GIB,
        "pod/memory.stat": f"anon 5\ninactive_file {GIB // 4}\nactive_file {GIB // 8}\n",
    }
    assert free_memory(tree(tmp_path, "0::/pod\n", V2, files)) == GIB + GIB // 4
    assert (
        free_memory(tree(tmp_path, "0::/pod\n", V2, files | {"pod/memory.high": GIB})) == GIB // 4
    )
    in_another_namespace = {"memory.max": GIB, "memory.current": 0}
    assert free_memory(tree(tmp_path / "other", "0::/../other\n", V2, in_another_namespace)) == GIB
    beyond_the_machine = {"memory.max": 12 * GIB, "memory.current": 0}
    assert free_memory(tree(tmp_path / "large", "0::/\n", V2, beyond_the_machine)) == 8 * GIB


def test_the_tightest_memory_limit_of_version_1_counts_beside_an_empty_version_2(
    tmp_path,
):
    files = {
        "memory/memory.limit_in_bytes": NO_LIMIT_1,
        "memory/memory.usage_in_bytes": 3 * GIB,
        "memory/docker/memory.limit_in_bytes": 2 * GIB,
        "memory/docker/memory.usage_in_bytes": GIB,
        "memory/docker/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB // 2}\n",
        "memory/docker/abc/memory.limit_in_bytes": 4 * GIB,
        "memory/docker/abc/memory.usage_in_bytes": 0,
    }
    mounts = V1_CPU + V1_MEMORY + V2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    for used, free in ((GIB, GIB + GIB // 2), (3 * GIB, 0)):
        files["memory/docker/memory.usage_in_bytes"] = used
        assert free_memory(tree(tmp_path, V1_GROUP + "0::/\n", mounts, files)) == free


@pytest.mark.parametrize("text", ["", "max\n", "nonsense\n", "1 2 3\n", "100000 0\n"])
def test_what_cannot_be_read_is_no_limit(tmp_path, text):
    root = tree(
        tmp_path, "0::/\n", V2, dict.fromkeys(("cpu.max", "memory.max", "memory.current"), text)
    )
    assert (cores(root), free_memory(root)) == (ALLOWED, 8 * GIB)


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
    grey_directory,
):
    command = [sys.executable, "-c", FORKED, str(grey_directory)]
    logged = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stderr
    assert "load the model after a fork" in logged


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "file").write_text("one")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (
        ["init", "--quiet"],
        ["add", "file"],
        ["commit", "--quiet", "--message", "one"],
    ):
        subprocess.run([*git, *arguments], check=True)
    return tmp_path


def commit_of_package(folder, monkeypatch):
    monkeypatch.setattr(machine, "__file__", str(folder / "model" / "base" / "machine.py"))
    return machine.facts()["commit"]


def test_the_commit_is_that_of_our_own_clone_and_marked_when_files_differ(
    repository, monkeypatch, tmp_path_factory
):
    head = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout
    commit = commit_of_package(repository, monkeypatch)
    assert head.startswith(str(commit))
    (repository / "file").write_text("two")
    assert commit_of_package(repository, monkeypatch) == f"{commit}-dirty"
    for elsewhere in (repository / "inside", tmp_path_factory.mktemp("outside")):
        assert commit_of_package(elsewhere, monkeypatch) is None
