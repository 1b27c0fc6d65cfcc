"""What an engine prefills: the first bytes of one image, and what is computed of them."""

from dataclasses import dataclass

from scanline.model.sampling.base.messages import ScoreRequest
from scanline.model.sampling.base.prefill_state import PrefillState, Reading
from scanline.model.sampling.prefill.classified import ClassifiedReading
from scanline.model.sampling.prefill.coded import CodedReading
from scanline.model.sampling.prefill.inspected import InspectedReading

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

    @classmethod
    def of_score(cls, request: ScoreRequest, index: int, length: int) -> "PrefillRequest":
        """Return what scores image `index`, of `length` bytes, of a request."""
        label = request.label_of(index)
        tolerance = request.tolerance_of(index)
        reading = Reading(tolerance > 0)
        if request.inspected is not None:
            reading = InspectedReading(tolerance > 0, steps=request.inspected)
        elif request.coded:
            reading = CodedReading(tolerance > 0)
        elif request.classified and not label:
            reading = ClassifiedReading(tolerance > 0)
        image = request.images[index]
        stop = reading.stop(length)
        return cls(request.id, index, image, stop, True, label, tolerance, reading)


@dataclass(frozen=True)
class EndedPrefill:
    """A prefill that has ended: image `row` of `state`, None where it failed."""

    prefill: PrefillRequest
    state: PrefillState | None
    row: int = 0
