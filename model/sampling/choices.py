"""Images whose candidates are complete: the class head reads these, in turns with the images that
are to be scored, and chooses the one that it likes best for the image's class.
"""

from dataclasses import dataclass, field

import numpy as np

from scanline.model.sampling.base.messages import Finished
from scanline.model.sampling.base.prefill_state import Reading
from scanline.model.sampling.prefill.classified import ClassifiedPrefill
from scanline.model.sampling.prefill.queue import PrefillQueue
from scanline.model.sampling.prefill.request import PrefillRequest

CLASSIFIED = Reading(ClassifiedPrefill)


@dataclass
class Choice:
    """The candidates of an image, and how well the class head likes those that it has read."""

    candidates: list[Finished] = field(default_factory=list)
    liking: dict[int, float] = field(
        default_factory=dict
    )  # by candidate: the log-odds of its class


class Choices:
    """Invariant: every candidate that has no liking is in the prefill queue."""

    def __init__(self, prefills: PrefillQueue) -> None:
        self.prefills = prefills
        self.waiting: dict[tuple[int, int], Choice] = {}  # by request and index of the image

    def add(self, candidate: Finished, client: str) -> None:
        """Queue the reading of one more candidate; all those of an image come before any is read."""
        image = candidate.request, candidate.index
        candidates = self.waiting.setdefault(image, Choice()).candidates
        # no bytes are prefilled, which would only cost time: their bits are known
        read = PrefillRequest(
            *image,
            candidate.image,
            stop=0,
            is_score=False,
            reading=CLASSIFIED,
            candidate=len(candidates),
        )
        candidates.append(candidate)
        self.prefills.add(candidate.request, client, [read])

    def put(self, read: PrefillRequest, logits: np.ndarray) -> Finished | None:
        """Take the logits [K] float32 of a candidate; return the candidate that is chosen, once all
        have been read."""
        assert read.candidate is not None
        image = read.request, read.index
        choice = self.waiting[image]
        chosen = choice.candidates[read.candidate].label - 1
        others = np.delete(logits, chosen).astype(np.float64)
        # log-odds: probabilities near 1 would be equal
        choice.liking[read.candidate] = logits[chosen] - np.logaddexp.reduce(others)
        if len(choice.liking) < len(choice.candidates):
            return None
        del self.waiting[image]
        # of equal ones the first
        best = max(choice.liking, key=lambda number: (choice.liking[number], -number))
        return choice.candidates[best]

    def drop(self, request: int) -> None:
        """Forget the images of a request."""
        self.waiting = {
            image: choice for image, choice in self.waiting.items() if image[0] != request
        }
