"""Checks that turns are fair: no one has two turns while another one waits."""

from collections import Counter
from collections.abc import Collection
from typing import Generic, TypeVar

Key = TypeVar("Key", str, int)


class FairTurns(Generic[Key]):
    """Counts how often others had a turn since each one that waits began to wait or had its own last turn."""

    def __init__(self) -> None:
        self.others: dict[Key, Counter[Key]] = {}

    def waiting(self, keys: Collection[Key]) -> None:
        """These wait now: whoever does not, and waits again later, begins anew."""
        self.others = {key: self.others.get(key, Counter()) for key in keys}

    def turn(self, key: Key, waiting: Collection[Key]) -> None:
        """`key` had a turn while all of `waiting` waited, itself included."""
        assert key in waiting
        self.waiting(waiting)
        del self.others[key]
        for waiter, others in self.others.items():
            others[key] += 1
            assert others[key] == 1, f"{key} had two turns while {waiter} waited"
