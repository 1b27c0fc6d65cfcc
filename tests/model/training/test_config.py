"""A recipe that is wrong is refused with one sentence that names the field."""

import re
from typing import Any

import pytest

from scanline.model.training import TrainingConfig

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no updates": ({"updates": 0}, "updates must be at least 1, not 0"),
    "no minutes": ({"minutes": 0.0}, "minutes must be above 0, not 0.0"),
    "no checkpoints": ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, not 0"),
    "no samples": ({"sample_images": -1}, "sample_images must be at least 1, not -1"),
    "no rate": ({"learning_rate": 0.0}, "learning_rate and clip must be above 0"),
    "negative clip": ({"clip": -1.0}, "learning_rate and clip must be above 0"),
    "no decay": ({"decay": 0.0}, "average, decay and second_moment must be shares of 1"),
    "negative warm-up": ({"warm_up": -1}, "warm_up, weight_decay and seed cannot be negative"),
    "negative seed": ({"seed": -1}, "warm_up, weight_decay and seed cannot be negative"),
    "every label left out": ({"unlabelled": 1.0}, "unlabelled must be above 0 and below 1, not 1.0"),
    "negative contrast": ({"contrast": -1.0}, "contrast must be at least 0, not -1.0"),
    "contrast in a small batch": ({"contrast": 1.0, "batch": 3}, "contrast needs a batch of at least 4 images, not 3"),
    "more than all drawn again": ({"redrawn": 1.5}, "redrawn must be a share from 0 to 1, not 1.5"),
    "optimiser": ({"optimiser": "sgd"}, "optimiser must be one of adamw, muon, radam, not 'sgd'"),
    "schedule": ({"schedule": "linear"}, "schedule must be one of cosine, trapezoid, constant, not 'linear'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_field(case: str) -> None:
    changes, sentence = WRONG[case]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        TrainingConfig(**{"updates": 10, **changes})
