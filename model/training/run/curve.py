"""The loss curve of a run: loss.csv and loss.png in the model directory."""

import csv
from dataclasses import asdict, dataclass, fields
from io import BytesIO, StringIO
from pathlib import Path

from scanline.model.base.atomic import write_file
from scanline.model.base.named_files import read_file
from scanline.model.training.run.state import ResumeError


@dataclass(frozen=True)
class Row:
    """One point of the curve: means over the updates since the previous row."""

    update: int
    bits_per_dim: float
    learning_rate: float
    gradient_norm: float
    seconds: float  # of training, over all resumed runs
    test_bits_per_dim: float | None = None  # measured at checkpoints only


class Curve:
    """The rows of a run in order. A run that resumes at update `until` drops the rows beyond it and
    repeats them."""

    def __init__(self, directory: Path, until: int = 0) -> None:
        self.directory = directory
        self.rows: list[Row] = []
        if until:
            self.rows = [row for row in _read(directory / "loss.csv") if row.update <= until]

    def save(self) -> None:
        """Write both files, atomically."""
        write_file(self.directory / "loss.csv", self._table())
        write_file(self.directory / "loss.png", self._picture())

    def _table(self) -> str:
        out = StringIO()
        writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return out.getvalue()

    def _picture(self) -> bytes:
        from matplotlib.figure import Figure  # the `train` extra; nothing else needs it
        from matplotlib.ticker import FormatStrFormatter

        figure = Figure(figsize=(7, 4))
        # margins that fit the text would draw all twice
        axes = figure.add_axes((0.11, 0.13, 0.87, 0.84))
        updates = [row.update for row in self.rows]
        axes.plot(updates, [row.bits_per_dim for row in self.rows], lw=1, label="training")
        tested = [row for row in self.rows if row.test_bits_per_dim is not None]
        updates = [row.update for row in tested]
        bits = [row.test_bits_per_dim or 0.0 for row in tested]
        axes.plot(updates, bits, "o-", ms=3, label="test")
        axes.set(xlabel="updates", ylabel="bits/dim", yscale="log")
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_minor_formatter(FormatStrFormatter("%g"))  # 3.4, not 3.4 x 10^0
        axes.grid(alpha=0.3, which="both")
        axes.legend()
        out = BytesIO()
        figure.savefig(out, format="png", dpi=120)
        return out.getvalue()


def _read(path: Path) -> list[Row]:
    """Return the rows of loss.csv; ResumeError where it is none."""
    if not path.exists():
        return []
    try:
        lines = csv.DictReader(StringIO(read_file(path).decode(), newline=""))
        return [_row(line) for line in lines]
    except (OSError, ValueError, TypeError, LookupError, csv.Error):
        raise ResumeError(f"{path} is not the curve of a run") from None


def _row(line: dict[str, str]) -> Row:
    tested = line["test_bits_per_dim"]
    return Row(
        int(line["update"]),
        float(line["bits_per_dim"]),
        float(line["learning_rate"]),
        float(line["gradient_norm"]),
        float(line["seconds"]),
        float(tested) if tested else None,
    )
