"""Predictions made before anything had run on a GPU, and their comparison with what a run has measured.

They are of the code as it was at commit f14d6f9, for an H200 unless said otherwise, by reading the code and what the
compiler made of it; `then` is what the changes made since should reach, where a figure was given. None is measured.
Those of resampling are of the commit that added it: the bytes that copies read and write over the copy's rate of 4.0 to
4.4 TB/s (an H100's 2.8 to 3.1), of which programs of 16 KB reach 0.85 to 0.93 as the recurrent step does, and 20 us for
programs that find nothing to copy. A slot of the paper's MNIST model is 271,128 bytes, 140,056 with 16-bit states.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.gpu.results import Finding


@dataclass(frozen=True)
class Prediction:
    """A range for one finding."""

    finding: str
    what: str
    least: float
    most: float
    unit: str
    then: str = ""  # what the changes made since were predicted to reach
    h100: tuple[float, float] | None = None  # the range for an H100, where one was given

    def range_for(self, gpu: str) -> tuple[float, float]:
        return self.h100 if self.h100 is not None and "H100" in gpu else (self.least, self.most)


MNIST, SIXTEEN_BITS, COPIES = "rates/mnist/float32", "rates/mnist/bfloat16", "resampling/mnist/float32/4096"
PREDICTIONS = (
    Prediction("ceilings/copy", "copy, read + written", 4.0, 4.4, "TB/s", h100=(2.8, 3.1)),
    Prediction("ceilings/launch/chained", "launch after launch, chained", 0.9, 1.5, "us"),
    Prediction("kernels/step/float32/4096/of_copy", "recurrent step, of the copy", 0.85, 0.93, ""),
    Prediction("kernels/step/float32/4096", "recurrent step of a layer, 4,096", 68, 76, "us"),
    Prediction(f"{MNIST}/4096/step", "paper's MNIST, 4,096: a step", 820, 1010, "us", "750", (1200, 1330)),
    Prediction(f"{MNIST}/4096/images_per_second", "4,096 in flight", 4600, 6400, "images/s", "6,600", (3900, 4300)),
    Prediction(f"{MNIST}/10000/images_per_second", "10,000 in flight", 4600, 5600, "images/s"),
    Prediction(f"{MNIST}/1024/images_per_second", "1,024 in flight", 3100, 3900, "images/s"),
    Prediction(f"{MNIST}/64/images_per_second", "64 in flight", 350, 450, "images/s"),
    Prediction(f"{SIXTEEN_BITS}/4096/images_per_second", "4,096, 16-bit states", 6500, 7900, "images/s", "11,000"),
    Prediction("rates/cifar10/float32/4096/images_per_second", "paper's CIFAR-10, 4,096", 580, 720, "images/s"),
    Prediction("rates/cifar10/bfloat16/4096/images_per_second", "the same, 16-bit states", 850, 1050, "images/s"),
    Prediction("one_image/mnist", "one MNIST image", 110, 180, "ms", "85 to 95; 30 wanted"),
    Prediction("one_image/mnist/step", "a byte of it", 140, 230, "us"),
    Prediction("one_image/cifar10", "one CIFAR-10 image", 1000, 1400, "ms"),
    Prediction("engine/mnist/4096/served", "through the engine, 4,096", 3000, 3700, "images/s", "0.95 of offline"),
    Prediction("engine/mnist/4096/served_of_offline", "served / offline", 0.58, 0.68, "", "0.95 and more"),
    Prediction("reading/mnist/prefill", "half of one MNIST image read", 2.5, 4.0, "ms"),
    Prediction("reading/cifar10/prefill", "half of one CIFAR-10 image read", 6.0, 10.0, "ms"),
    Prediction("reading/mnist/completions", "completions of different pictures", 120, 200, "images/s", "more"),
    Prediction(f"{COPIES}/copies_50%", "half of 4,096 slots copied", 290, 350, "us", h100=(400, 490)),
    Prediction(f"{COPIES}/copies_50%/of_copy", "the same, of the copy", 0.76, 0.9, ""),
    Prediction(f"{COPIES}/copies_50%/of_step", "the same, of a step", 0.29, 0.43, "", h100=(0.3, 0.41)),
    Prediction(f"{COPIES}/copies_0%", "no slot copied", 25, 70, "us"),
    Prediction(f"{COPIES}/resample", "all resampled, from call to end", 750, 1250, "us", h100=(950, 1600)),
    Prediction(f"{COPIES}/resample/of_row", "share of a row of pixels", 0.025, 0.05, ""),
    Prediction("resampling/mnist/bfloat16/4096/copies_50%", "half, 16-bit states", 150, 195, "us", h100=(205, 265)),
    Prediction("kernels/product_error/1024/ours", "error of a product, of sum |x| |w|", 0.0, 8e-6, ""),
    Prediction("states/mnist-small/bfloat16/more", "16-bit states, mnist-small", -5e-3, 5e-3, "bits/dim"),
    Prediction("states/cifar10-small/bfloat16/more", "16-bit states, cifar10-small", -5e-3, 5e-3, "bits/dim"),
)


def compare(findings: Iterable[Finding], gpu: str) -> list[dict[str, Any]]:
    """Return each prediction with what was measured and whether it was right."""
    by_name = {finding.name: finding for finding in findings}
    compared = []
    for prediction in PREDICTIONS:
        least, most = prediction.range_for(gpu)
        finding = by_name.get(prediction.finding)
        measured = None if finding is None else finding.value
        row = {name: getattr(prediction, name) for name in ("what", "finding", "unit", "then")}
        row |= {"least": least, "most": most, "measured": measured}
        compared.append({**row, "verdict": verdict(measured, least, most, finding)})
    return compared


def verdict(measured: float | None, least: float, most: float, finding: Finding | None) -> str:
    """Return how a measured value lies to the predicted range."""
    if finding is None:
        return "not measured"
    if measured is None:
        return finding.note
    if least <= measured <= most:
        return "as predicted"
    nearest = least if measured < least else most
    if nearest <= 0 or measured <= 0:
        return "outside"
    return f"{measured / nearest:.2f} x the {'lower' if measured < least else 'upper'} end"


def table(compared: list[dict[str, Any]]) -> Table:
    """Return the comparison as a table."""
    title = "predicted before any run, for an H200 and commit f14d6f9, and measured here"
    shown = Table(title=title, title_style="", box=SIMPLE_HEAD)
    shown.add_column("what")
    for column in ("predicted", "measured", "unit"):
        shown.add_column(column, justify="right")
    shown.add_column("verdict")
    shown.add_column("then")
    for row in compared:
        measured = "-" if row["measured"] is None else f"{row['measured']:,.4g}"
        predicted = f"{row['least']:,.4g} to {row['most']:,.4g}"
        shown.add_row(row["what"], predicted, measured, row["unit"], row["verdict"], row["then"])
    return shown
