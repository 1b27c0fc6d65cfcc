"""TrainingConfig: the recipe of a run, with the help of the options of `scanline train` that
change it. Two runs of one recipe on the same CPU end in the same weights."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

# options of earlier versions, which a saved recipe may have; 0: not used
FORMER = ("redrawn", "contrast")
COMPILED_MINUTES = {"cpu": 10.0, "cuda": 3.0}  # of a run in which compiling pays off


def _option(help: str, default: Any = MISSING, **about: Any) -> Any:
    """Return a field that an option of `scanline train` sets.

    about: what typer calls show_default, where the default depends on the run, and min.
    """
    return field(default=default, metadata={"help": help, "show_default": str(default), **about})


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe of a run; the defaults are what the presets have in common. ValueError for a wrong
    value."""

    updates: int = _option("Length of the run in updates instead.", show_default=False, min=1)
    # the run also ends after these; its schedule then follows the clock (clock.py)
    minutes: float | None = _option(
        "Length of the run; the model is sized for it.", None, show_default="20 without a preset"
    )
    batch: int = _option(
        "Images per update.", 8, show_default="on a GPU, with --minutes, measured", min=1
    )
    optimiser: Literal["adamw", "muon"] = _option("adamw or muon.", "muon")
    # of the matrices of blocks and layers; that of the rest is a share of it
    learning_rate: float = _option(
        "Peak learning rate.", 5e-3, show_default="0.005, or 0.4 times that from trained weights"
    )
    second_moment: float = 0.99  # beta_2 of AdamW
    weight_decay: float = _option("Of the matrices, decoupled.", 0.01, min=0)
    warm_up: int = field(default=100, metadata={"min": 0})  # updates
    schedule: Literal["trapezoid", "constant"] = _option(
        "trapezoid or constant; with --minutes by the clock.", "trapezoid"
    )
    decay: float = _option(
        "Share of the run, at its end, in which the rate falls to zero. Below 1, the weights before"
        " that are kept in OUT/plateau, from which a next run goes on (--from).",
        1.0,
        show_default="1, or 0.4 on a GPU with time for 2,000 updates",
    )
    clip: float = 1.0  # gradient norm of the head, and of all else
    average: float = _option(
        "Decay of the weights' moving average, which is saved; 0.999 for long runs.",
        0.99,
        show_default="0.99, or the preset's",
    )
    flip: bool = _option(
        "Mirror half of the training images, at random.", False, show_default=False
    )
    # share of the positions without paint nearby that an update computes (positions.py)
    background: float = 1.0
    # where the model learns classes
    unlabelled: float = _option(
        "Fraction of labels dropped at each update, so that the model also learns images without a"
        " class.",
        0.5,
    )
    classes_only: bool = _option(
        "Train only the vectors and biases of the classes; all other weights stay those of --from.",
        False,
        show_default=False,
    )
    # local_sgd.py
    branches: int = _option(
        "Processes that each train weights of their own on a CPU (local SGD).", 1, min=1
    )
    branch_updates: int = _option(
        "Updates after which the branches' weights are averaged.", 1000, min=1
    )
    seed: int = _option("Random seed of the run.", 0, min=0)
    checkpoint_every: int = _option(
        "Updates between checkpoints; a run of minutes saves every two minutes.",
        1000,
        show_default="an eighth of the updates, or the preset's",
        min=1,
    )
    # at each checkpoint: of the test set, on the sheet
    evaluate_images: int = field(default=200, metadata={"min": 1})
    sample_images: int = field(default=64, metadata={"min": 1})

    def __post_init__(self) -> None:
        for name, words in get_type_hints(TrainingConfig).items():
            value = getattr(self, name)
            if get_origin(words) is Literal and value not in get_args(words):
                known = ", ".join(get_args(words))
                raise ValueError(f"{name} must be one of {known}, not {value!r}")
        for option in fields(self):
            value = getattr(self, option.name)
            least = option.metadata.get("min")
            if least is not None and value < least:
                raise ValueError(f"{option.name} must be at least {least}, not {value}")
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

    @property
    def has_plateau(self) -> bool:
        """Whether the rate stays at its highest for a part of the run before it falls."""
        return self.schedule == "trapezoid" and self.decay < 1

    @classmethod
    def from_saved(cls, saved: dict[str, Any]) -> "TrainingConfig":
        """Return a recipe that this version or an earlier one saved, without what only earlier ones
        had."""
        return cls(**{name: value for name, value in saved.items() if name not in FORMER})


def former_options(saved: dict[str, Any]) -> str:
    """Return what only earlier versions had and a saved recipe used, as "contrast 6.0"; empty where
    it used nothing."""
    return " and ".join(f"{name} {saved[name]}" for name in FORMER if saved.get(name))
