"""What an engine prefills: the first bytes of one image, and what is computed of them."""

from dataclasses import dataclass

from scanline.model.sampling.base.messages import ScoreRequest
from scanline.model.sampling.base.prefill_state import PrefillState, Reading
from scanline.model.sampling.prefill.classified import ClassifiedPrefill
from scanline.model.sampling.prefill.coded import CodedPrefill
from scanline.model.sampling.prefill.inspected import InspectedPrefill

BITS = Reading()


@dataclass(frozen=True, slots=True)
class PrefillRequest:
    """The first bytes of an image that are to be prefilled: all of them to score it."""

    request: int
    index: int  # of the image in its request
    image: bytes
    stop: int  # bytes
    is_score: bool
    label: int = 0  # of the image's class, as in ImageSpec
    tolerance: int = 0  # of the image, as in PrefillBatch
    reading: Reading = BITS
    candidate: int | None = None  # of a complete image, that the class head reads (choices.py)

    @classmethod
    def of_score(cls, request: ScoreRequest, index: int, length: int) -> "PrefillRequest":
        """Return what scores image `index`, of `length` bytes, of a request."""
        label = request.label_of(index)
        tolerance = request.tolerance_of(index)
        run = PrefillState
        if request.inspected is not None:
            run = InspectedPrefill
            length = request.inspected.stop
        elif request.coded:
            run = CodedPrefill
        elif request.classified and not label:
            run = ClassifiedPrefill
        reading = Reading(run, tolerance > 0, request.inspected)
        image = request.images[index]
        return cls(request.id, index, image, length, True, label, tolerance, reading)


@dataclass(frozen=True)
class EndedPrefill:
    """A prefill that has ended: image `row` of `state`, None where it failed."""

    prefill: PrefillRequest
    state: PrefillState | None
    row: int = 0
