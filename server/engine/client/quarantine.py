"""Which requests may be in the engine together, by how it has died so far: one that kills it is found and fails alone.

All requests that an engine has in work when it dies are replayed by the next one together: most deaths are nobody's
fault. A request that is in it at two deaths in a row, none of its images finished between them, is a suspect. Suspects
go in alone, everybody else waits until they are through: half as many at once as were in the engine when it died, and
half of those at each further death. One that is the only request in an engine that dies, and was in it at the death
before, is the culprit. When it has failed, all others are above suspicion.

So one culprit among k requests takes at most 3 + log2(k) deaths, and two where it was alone from the start. An innocent
request fails only where it is alone in engines that others kill twice while they paint not one of its images.
Knows numbers of requests, which grow in the order in which they came, and nothing else.
"""

from dataclasses import dataclass

SUSPECT = 2  # deaths in a row


@dataclass(frozen=True)
class Verdict:
    """What a death has taught: who is to blame, or at least that it is one of fewer than before."""

    culprit: int | None = None
    narrowed: bool = False


class Quarantine:
    """Invariant: a request that has not ended is either inside the engine or waits."""

    def __init__(self) -> None:
        self.inside: dict[int, bool] = {}  # requests in the engine: whether an image of theirs was finished in its life
        self.waiting: set[int] = set()
        self.deaths: dict[int, int] = {}  # in a row at which a request was inside with nothing finished
        self.most: int | None = None  # suspects that may be inside at once; None: all may be
        self.left = False  # in this engine's life a request was cancelled, and may be in work a moment longer

    def add(self, request: int) -> None:
        """A new request, which waits."""
        self.waiting.add(request)

    def admit(self) -> list[int]:
        """The requests that are to go in now."""
        if self.most is not None and self.inside:
            return []
        going = sorted(self.waiting)
        if self.most is not None:
            suspects = [request for request in going if self.deaths.get(request, 0) >= SUSPECT]
            if suspects:
                going = suspects[: self.most]
            else:
                self.most = None
        self.waiting.difference_update(going)
        self.inside.update(dict.fromkeys(going, False))
        return going

    def finished(self, request: int) -> None:
        """An image of a request is done: whatever kills the engine, this was not it."""
        self.inside[request] = True

    def end(self, request: int, cancelled: bool = False) -> bool:
        """A request is done, or nobody waits for it any more; whether it was inside."""
        self.waiting.discard(request)
        self.deaths.pop(request, None)
        was_inside = self.inside.pop(request, None) is not None
        self.left |= cancelled and was_inside
        return was_inside

    def died(self) -> Verdict:
        """The engine is dead: all that were inside wait again, but for the culprit, who has ended."""
        inside, self.inside = self.inside, {}
        left, self.left = self.left, False
        for request, finished in inside.items():
            self.deaths[request] = 1 if finished else self.deaths.get(request, 0) + 1
        self.waiting.update(inside)
        suspects = [request for request in inside if self.deaths[request] >= SUSPECT]
        if not suspects:
            return Verdict()
        if len(inside) == 1 and not left:
            self.end(suspects[0])
            self.deaths.clear()
            self.most = None
            return Verdict(suspects[0])
        before, self.most = self.most, max(1, len(suspects) // 2)
        return Verdict(narrowed=before is None or self.most < before)
