"""What a run of the benchmark is asked for, checked before any work."""

from dataclasses import dataclass

from scanline.model.precision import DEFAULT, precision

PARTS = ("latency", "bulk", "reading", "position", "authors", "softmax")


@dataclass(frozen=True)
class Plan:
    """What to measure, and how long; ValueError with a sentence for what cannot be."""

    batches: tuple[int, ...] = (1, 4, 16, 64, 256)
    seconds: float = 3.0  # for each number of each program
    skip: tuple[str, ...] = ()  # of PARTS
    precision: str = DEFAULT  # of our own generator

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1:
            raise ValueError(f"a batch has at least one image, not {min(self.batches, default=0)}")
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"a measurement takes more than 0 seconds, not {self.seconds}")
        if unknown := [part for part in self.skip if part not in PARTS]:
            raise ValueError(f"there is no part {unknown[0]!r} to skip; there are {', '.join(PARTS)}")
        precision(self.precision)

    def does(self, part: str) -> bool:
        return part not in self.skip

    @property
    def stages(self) -> int:
        """How often a run says what it does next."""
        return 2 + len(self.batches) * self.does("bulk") + sum(map(self.does, ("latency", "reading", "position")))
