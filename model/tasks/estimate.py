"""The likelihood of the known pixels of images, whatever the hidden ones show: from completions of
each.

The hidden bytes are painted `repeats` times at temperature 1; 2^-evidence_bits of each painting is
an unbiased estimate of the probability of the known ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scanline.model.base.class_names import ClassNames, label_of_class
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import checked_seed
from scanline.model.base.sampling_options import EstimateOptions
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.likelihood import marginal_likelihood
from scanline.model.likelihood.marginal_likelihood import (
    Estimate,
    check_known,
    check_repeats,
    estimate,
)
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.paint import PaintedImages, PaintTask


@dataclass(frozen=True)
class EstimateValues:
    """What a user says of partly known images, besides these."""

    pictures: int = 1
    repeats: int = marginal_likelihood.DEFAULT_REPEATS
    seed: int | None = None
    class_name: ClassNames | None = None
    sampling: EstimateOptions = field(default_factory=EstimateOptions)
    known_by: str = "mask"  # the parameter that says what is known


@dataclass(frozen=True, kw_only=True)
class Estimates(PaintedImages):
    """The completions, and the estimate of each image."""

    estimates: tuple[Estimate, ...]


class EstimateTask(PaintTask):
    """Completions of images, as many of each."""

    def __init__(self, request: GenerateRequest, config: ModelConfig, known_by: str) -> None:
        """known_by: the parameter that says what is known."""
        super().__init__(request, config)
        self.known_by = known_by

    def fill(self, known: Sequence[bytes], masks: Sequence[bytes]) -> None:
        """See PaintTask.fill; InvalidInput where nothing is known."""
        check_known(masks[0].count(1), self.known_by)
        super().fill(known, masks)

    def result(self) -> Estimates:
        """Return the completions, and the estimate of each image from all of its own."""
        masks = self.request.masks
        bits = self.evidence["evidence_bits"].reshape(len(masks), -1)
        estimates = [estimate(bits[row], mask.count(1)) for row, mask in enumerate(masks)]
        return Estimates(**vars(super().result()), estimates=tuple(estimates))


def plan(model: ModelInfo, values: EstimateValues) -> EstimateTask:
    """Return the task that estimates the likelihoods; InvalidInput where a value is out of its
    range."""
    n = values.pictures * check_repeats(values.repeats)
    label = label_of_class(model.config, values.class_name)
    sampling = model.defaults.to_estimate(label, values.sampling)
    request = GenerateRequest(0, n, checked_seed(values.seed), **vars(sampling))
    return EstimateTask(request, model.config, values.known_by)
