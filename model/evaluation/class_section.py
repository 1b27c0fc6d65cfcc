"""The part of the report on classes: samples of each, the confusion matrices as pictures, and a table of guidance."""

from html import escape
from io import BytesIO
from typing import Any

import numpy as np

from scanline.model.config import ModelConfig
from scanline.model.evaluation.classes import ClassMeasurements
from scanline.model.evaluation.figures import INK, SAMPLES, TESTS, data_url, grid_picture, picture
from scanline.model.evaluation.metrics import sure_share

WHITE_FROM = 0.6  # share of a row from which a cell is so dark that its number is white


def class_section(config: ModelConfig, evaluation: dict[str, Any], found: ClassMeasurements) -> str:
    """Return the section, HTML; `evaluation` is what evaluation.json holds, with "classes"."""
    # What was measured decides which paragraphs there are: each part may be missing from an evaluation.
    numbers = evaluation["classes"]
    true = numbers["true_class"]
    parts = [
        "\n<h2>Classes asked for</h2>\n<p>The model knows these classes and also paints and scores without one."
        f" Test images cost {true['bits_per_dim']:.4f} bits/dim with their true class, and"
        f" {evaluation['bits_per_dim']:.4f} without.</p>"
    ]
    if drawn := numbers.get("any_class"):
        parts.append(
            f"<p>Where the class is drawn, every class equally likely, the first {drawn['images']:,} test images cost"
            f" {drawn['bits_per_dim']:.4f} ± {drawn['standard_error'] or 0:.4f} bits/dim.</p>"
        )
    names = ", ".join(map(escape, found.names))
    # How well the class asked for is painted: judged by another network, whose own accuracy stands beside it.
    if found.samples is not None:
        shown, samples = found.samples.shown, numbers["samples"]
        sheet = picture(grid_picture(shown.reshape(-1, config.bytes), shown.shape[1], config))
        plot = confusion_plot(found.samples.confusion, found.names, "class asked for", "class that it sees", SAMPLES)
        parts += [
            _figure("sheet", sheet, "Samples of each class", f"The first samples of each class, row by row: {names}."),
            f"<p>This report's classifier gives {samples['as_asked']:.1%} of {samples['each']:,} samples of each class"
            f" the class asked for; of the test images it classifies"
            f" {evaluation['quality']['classifier']['test_accuracy']:.1%} correctly.</p>",
            _figure("plot", f'src="{data_url(plot)}"', "Confusion matrix of samples", "Samples: % of each row."),
        ]
    # How well the model tells classes apart: by its own likelihoods.
    if found.by_bits is not None:
        right = numbers["classification"]
        plot = confusion_plot(found.by_bits.confusion, found.names, "the image's class", "the model's class", TESTS)
        parts += [
            "<p>The model itself is a classifier: a test image has the class with which it"
            f"{' and its mirror image' if config.mirrored else ''} costs the fewest bits. That"
            f" is right for {right['accuracy']:.2%} ± {right['standard_error']:.2%} of {right['images']:,} test images,"
            f" at {right['readings'] // right['images']} readings an image{sure_share(right)}.</p>",
            _figure(
                "plot", f'src="{data_url(plot)}"', "Confusion matrix of test images", "Test images: % of each row."
            ),
        ]
    # And by the head that was trained for it, from one reading.
    if head := numbers.get("by_head"):
        parts.append(
            f"<p>Read by its class head, {head['accuracy']:.2%} ± {head['standard_error']:.2%} of"
            f" {head['images']:,} test images are right, at one reading an image{sure_share(head)}.</p>"
        )
    if "guidance" in evaluation:
        parts.append(_guidance(config, evaluation["guidance"], found))
    return "\n".join(parts)


def _guidance(config: ModelConfig, numbers: dict[str, Any], measured: ClassMeasurements) -> str:
    """Return the table of samples by guidance, and the first samples of each class with each weight above 1."""
    rows = [(f"guidance {row['guidance']:g}", row) for row in numbers["rows"]]
    rows.append(("test images", numbers["test_images"]))
    table = [
        f"<tr><th>{name}<td>{row['recognisable']:.1%}<td>{row['as_asked']:.1%}<td>{row['frechet_distance']:.2f}"
        f"<td>{row['within_class_distance']:.2f}<td>{row['within_class_distance_as_asked']:.2f}"
        for name, row in rows
    ]
    parts = [
        "<h2>Guidance</h2>\n<p>With guidance w, every byte is drawn from the logits u + w (c - u) of those with the"
        f" class, c, and without, u; 1 is the model itself. A row is of {numbers['each']:,} samples of each class, the"
        " last one of test images. Samples of little variety are easily recognised: read the shares together with the"
        " distance within classes, the mean distance of the features of this classifier from the mean of their class."
        " Images that it takes for another class than the one asked for raise it; the last column is without them."
        f" Distances, the Fréchet distance being that to {numbers['against']:,} test images, are those of"
        f" {numbers['compared']:,} samples, or of as many other test images of the same classes.</p>",
        "<table>\n<thead><tr><th><th>recognisable<th>of the class asked for<th>Fréchet distance"
        "<th>distance within classes<th>of those seen as asked for</thead>\n<tbody>",
        *table,
        "</tbody>\n</table>",
    ]
    for samples in measured.guided:
        sheet = picture(grid_picture(samples.shown.reshape(-1, config.bytes), samples.shown.shape[1], config))
        name = f"Samples of each class, guidance {samples.guidance:g}"
        parts.append(_figure("sheet", sheet, name, f"{name}."))
    return "\n".join(parts)


def _figure(kind: str, source: str, alternative: str, caption: str) -> str:
    return f'<figure><img class="{kind}" {source}\nalt="{alternative}">\n<figcaption>{caption}</figcaption></figure>'


def confusion_plot(counts: np.ndarray, names: tuple[str, ...], row: str, column: str, colour: str) -> bytes:
    """Return a confusion matrix [K, K] of counts as a PNG: each cell is the share of its row, in per cent."""
    from matplotlib.colors import LinearSegmentedColormap  # the `train` extra
    from matplotlib.figure import Figure

    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(shares, LinearSegmentedColormap.from_list("share", [f"{colour}00", colour]), vmin=0, vmax=1)
    for (i, j), share in np.ndenumerate(shares):
        if counts[i, j]:
            ink = "white" if share >= WHITE_FROM else INK
            axes.text(j, i, f"{100 * share:.1f}", ha="center", va="center", color=ink, fontsize=8)
    places = np.arange(len(names))
    axes.set_xticks(places, names, rotation=0 if max(map(len, names)) == 1 else 35)
    axes.set_yticks(places, names)
    axes.set_xlabel(column, color=INK)
    axes.set_ylabel(row, color=INK)
    axes.tick_params(colors=INK, length=0)
    axes.spines[:].set_visible(False)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=140, transparent=True)
    return out.getvalue()
