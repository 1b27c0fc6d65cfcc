"""A request to paint in an engine, and what knows the kinds of its images."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scanline.model.base.config import ModelConfig
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.sampling.kinds.coded import Coded
from scanline.model.sampling.kinds.kind import Kind


@dataclass
class ActiveRequest:
    """A GenerateRequest of which not all images have been sent."""

    request: GenerateRequest
    kind_of: Callable[[int], Kind]  # of each image
    first: Sequence[int]  # the images that can be painted at first
    left: int  # images that have not been sent
    accepted: float = field(default_factory=time.monotonic)
    is_scheduled: bool = False  # its first image has had a slot

    @classmethod
    def of(cls, request: GenerateRequest, config: ModelConfig) -> "ActiveRequest":
        """Return a request that has just been accepted."""
        left = len(request.indices)
        if request.codes is None:
            return cls(request, request.kind_of, request.indices, left)
        coded = Coded(request.codes, request.indices, config)
        return cls(request, lambda index: coded, coded.first, left)
