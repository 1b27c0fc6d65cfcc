"""TrainingConfig: the recipe of a run. Two runs of one recipe on the
same CPU end in the same weights.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

COUNTS = (
    "updates",
    "batch",
    "branches",
    "branch_updates",
    "checkpoint_every",
    "evaluate_images",
    "sample_images",
)
# options of earlier versions, which a saved recipe may have; 0: not used
FORMER = ("redrawn", "contrast")
COMPILED_MINUTES = {"cpu": 10.0, "cuda": 3.0}  # of a run in which compiling pays off


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe of a run; the defaults are what the presets have in
    common. ValueError for a wrong value.
    """

    updates: int
    # the run also ends after these; its schedule then follows the clock (clock.py)
    minutes: float | None = None
    batch: int = 8
    optimiser: Literal["adamw", "muon", "radam"] = "muon"
    # of the matrices of blocks and layers; that of the rest is a share of it
    learning_rate: float = 5e-3
    second_moment: float = 0.99  # beta_2 of AdamW and RAdam
    weight_decay: float = 0.01  # on matrices only
    warm_up: int = 100  # updates
    schedule: Literal["cosine", "trapezoid", "constant"] = "trapezoid"
    decay: float = 1.0  # share of the run in which a trapezoid falls to zero, at its end
    clip: float = 1.0  # gradient norm of the head, and of all else
    average: float = 0.99  # of the exponential moving average of the weights
    flip: bool = False  # mirror half of the images
    # share of the positions without paint nearby that an update computes (positions.py)
    background: float = 1.0
    # share of the images whose label is left out, where the model learns classes
    unlabelled: float = 0.5
    branches: int = 1  # processes that each train weights of their own (local_sgd.py)
    branch_updates: int = 1000  # of each branch between two averages
    seed: int = 0
    checkpoint_every: int = 1000  # updates
    evaluate_images: int = 200  # of the test set, at each checkpoint
    sample_images: int = 64  # on the sheet, at each checkpoint

    def __post_init__(self) -> None:
        for name, words in get_type_hints(TrainingConfig).items():
            if get_origin(words) is Literal and getattr(self, name) not in get_args(words):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(words))}, not {getattr(self, name)!r}"
                )
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise ValueError(f"minutes must be above 0, not {self.minutes}")
        if not self.learning_rate > 0 or not self.clip > 0:
            raise ValueError("learning_rate and clip must be above 0")
        if not 0 <= self.average < 1 or not 0 < self.decay <= 1 or not 0 < self.second_moment < 1:
            raise ValueError("average, decay and second_moment must be shares of 1")
        if not 0 < self.background <= 1:
            raise ValueError(f"background must be above 0 and at most 1, not {self.background}")
        if not 0 < self.unlabelled < 1:
            raise ValueError(f"unlabelled must be above 0 and below 1, not {self.unlabelled}")
        if self.warm_up < 0 or self.weight_decay < 0 or self.seed < 0:
            raise ValueError("warm_up, weight_decay and seed cannot be negative")

    @property
    def has_plateau(self) -> bool:
        """Whether the rate stays at its highest for a part of the run before it falls."""
        return self.schedule == "trapezoid" and self.decay < 1

    @classmethod
    def from_saved(cls, saved: dict[str, Any]) -> "TrainingConfig":
        """Return a recipe that this version or an earlier one saved,
        without what only earlier ones had.
        """
        return cls(**{name: value for name, value in saved.items() if name not in FORMER})


def former_options(saved: dict[str, Any]) -> str:
    """Return what only earlier versions had and a saved recipe used,
    as "contrast 6.0"; empty where it used nothing.
    """
    return " and ".join(f"{name} {saved[name]}" for name in FORMER if saved.get(name))
