"""Hosts as namespaces of this machine: each with an address, a name, processes,
/tmp, /dev/shm and models of its own.

A host is the first process of a process namespace; the others of that host end with it, whatever
they are. Its network namespace is joined to a switch (a bridge in a namespace of its own) by a pair
of links, and so is this process's. Links and namespaces end with their first processes, which read
from this one and so end with it, also where it is killed.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.support.server.running_server import descendants
from tests.support.waiting import wait_for

# .1 is this process's, .2 and so on are the hosts'; which of them, the first free link says
NETWORK = "10.213.{}"
LINK = "scanline{}"  # of this process
MODELS = Path("/srv")  # on a host, empty at first
ROOT = Path(__file__).parents[3]
# which a host has also where they lie in a folder of its own
SHOWN = (ROOT, Path(sys.prefix), Path(sys.base_prefix))
# until this process ends; of a host's orphans, which are its children now, bash knows the end
WAIT = "echo up; read"
FIRST_PROCESS = """
set -e
hostname {name}
for folder in /tmp /dev/shm {models}; do
    mount -t tmpfs -o mode=1777 {name} /mnt
    for path in {shown}; do
        case $path in $folder/*) mkdir -p "/mnt${{path#$folder}}"; mount --bind "$path" "/mnt${{path#$folder}}" ;; esac
    done
    mount --move /mnt $folder
done
mkdir -p /tmp/home /tmp/etc
printf '%s\n' {known} > /tmp/etc/hosts
mount --bind /tmp/etc/hosts /etc/hosts
echo '# no server: names are in /etc/hosts' > /tmp/etc/resolv.conf
mount --bind /tmp/etc/resolv.conf "$(readlink -f /etc/resolv.conf)"
ip link set lo up
{wait}
"""
NOWHERE = "02:00:00:00:00:01"  # no network card of these hosts
LOW_MEMORY = Path("/tmp/meminfo")
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")


@cache
def unavailable_reason() -> str:
    """Why there can be no hosts here; empty where there can."""
    if missing := [
        tool for tool in ("bash", "ip", "nsenter", "tc", "unshare") if shutil.which(tool) is None
    ]:
        return f"{', '.join(missing)} not found"
    if os.geteuid() != 0:
        return "namespaces of networks need root"
    trial = ["unshare", *NAMESPACES, "--fork", "ip", "link", "add", "trial", "type", "bridge"]
    return subprocess.run(trial, capture_output=True, text=True).stderr.strip()


class Host:
    """A host that is up. `first` is its first process, and `switch` the
    switch's, as this process sees them.
    """

    def __init__(self, name: str, address: str, first: int, switch: int) -> None:
        self.name = name
        self.address = address
        self.first = first
        self.switch = switch

    def command(self, *argv: str) -> list[str]:
        environment = ["env", "HOME=/tmp/home"]
        return [
            "nsenter",
            f"--target={self.first}",
            *NAMESPACES,
            f"--wd={ROOT}",
            *environment,
            *argv,
        ]

    def run(self, *argv: str, **environment: str) -> str:
        """Run a command to its end; return its output.
        AssertionError with the output where it fails.
        """
        pipes = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        done = subprocess.run(
            self.command(*argv), **pipes, text=True, env={**os.environ, **environment}
        )
        assert done.returncode == 0, f"{self.name}: {' '.join(argv)}\n{done.stdout}"
        return done.stdout

    def copy(self, folder: Path, to: Path) -> None:
        shutil.copytree(folder, self.path(to), dirs_exist_ok=True)

    def path(self, on_host: Path) -> Path:
        return Path(f"/proc/{self.first}/root{on_host}")

    def processes(self) -> list[int]:
        """The process ids of all its processes but the first."""
        own = os.readlink(f"/proc/{self.first}/ns/pid")
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if (
                    path.name.isdigit()
                    and os.readlink(path / "ns/pid") == own
                    and int(path.name) != self.first
                ):
                    found.append(int(path.name))
        return found

    def kill(self) -> None:
        """SIGKILL all its processes but the first."""
        while self.processes():
            self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """Stop all its processes but the first."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def cut(self) -> None:
        """Set its link down: what it sends is lost, and what others
        send to it; no connection is reset.
        """
        self._set_link("down")

    def heal(self) -> None:
        self._set_link("up")

    def slow_down(self, rate: str) -> None:
        """Let its link carry no more than `rate` (as `tc` reads it, `1mbit`) in either direction;
        what would wait there for more than a second is lost."""
        self._queue_by("replace", "tbf", "rate", rate, "burst", "32k", "latency", "1s")

    def speed_up(self) -> None:
        self._queue_by("delete")

    def part(self, *others: "Host") -> None:
        """Lose what it and those hosts send to each other, as with its link cut;
        this process reaches all of them.
        """
        self._send_to(others, "replace", "lladdr", NOWHERE, "nud", "permanent")

    def join(self, *others: "Host") -> None:
        self._send_to(others, "delete")

    def exhaust_memory(self) -> None:
        """Let what it reads in /proc/meminfo say that 4 MiB of memory are
        left (Ray takes none for not known).
        """
        self.path(LOW_MEMORY).write_text(
            re.sub(r"(?<=MemAvailable:) *\d+", " 4096", Path("/proc/meminfo").read_text())
        )
        self.run("mount", "--bind", str(LOW_MEMORY), "/proc/meminfo")

    def free_memory(self) -> None:
        self.run("umount", "/proc/meminfo")

    def _send_to(self, others: tuple["Host", ...], *entry: str) -> None:
        """Change where it sends what is for those hosts, and where they send what is for it."""
        for other in others:
            for sender, address in ((self, other.address), (other, self.address)):
                change, *to = entry
                sender.run("ip", "neighbour", change, address, "dev", "eth0", *to)

    def _signal(self, number: int) -> None:
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _queue_by(self, change: str, *discipline: str) -> None:
        for process, device in ((self.switch, self.name), (self.first, "eth0")):
            _run(
                "nsenter",
                f"--target={process}",
                "--net",
                "tc",
                "qdisc",
                change,
                "dev",
                device,
                "root",
                *discipline,
            )

    def _set_link(self, state: str) -> None:
        # The switch's end: the host keeps its own, and with it its addresses and
        # routes, as with a cable cut elsewhere.
        _run("nsenter", f"--target={self.switch}", "--net", "ip", "link", "set", self.name, state)


@contextmanager
def hosts(*names: str) -> Iterator[dict[str, Host]]:
    """Hosts of these names that know each other's, for as long as the context lasts."""
    found = {}
    with ExitStack() as stack:
        switch = stack.enter_context(_namespaces(WAIT, "--net"))
        in_switch = ("nsenter", f"--target={switch}", "--net")
        network, link = next(filter(None, (_linked(number, switch) for number in range(1, 255))))
        stack.callback(
            wait_for, lambda: not Path("/sys/class/net", link).exists(), "the end of the link"
        )
        stack.callback(_run, "ip", "link", "delete", link)
        _run("ip", "address", "add", f"{network}.1/24", "dev", link)
        _run("ip", "link", "set", link, "up")
        _run(*in_switch, "ip", "link", "add", "bridge", "type", "bridge")
        _run(*in_switch, "ip", "link", "set", "bridge", "up")
        _run(*in_switch, "ip", "link", "set", "outside", "master", "bridge", "up")
        known = {name: f"{network}.{number}" for number, name in enumerate(names, 2)}
        entries = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in known.items())]
        for name, address in known.items():
            texts = {"known": shlex.join(entries), "shown": shlex.join(map(str, SHOWN))}
            script = FIRST_PROCESS.format(name=name, models=MODELS, wait=WAIT, **texts)
            first = stack.enter_context(_namespaces(script, *NAMESPACES, "--mount-proc"))
            inside = ("nsenter", f"--target={first}", "--net")
            _run(*in_switch, "ip", "link", "add", name, *_peer("eth0", first))
            _run(*in_switch, "ip", "link", "set", name, "master", "bridge", "up")
            _run(*inside, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            _run(*inside, "ip", "link", "set", "eth0", "up")
            # A machine has a route to the internet; Ray finds its own address by it.
            _run(*inside, "ip", "route", "add", "default", "via", f"{network}.1")
            found[name] = Host(name, address, first, switch)
        yield found


@contextmanager
def _namespaces(script: str, *kinds: str) -> Iterator[int]:
    """Run a script as the first process of new namespaces; yield its process id once it is up."""
    command = ["unshare", *kinds, "--fork", "bash", "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == "up\n"
            (first,) = descendants(process.pid)
            yield first
        finally:
            process.stdin.close()


def _linked(number: int, switch: int) -> tuple[str, str] | None:
    """The network of that number and its link to the switch; None where others have it."""
    made = subprocess.run(
        ["ip", "link", "add", LINK.format(number), *_peer("outside", switch)], capture_output=True
    )
    return None if made.returncode else (NETWORK.format(number), LINK.format(number))


def _peer(name: str, process: int) -> tuple[str, ...]:
    """How `ip link add` names the other end of a pair of links, which
    is in the namespace of a process.
    """
    return "type", "veth", "peer", "name", name, "netns", str(process)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
