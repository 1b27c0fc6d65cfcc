"""Fleets whose mean times theory knows: images one by one, Poisson arrivals, a step a second."""

import numpy as np
from scaling_fleet import Fleet
from scaling_replica import Machine

ANY = 10**9  # slots that never run out


def machine(slots: int = 1, fixed: float = 1.0, each: float = 0.0, steps: int = 1) -> Machine:
    return Machine("of theory", steps, slots, fixed, each)


class ExponentialFleet(Fleet):
    """Images whose steps are drawn, with the machine's as their mean."""

    def steps(self) -> float:
        return self.draws.expovariate(1 / self.machine.steps)


def arrivals(rate: float, number: int, seed: int = 0) -> np.ndarray:
    """Times of Poisson arrivals."""
    return np.random.default_rng(seed).exponential(1 / rate, number).cumsum()


def ran(fleet: Fleet, rate: float, number: int) -> Fleet:
    """After so many requests for one image each."""
    fleet.run(arrivals(rate, number), np.ones(number, int))
    return fleet


def mean_time(fleet: Fleet) -> float:
    """From arrival to answer, without the first tenth."""
    times = [request.done - request.arrived for request in fleet.requests]
    return float(np.mean(times[len(times) // 10 :]))
