"""Hosts killed, cut off, paused and worse while clients wait: each is answered
once; costs are printed (`-rP`).
"""

import subprocess
import time
from functools import cache
from pathlib import Path
from shutil import which

import httpx
import pytest

from scanline.model.formats.checkpoint import save_model
from tests.support import small_models
from tests.support.hosts.hosts import MODELS, Host, unavailable_reason
from tests.support.hosts.three_machines import (
    HEAD,
    INGRESS,
    PAINTER,
    WORKERS,
    Machines,
    three_machines,
)
from tests.support.hosts.work import answered, work, work_answered
from tests.support.waiting import wait_for

SLOW = "32kbit"  # a second, of a link
# The clock jumps on one host by libfaketime in its processes: no namespace has a time of day.
# Monotonic clocks stay right, as where a clock is set. libfaketime 0.9.10 then breaks
# `clock_nanosleep`, on which Python sleeps; a library before it calls the kernel's.
SLEEP = r"""
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""
# on the host
LIBRARY = MODELS / "sleep.so"
OFFSET = MODELS / "clock"


@cache
def faketime() -> Path | None:
    """libfaketime for programs with threads, and None where it or a compiler is missing."""
    return (
        next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None) if which("cc") else None
    )


def environment(host: Host) -> dict[str, str]:
    """Variables for `ray start`, after which `set_clock` sets the clock of all that it starts."""
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-xc", "-", "-o", host.path(LIBRARY)],
        input=SLEEP,
        text=True,
        check=True,
    )
    set_clock(host, 0)
    return {
        "LD_PRELOAD": f"{LIBRARY} {faketime()}",
        "FAKETIME_TIMESTAMP_FILE": str(OFFSET),
        "FAKETIME_CACHE_DURATION": "1",  # seconds
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def set_clock(host: Host, seconds: int) -> None:
    """Set it so much before, or after where positive, this machine's."""
    host.path(OFFSET).write_text(f"{seconds:+}s\n")


pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three machines with a replica each, and an ingress on one of them."""
    if reason := unavailable_reason():
        pytest.skip(f"no hosts in namespaces: {reason}")
    directory = tmp_path_factory.mktemp("models") / "small"
    save_model(
        small_models.model(small_models.config(height=14, width=14, layers=1), seed=3), directory
    )
    with three_machines(directory) as machines:
        machines.deploy()
        yield machines


@pytest.fixture
def machines(cluster):
    cluster.wait_for_strength()
    return cluster


@pytest.fixture
def painter(machines):
    """A host that paints and that no client is connected to."""
    return machines.hosts[PAINTER]


def at_full_strength(machines: Machines, since: float) -> float:
    """Seconds until all replicas are up again, each with an engine,
    and nothing waits or is painted.
    """
    machines.wait_for_strength()
    return time.monotonic() - since


def given_up(machines: Machines, host: Host, fault: float) -> None:
    wait_for(lambda: not machines.in_cluster(host.name), "Ray to give up a machine")
    print(f"given up {time.monotonic() - fault:.1f} s after the fault")


def joined_again(machines: Machines, host: Host) -> None:
    back = time.monotonic()
    machines.rejoin(host.name)
    print(f"full strength {at_full_strength(machines, back):.1f} s after the host's `ray start`")


def test_a_machine_is_killed(machines, painter):
    with work(machines) as begun:
        fault = time.monotonic()
        painter.kill()
    answered(begun, fault)
    joined_again(machines, painter)


@pytest.mark.parametrize("seconds", [5, 30, 90])  # how long the fault lasts
def test_a_machine_is_cut_off(machines, painter, seconds):
    with work(machines) as begun:
        fault = time.monotonic()
        painter.cut()
        time.sleep(seconds)
        painter.heal()
    answered(begun, fault)
    if seconds > 5:  # others have its work
        assert begun.lost
        if seconds == 90:  # after 30 Ray gives it up, or finds it again in time
            given_up(machines, painter, fault)
        work_answered(machines)
        joined_again(machines, painter)
    print(f"full strength {at_full_strength(machines, fault + seconds):.1f} s after the link is up")


def test_a_link_carries_less_than_is_sent(machines, painter):
    with work(machines) as begun:
        fault = time.monotonic()
        painter.slow_down(SLOW)
    answered(begun, fault)
    painter.speed_up()
    assert machines.in_cluster(painter.name)
    print(
        f"full strength {at_full_strength(machines, time.monotonic()):.1f} s after the link is as before"
    )


def test_a_machine_is_paused_and_goes_on_after_others_took_its_work(machines, painter):
    with work(machines) as begun:
        fault = time.monotonic()
        painter.pause()
    answered(begun, fault)
    assert begun.lost
    back = time.monotonic()
    painter.resume()
    work_answered(machines)  # what the host still sends of the first work belongs to none of this
    print(f"full strength {at_full_strength(machines, back):.1f} s after the machine went on")


def test_a_machine_has_no_memory_left(machines, painter):
    with work(machines) as begun:
        fault = time.monotonic()
        painter.exhaust_memory()
        wait_for(lambda: not machines.replicas_of(PAINTER), "Ray to kill a replica")
        print(f"replica killed after {time.monotonic() - fault:.1f} s")
    answered(begun, fault)
    back = time.monotonic()
    painter.free_memory()
    print(f"full strength {at_full_strength(machines, back):.1f} s after there is memory again")


@pytest.mark.skipif(faketime() is None, reason="libfaketime or a C compiler not found")
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_clock_jumps_by_an_hour(machines, seconds):
    host = machines.hosts[INGRESS]

    def jumped():
        with machines.client() as client:
            answer = client.post("/v1/images/generations", json={"n": 1, "seed": 1}).json()
        return abs(answer["created"] - time.time() - seconds) < 1800

    machines.rejoin(INGRESS, **environment(host))
    machines.wait_for_strength()
    # Clients elsewhere: Serve's proxy measures `request_timeout_s` by the clock,
    # and ends what is in progress there.
    with work(machines) as begun:
        fault = time.monotonic()
        set_clock(host, seconds)
    answered(begun, fault)
    with machines.clients_at(INGRESS):
        wait_for(jumped, "an ingress whose clock is wrong")
        work_answered(machines)
    joined_again(machines, host)


def test_an_ingress_is_cut_off_from_replicas_but_not_from_its_clients(machines, painter):
    host = machines.hosts[INGRESS]
    others = (machines.hosts[HEAD], painter)
    replicas = [machines.replicas_of(other.name) for other in others]
    with machines.clients_at(INGRESS), work(machines) as begun:
        fault = time.monotonic()
        host.part(*others)
    answered(begun, fault)
    assert begun.lost
    given_up(machines, host, fault)
    there = [machines.replicas_of(other.name) for other in others]
    assert there == replicas, "replicas that were not cut off stay"
    work_answered(machines)
    host.join(*others)
    joined_again(machines, host)


def test_the_head_is_cut_off_for_some_seconds(machines):
    with machines.clients_at(INGRESS), work(machines) as begun:
        fault = time.monotonic()
        machines.hosts[HEAD].cut()
        time.sleep(10)  # how long the fault lasts
        machines.hosts[HEAD].heal()
    answered(begun, fault)
    print(f"full strength {at_full_strength(machines, fault + 10):.1f} s after the link is up")


def test_the_head_is_lost_and_with_it_the_cluster(machines):
    with machines.clients_at(INGRESS), work(machines) as begun:
        fault = time.monotonic()
        machines.hosts[HEAD].kill()
    answered(begun, fault)
    for worker in WORKERS:
        given_up(machines, machines.hosts[worker], fault)
    with (
        machines.clients_at(INGRESS),
        machines.client() as client,
        pytest.raises(httpx.TransportError),
    ):
        client.get("/healthz")
    back = time.monotonic()
    machines.start()
    machines.deploy()
    print(
        f"full strength {at_full_strength(machines, back):.1f} s after `ray start` on all machines"
    )


@pytest.mark.skipif(which("redis-server") is None, reason="redis-server not found")
def test_the_head_is_lost_and_started_again_where_redis_has_its_state(machines):
    other = machines.hosts[INGRESS]
    port = 6390
    other.run(
        "redis-server",
        "--port",
        str(port),
        "--protected-mode",
        "no",
        "--save",
        "",
        "--daemonize",
        "yes",
    )
    redis = {"RAY_REDIS_ADDRESS": f"{other.address}:{port}"}
    machines.start(**redis)
    machines.deploy()
    machines.wait_for_strength()
    with machines.clients_at(INGRESS), work(machines) as begun:
        fault = time.monotonic()
        machines.hosts[HEAD].kill()
    answered(begun, fault)
    back = time.monotonic()
    machines.rejoin(HEAD, "ray start --head", **redis)
    print(f"full strength {at_full_strength(machines, back):.1f} s after the head's `ray start`")
    assert all(machines.in_cluster(worker) for worker in WORKERS)
    work_answered(machines)
    machines.start()
    other.run("redis-cli", "-p", str(port), "shutdown", "nosave")
    machines.deploy()
