"""Simulated clusters whose mean times queueing theory gives: single images, Poisson arrivals, a step a second."""

import numpy as np

from benchmarks.simulation.cluster import Cluster
from benchmarks.simulation.replica import Machine

ANY = 10**9  # more slots than images


def machine(slots: int = 1, fixed: float = 1.0, each: float = 0.0, steps: int = 1) -> Machine:
    return Machine("theory", steps, slots, fixed, each)


class ExponentialCluster(Cluster):
    """Images whose steps are drawn from an exponential distribution with the machine's steps as mean."""

    def steps(self) -> float:
        return self.draws.expovariate(1 / self.machine.steps)


def arrivals(rate: float, number: int, seed: int = 0) -> np.ndarray:
    """Draw times of Poisson arrivals."""
    return np.random.default_rng(seed).exponential(1 / rate, number).cumsum()


def ran(cluster: Cluster, rate: float, number: int) -> Cluster:
    """Run so many requests for one image each; return the cluster."""
    cluster.run(arrivals(rate, number), np.ones(number, int))
    return cluster


def mean_time(cluster: Cluster) -> float:
    """Mean seconds from arrival to answer, without the first tenth of the requests."""
    times = [request.done - request.arrived for request in cluster.requests]
    return float(np.mean(times[len(times) // 10 :]))
