"""Hosts as namespaces of this machine: each with an address, a name, processes,
/tmp, /dev/shm and models of its own.

A host is the first process of a process namespace; the others of that host end with it, whatever
they are. Its network namespace is joined to a switch (a bridge in a namespace of its own) by a pair
of links, and so is this process's. Links and namespaces end with their first processes, which read
from this one and so end with it, also where it is killed.
"""

import os
import re
import shutil
import signal
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.support.server.running_server import descendants
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[3]
MODELS = Path("/srv")  # on a host, empty at first
# .1 is this process's, .2 and so on are the hosts'
NUMBER = os.getpid() % 250
NETWORK = f"10.213.{NUMBER}"
LINK = f"scanline{NUMBER}"  # of this process
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
# until this process ends; of a host's orphans, which are its children now, bash knows the end
WAIT = "echo up; read"
FIRST_PROCESS = """
set -e
hostname {name}
for folder in /tmp /dev/shm {models}; do
    mount -t tmpfs -o mode=1777 {name} $folder
done
mkdir -p /tmp/home /tmp/etc
echo '{known}' > /tmp/etc/hosts
mount --bind /tmp/etc/hosts /etc/hosts
echo '# no server: names are in /etc/hosts' > /tmp/etc/resolv.conf
mount --bind /tmp/etc/resolv.conf "$(readlink -f /etc/resolv.conf)"
ip link set lo up
{wait}
"""
NOWHERE = "02:00:00:00:00:01"  # no network card of these hosts
LOW_MEMORY = Path("/tmp/meminfo")


@cache
def unavailable_reason():
    """Why there can be no hosts here; empty where there can."""
    tools = ("bash", "ip", "nsenter", "tc", "unshare")
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        return f"{', '.join(missing)} not found"
    if os.geteuid() != 0:
        return "namespaces of networks need root"
    if ROOT.is_relative_to("/tmp"):
        return "a host has a /tmp of its own, without this checkout"
    trial = ["unshare", *NAMESPACES, "--fork", "ip", "link", "add", "trial", "type", "bridge"]
    return subprocess.run(trial, capture_output=True, text=True).stderr.strip()


class Host:
    """A host that is up. `first` is its first process, and `switch` the
    switch's, as this process sees them.
    """

    def __init__(self, name, address, first, switch):
        self.name = name
        self.address = address
        self.first = first
        self.switch = switch

    def run(self, *argv, **environment):
        """Run a command to its end; return its output.
        AssertionError with the output where it fails.
        """
        enter = ["nsenter", f"--target={self.first}", *NAMESPACES, f"--wd={ROOT}"]
        variables = {**os.environ, "HOME": "/tmp/home", **environment}
        return _run(*enter, *argv, env=variables)

    def copy(self, folder, to):
        shutil.copytree(folder, self.path(to), dirs_exist_ok=True)

    def path(self, on_host):
        return Path(f"/proc/{self.first}/root{on_host}")

    def processes(self):
        """The process ids of all its processes but the first."""
        own = os.readlink(f"/proc/{self.first}/ns/pid")
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(path / "ns/pid") == own:
                    found.append(int(path.name))
        return [process for process in found if process != self.first]

    def kill(self):
        """SIGKILL all its processes but the first."""
        while self.processes():
            self._signal(signal.SIGKILL)

    def pause(self):
        """Stop all its processes but the first."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def cut(self):
        """Set its link down, at the switch, as with a cable cut elsewhere: what it sends is lost,
        and what others send to it; no connection is reset, and it keeps addresses and routes."""
        _run_in(self.switch, "ip", "link", "set", self.name, "down")

    def heal(self):
        _run_in(self.switch, "ip", "link", "set", self.name, "up")

    def slow_down(self, rate):
        """Let its link carry no more than `rate` (as `tc` reads it, `1mbit`) in either direction;
        what would wait there for more than a second is lost."""
        self._queue_by("replace", "tbf", "rate", rate, "burst", "32k", "latency", "1s")

    def speed_up(self):
        self._queue_by("delete")

    def part(self, *others):
        """Lose what it and those hosts send to each other, as with its link cut;
        this process reaches all of them.
        """
        for sender, address in self._ways(others):
            entry = (address, "lladdr", NOWHERE, "nud", "permanent", "dev", "eth0")
            _run_in(sender.first, "ip", "neighbour", "replace", *entry)

    def join(self, *others):
        for sender, address in self._ways(others):
            _run_in(sender.first, "ip", "neighbour", "delete", address, "dev", "eth0")

    def exhaust_memory(self):
        """Let what it reads in /proc/meminfo say that 4 MiB of memory are
        left (Ray takes none for not known).
        """
        memory = Path("/proc/meminfo").read_text()
        low = re.sub(r"(?<=MemAvailable:) *\d+", " 4096", memory)
        self.path(LOW_MEMORY).write_text(low)
        self.run("mount", "--bind", str(LOW_MEMORY), "/proc/meminfo")

    def free_memory(self):
        self.run("umount", "/proc/meminfo")

    def _ways(self, others):
        """Between it and each of those hosts: who sends, and to which address."""
        for other in others:
            yield self, other.address
            yield other, self.address

    def _signal(self, number):
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _queue_by(self, change, *discipline):
        for process, device in ((self.switch, self.name), (self.first, "eth0")):
            _run_in(process, "tc", "qdisc", change, "dev", device, "root", *discipline)


@contextmanager
def hosts(*names):
    """Hosts of these names that know each other's, for as long as the context lasts."""
    found = {}
    with ExitStack() as stack:
        switch = stack.enter_context(_namespaces(WAIT, "--net"))
        _run("ip", "link", "add", LINK, *_peer("outside", switch))
        link = Path("/sys/class/net", LINK)
        stack.callback(wait_for, lambda: not link.exists(), "the end of the link")
        stack.callback(_run, "ip", "link", "delete", LINK)
        _run("ip", "address", "add", f"{NETWORK}.1/24", "dev", LINK)
        _run("ip", "link", "set", LINK, "up")
        _run_in(switch, "ip", "link", "add", "bridge", "type", "bridge")
        _run_in(switch, "ip", "link", "set", "bridge", "up")
        _run_in(switch, "ip", "link", "set", "outside", "master", "bridge", "up")
        known = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 2)}
        entries = ["127.0.0.1 localhost", *(f"{known[name]} {name}" for name in names)]
        for name, address in known.items():
            script = FIRST_PROCESS.format(
                name=name, models=MODELS, known="\n".join(entries), wait=WAIT
            )
            first = stack.enter_context(_namespaces(script, *NAMESPACES, "--mount-proc"))
            _run_in(switch, "ip", "link", "add", name, *_peer("eth0", first))
            _run_in(switch, "ip", "link", "set", name, "master", "bridge", "up")
            _run_in(first, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            _run_in(first, "ip", "link", "set", "eth0", "up")
            # A machine has a route to the internet; Ray finds its own address by it.
            _run_in(first, "ip", "route", "add", "default", "via", f"{NETWORK}.1")
            found[name] = Host(name, address, first, switch)
        yield found


@contextmanager
def _namespaces(script, *kinds):
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


def _peer(name, process):
    """How `ip link add` names the other end of a pair of links, which
    is in the namespace of a process.
    """
    return "type", "veth", "peer", "name", name, "netns", str(process)


def _run_in(process, *argv):
    """Run a command in the network of a process."""
    _run("nsenter", f"--target={process}", "--net", *argv)


def _run(*argv, env=None):
    done = subprocess.run(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
    return done.stdout
