"""Hosts killed, cut off and paused while clients wait: each request is answered once, with one machine's bytes.

What each of them costs is printed (`-rP`); docs/cluster.md has the figures.
"""

import time

from tests.support.hosts.hosts import Host
from tests.support.hosts.three_machines import HEAD, WORKERS, Machines
from tests.support.hosts.work import Work, work
from tests.support.waiting import wait_for

DEADLINE = 120  # seconds from a fault to the last answer, for what takes a few seconds without it


def worker_with_a_replica_only(machines: Machines) -> Host:
    """A worker that paints and that no client is connected to."""
    replicas, ingresses = machines.replicas(), machines.ingresses()
    return next(machines.hosts[name] for name in WORKERS if replicas[name] and not ingresses[name])


def at_full_strength(machines: Machines, since: float) -> float:
    """Seconds until all replicas are up again, each with an engine, and nothing waits or is painted."""
    machines.wait_for_strength()
    return time.monotonic() - since


def answered(begun: Work, fault: float) -> None:
    """Check all answers, and when the last one came."""
    begun.check()
    assert begun.seconds(fault) < DEADLINE
    times = f"last answer {begun.seconds(fault):.1f} s after the fault, longest pause {begun.longest_pause():.1f} s"
    print(f"{times}, {begun.lost} shards painted by others")


def test_a_worker_is_killed(machines: Machines) -> None:
    victim = worker_with_a_replica_only(machines)
    with work(machines) as begun:
        fault = time.monotonic()
        victim.kill()
    answered(begun, fault)
    back = time.monotonic()
    machines.rejoin(victim.name)
    print(f"full strength {at_full_strength(machines, back):.1f} s after the host's `ray start`")


def test_a_worker_is_cut_off_for_some_seconds(machines: Machines) -> None:
    victim = worker_with_a_replica_only(machines)
    with work(machines) as begun:
        fault = time.monotonic()
        victim.cut()
        time.sleep(5)  # how long the fault lasts
        victim.heal()
    answered(begun, fault)
    print(f"full strength {at_full_strength(machines, fault + 5):.1f} s after the link is up")


def test_a_worker_is_cut_off_until_ray_gives_it_up(machines: Machines) -> None:
    victim = worker_with_a_replica_only(machines)
    with work(machines) as begun:
        fault = time.monotonic()
        victim.cut()
        time.sleep(30)  # how long the fault lasts
        victim.heal()
    answered(begun, fault)
    assert begun.lost
    wait_for(lambda: not machines.in_cluster(victim.name), "Ray to give up a machine that answers again")
    print(f"given up {time.monotonic() - fault:.1f} s after the link was cut")
    with work(machines) as later:
        fault = time.monotonic()
    answered(later, fault)
    back = time.monotonic()
    machines.rejoin(victim.name)
    print(f"full strength {at_full_strength(machines, back):.1f} s after the host's `ray start`")


def test_a_worker_is_paused_and_goes_on_after_others_took_its_work(machines: Machines) -> None:
    victim = worker_with_a_replica_only(machines)
    with work(machines) as begun:
        fault = time.monotonic()
        victim.pause()
    answered(begun, fault)
    assert begun.lost
    back = time.monotonic()
    victim.resume()
    with work(machines) as later:  # what the host still sends of the first work belongs to none of these
        fault = time.monotonic()
    answered(later, fault)
    print(f"full strength {at_full_strength(machines, back):.1f} s after the machine went on")


def test_the_head_is_cut_off_for_some_seconds(machines: Machines) -> None:
    clients = next((name for name in WORKERS if machines.ingresses()[name]), WORKERS[0])
    with machines.clients_at(clients), work(machines) as begun:
        fault = time.monotonic()
        machines.hosts[HEAD].cut()
        time.sleep(10)  # how long the fault lasts
        machines.hosts[HEAD].heal()
    answered(begun, fault)
    print(f"full strength {at_full_strength(machines, fault + 10):.1f} s after the link is up")
