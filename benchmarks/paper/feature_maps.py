"""Feature maps of linear attention, compared on the copy task and on MNIST: loss, time of an update, bytes of state.

Networks, recipes and first weights of all maps are one; a map that widens keys has a larger state and slower attention,
but no more weights. The copy task is that of copy_task.py with fewer updates, MNIST the equal-work recipe of
equal_work.py. Each training is one point of the results.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.paper import copy_task
from benchmarks.paper.attentions import linear_of
from benchmarks.paper.equal_work import new_updater, recipe, tested, updates_of
from benchmarks.paper.maps import MAPS, features
from benchmarks.paper.markdown import number, plot, table
from benchmarks.paper.results import Results
from scanline.model import datasets

COPY = replace(copy_task.FULL, updates=1800, drop=1500)
MNIST_UPDATES, QUICK_MNIST_UPDATES = 300, 2
TEST_IMAGES, QUICK_TEST_IMAGES = 64, 2
KEPT = 15  # losses of a training on MNIST
SEED = 0


def run(results: Results, quick: bool) -> None:
    """Train with each map on both tasks; without MNIST on the first alone."""
    task = copy_task.QUICK if quick else COPY
    for name, phi in MAPS.items():
        attend = linear_of(phi)
        results.measure(f"copy/{name}", lambda attend=attend: copy_task.train(task, attend, SEED))
    try:
        train, test = (datasets.load("mnist", results.data / "mnist", split) for split in ("train", "test"))
    except datasets.DataError as error:
        print(f"{results.part}: {error}")
        return
    test = test[: QUICK_TEST_IMAGES if quick else TEST_IMAGES].copy()  # the file itself is read-only
    for name in MAPS:
        results.measure(f"mnist/{name}", lambda name=name: train_mnist(name, train, test, quick))


def train_mnist(name: str, train: np.ndarray, test: np.ndarray, quick: bool) -> dict[str, Any]:
    """Return bits/dim of the images `test` [n, N] by the averaged weights, those of the training's batches at KEPT
    updates, milliseconds of an update, and bytes of the state of one image."""
    plan = recipe(QUICK_MNIST_UPDATES if quick else MNIST_UPDATES, SEED)
    updater = new_updater(linear_of(MAPS[name]), plan, quick)
    config = updater.model.config
    keep = {max(1, plan.updates * (i + 1) // KEPT) for i in range(KEPT)}
    curve: dict[str, list[float]] = {"updates": [], "loss": []}
    losses: list[float] = []  # since the last one that was kept
    for update, (loss, seconds) in enumerate(updates_of(updater, train), 1):
        losses.append(loss)
        update_ms = 1e3 * seconds / update
        if update in keep:
            curve["updates"].append(update)
            curve["loss"].append(float(np.mean(losses)))
            losses.clear()
    width = features(name, config.key_width)
    return {
        **curve,
        "bits_per_dim": tested(updater.average.model, test),
        "update_ms": update_ms,
        "features": width,
        "state_bytes": replace(config, key_width=width).state_bytes_per_image,
        "test_images": len(test),
    }


HEADER = (
    "feature map", "copy: loss", "copy: accuracy", "copy: ms/update", "MNIST: bits/dim", "MNIST: ms/update",
    "features of a key", "state, bytes",
)  # fmt: skip


def summary(results: Results) -> str:
    """Return which map is best on the copy task, and how far they are apart on MNIST; empty for a quick run."""
    if results.quick:
        return ""
    copies = {name: point["loss"][-1] for name in MAPS if (point := results.get(f"copy/{name}"))}
    images = {name: point["bits_per_dim"] for name in MAPS if (point := results.get(f"mnist/{name}"))}
    found = []
    if copies:
        best = min(copies, key=copies.__getitem__)
        found.append(f"Of {len(copies)} feature maps, {best} has the least loss on the copy task.")
    if images:
        apart = max(images.values()) - min(images.values())
        found.append(f"On MNIST {len(images)} of them lie within {apart:.3f} bits/dim.")
    return " ".join(found)


def section(results: Results) -> str:
    copies = {name: point for name in MAPS if (point := results.get(f"copy/{name}"))}
    images = {name: point for name in MAPS if (point := results.get(f"mnist/{name}"))}
    if not copies:
        return "Not run.\n"
    rows = []
    for name in MAPS:
        copied, image = copies.get(name), images.get(name)
        cells = ["", "", ""]
        if copied:
            cells = [number(copied["loss"][-1]), f"{copied['accuracy'][-1]:.2%}", number(copied["update_ms"])]
        if image:
            cells += [f"{image['bits_per_dim']:.3f}", number(image["update_ms"])]
            cells += [str(image["features"]), f"{image['state_bytes']:,}"]
        rows.append([name, *cells, *[""] * (7 - len(cells))])
    task = next(iter(copies.values()))["task"]
    text = f"One seed. Copy task: sequences of {task['longest']}, {task['updates']:,} updates. "
    if images:
        image = next(iter(images.values()))
        text += f"MNIST: {image['updates'][-1]:,} updates, {image['test_images']} test images; features and state are "
        text += "those of its network.\n"
    else:
        text += "MNIST: not run; it needs the images in `<data>/mnist`.\n"
    pictures = [
        plot(
            results, f"{results.part}-{task}", f"Feature maps: {title}",
            {name: [list(zip(point["updates"], point["loss"], strict=True))] for name, point in points.items()},
            "updates", loss, ("linear", "log"),
        )
        for task, title, loss, points in (
            ("copy", "copy task", "loss, nats a copied symbol", copies),
            ("mnist", "MNIST", "training bits/dim", images),
        )
        if points
    ]  # fmt: skip
    return "\n".join((text, table(HEADER, rows), *pictures))
