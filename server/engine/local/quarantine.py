"""Quarantine of requests that may have killed the engine: the one that
does is identified and fails alone.

All requests in an engine that dies are replayed together by the next one, because most crashes are
no request's fault. A request that is in it at two crashes in a row, none of its images finished
between them, is a suspect. Suspects go in alone while all other requests wait: half as many at once
as were in the engine when it died, and half of those at each further crash. A request that is alone
in an engine that dies, and was in it at the crash before, is the culprit. Once it has failed, no
other request is a suspect any more.

So one culprit among k requests takes at most 3 + log2(k) crashes, and two where it was
alone from the start. An innocent request fails only where it is alone in engines that
something else kills twice before one of its images is finished. Knows only request ids,
which grow in the order of arrival.
"""

from dataclasses import dataclass

SUSPECT = 2  # crashes in a row


@dataclass(frozen=True)
class Verdict:
    """Consequence of a crash: the request to blame, or whether
    there are fewer suspects than before.
    """

    culprit: int | None = None
    narrowed: bool = False


class Quarantine:
    """Invariant: a request that has not ended is either inside the engine or waits."""

    def __init__(self) -> None:
        # requests in the engine: whether it has finished an image of theirs
        self.inside: dict[int, bool] = {}
        self.waiting: set[int] = set()
        # in a row in which a request was inside with nothing finished
        self.crashes: dict[int, int] = {}
        self.most: int | None = None  # suspects that may be inside at once; None: no limit
        # a request was cancelled in this engine and may be in it a moment longer
        self.has_cancelled = False

    def add(self, request: int) -> None:
        """Add a new request, which waits."""
        self.waiting.add(request)

    def admit(self) -> list[int]:
        """Return the requests that are to be sent to the engine now; they are inside then."""
        if self.most is not None and self.inside:
            return []
        admitted = sorted(self.waiting)
        if self.most is not None:
            suspects = [request for request in admitted if self.crashes.get(request, 0) >= SUSPECT]
            if suspects:
                admitted = suspects[: self.most]
            else:
                self.most = None
        self.waiting.difference_update(admitted)
        self.inside.update(dict.fromkeys(admitted, False))
        return admitted

    def finished(self, request: int) -> None:
        """Record that an image of a request is finished: this request does not kill the engine."""
        self.inside[request] = True

    def end(self, request: int, cancelled: bool = False) -> bool:
        """Remove a request that has ended or was cancelled; return whether it was inside."""
        self.waiting.discard(request)
        self.crashes.pop(request, None)
        was_inside = self.inside.pop(request, None) is not None
        self.has_cancelled |= cancelled and was_inside
        return was_inside

    def died(self) -> Verdict:
        """Let all requests inside wait again after the engine's death, except
        for the culprit, which is removed.
        """
        inside = self.inside
        has_cancelled = self.has_cancelled
        self.inside = {}
        self.has_cancelled = False
        for request, finished in inside.items():
            self.crashes[request] = 1 if finished else self.crashes.get(request, 0) + 1
        self.waiting.update(inside)
        suspects = [request for request in inside if self.crashes[request] >= SUSPECT]
        if not suspects:
            return Verdict()
        if len(inside) == 1 and not has_cancelled:
            self.end(suspects[0])
            self.crashes.clear()
            self.most = None
            return Verdict(suspects[0])
        before = self.most
        self.most = max(1, len(suspects) // 2)
        return Verdict(narrowed=before is None or self.most < before)
