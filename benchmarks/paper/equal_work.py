"""Bits/dim by equal work (Tables 1 and 2): four attentions, one small network, one recipe, the same updates of MNIST.

Seeds 0 to 2: a seed gives all attentions the same first weights and the same batches. How many updates there are is
decided once, from the time of an update of each attention, so that all trainings fit into the time that is left. At
CHECKS moments the averaged weights are tested on the same test images. Time counts updates alone.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch

from benchmarks.paper.attentions import Attention, AttentionTransformer, attention, unavailable
from benchmarks.paper.markdown import Curve, number, plot, table
from benchmarks.paper.painting import papers_form
from benchmarks.paper.results import Point, Results
from scanline.model import datasets
from scanline.model.evaluation.likelihood import bits
from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.batches import batch_at
from scanline.model.training.optimise.optimiser import learning_rate
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater

ATTENTIONS = ("softmax", "lsh-1", "lsh-4", "linear")
PAPER_BITS = {"softmax": 0.621, "lsh-1": 0.745, "lsh-4": 0.676, "linear": 0.644}  # Table 1, after 250 epochs
SEEDS = (0, 1, 2)
CHUNK = 29  # of LSH, as in the paper
CONFIG = papers_form("mnist", layers=2, heads=4, feed_forward=256)
QUICK_CONFIG = papers_form("mnist", layers=1, heads=1, key_width=8, value_width=8, feed_forward=16)
MIN_UPDATES, MAX_UPDATES = 20, 5000  # updates
QUICK_UPDATES = 2
CHECKS = 10  # tests during a training
TEST_IMAGES, QUICK_TEST_IMAGES = 32, 2
SHARE = 0.9  # of the time that is left
PLAN = "equal work/plan"


def run(results: Results, quick: bool) -> None:
    """Train every attention with every seed; each training is one point. Without MNIST nothing is measured."""
    try:
        train, test = (datasets.load("mnist", results.data / "mnist", split) for split in ("train", "test"))
    except datasets.DataError as error:
        print(f"equal work: {error}")
        return
    names = [name for name in ATTENTIONS if unavailable(name) is None]
    seeds = SEEDS[:1] if quick else SEEDS
    plan = results.measure(PLAN, lambda: _plan(results, names, train, quick))
    if plan is None:
        return
    images = test[: QUICK_TEST_IMAGES if quick else TEST_IMAGES]
    for seed in seeds:
        for name in names:
            call = partial(trained, name, seed, train, images, plan["updates"], quick)
            results.measure(_key(name, seed), call)


def recipe(updates: int, seed: int) -> TrainingConfig:
    """The recipe of all attentions: that of `scanline train`, whose optimiser learns more in few updates than the
    paper's RAdam."""
    return TrainingConfig(updates=updates, batch=4, warm_up=updates // 20, seed=seed)


def trained(name: str, seed: int, train: np.ndarray, test: np.ndarray, updates: int, quick: bool) -> Point:
    """Return {"updates", "train_seconds", "bits_per_dim"}, one number of each at each check, the first before any
    update; bits_per_dim of the images `test` [n, N]."""
    updater = new_updater(attention(name, CHUNK), recipe(updates, seed), quick)
    point: Point = {"updates": [0], "train_seconds": [0.0], "bits_per_dim": [tested(updater.average.model, test)]}
    checks = {round(updates * part / CHECKS) for part in range(1, CHECKS + 1)}
    for update, (_, seconds) in enumerate(updates_of(updater, train), 1):
        if update in checks:
            point["updates"].append(update)
            point["train_seconds"].append(seconds)
            point["bits_per_dim"].append(tested(updater.average.model, test))
    return point


def new_updater(attend: Attention, config: TrainingConfig, quick: bool) -> Updater:
    """Return what trains a network with that attention, whose first weights are those of the recipe's seed."""
    torch.manual_seed(config.seed)
    network = AttentionTransformer(QUICK_CONFIG if quick else CONFIG, attend)
    return Updater(network, config, Group(), torch.float32, compiled=False)


def updates_of(updater: Updater, train: np.ndarray) -> Iterator[tuple[float, float]]:
    """Make the recipe's updates and yield, after each, its loss and the seconds of all updates so far."""
    config, spent = updater.config, 0.0
    for update in range(config.updates):
        batch = batch_at(train, update, config, updater.model.config)
        start = time.perf_counter()
        loss, _ = updater.update(batch, update, learning_rate(config, update))
        spent += time.perf_counter() - start
        yield loss.item(), spent


def tested(model: Transformer, images: np.ndarray) -> float:
    """Return mean bits/dim of images [n, N]; LSH's random planes are the same at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        rows = [bits(model, torch.tensor(image[None])).mean().item() for image in images]
    return float(np.mean(rows))


def section(results: Results) -> str:
    """Return the part of the section on Tables 1 and 2 that is trained here."""
    plan = results.get(PLAN)
    if plan is None:
        return "Bits/dim by equal work: not run (it needs MNIST in `<data>/mnist`).\n"
    trainings = _trainings(results)
    rows = [_row(name, points) for name, points in trainings.items()]
    return "\n".join(
        [
            f"Bits/dim by equal work: {plan['updates']:,} updates of {recipe(1, 0).batch} images of MNIST, one recipe"
            " and network for all; mean over the seeds, +- half of their range. The paper trained 250 epochs.\n",
            table(["attention", "seeds", "bits/dim", "seconds of training", "the paper"], rows),
            plot(
                results, "bits-updates", "Bits/dim against updates", _curves(trainings, "updates"), "updates",
                "test bits/dim", ("linear", "log"),
            ),
            plot(
                results, "bits-time", "Bits/dim against time", _curves(trainings, "train_seconds"),
                "seconds of training", "test bits/dim", ("symlog", "log"),
            ),
        ]
    )  # fmt: skip


def summary(results: Results) -> str:
    """Return a sentence on bits/dim after equal work; empty where softmax or linear attention was not trained."""
    plan, trainings = results.get(PLAN), _trainings(results)
    if plan is None or not trainings["softmax"] or not trainings["linear"]:
        return ""
    last = {name: [point["bits_per_dim"][-1] for point in points] for name, points in trainings.items() if points}
    found = ", ".join(f"{name} {np.mean(values):.3f} ({PAPER_BITS[name]})" for name, values in last.items())
    return (
        f"After {plan['updates']:,} updates of a small network on MNIST, the same for all, the bits/dim are {found}."
        " In brackets are those of the paper, whose larger networks were trained for 250 epochs."
    )


def _plan(results: Results, names: Sequence[str], train: np.ndarray, quick: bool) -> Point:
    """Time an update of each attention, and share out the time that is left."""
    seconds = {}
    for name in names:
        (_, first), (_, both) = updates_of(new_updater(attention(name, CHUNK), recipe(2, 0), quick), train)
        seconds[name] = both - first
    # a test costs less than half of an update for each image of a batch: forward alone
    tests = CHECKS * TEST_IMAGES / recipe(MIN_UPDATES, 0).batch / 2
    left = SHARE * min(results.remaining, 3600.0) / len(SEEDS) / sum(seconds.values()) - tests
    updates = QUICK_UPDATES if quick else int(min(max(left, MIN_UPDATES), MAX_UPDATES))
    return {"updates": updates, "update_seconds": seconds}


def _key(name: str, seed: int) -> str:
    return f"equal work/{name}/{seed}"


def _trainings(results: Results) -> dict[str, list[Point]]:
    return {name: [p for seed in SEEDS if (p := results.get(_key(name, seed)))] for name in ATTENTIONS}


def _row(name: str, points: Sequence[Point]) -> list[str]:
    last = [point["bits_per_dim"][-1] for point in points]
    mean = f"{np.mean(last):.3f} +- {(max(last) - min(last)) / 2:.3f}" if last else ""
    seconds = number(float(np.mean([point["train_seconds"][-1] for point in points]))) if points else ""
    return [name, str(len(points)), mean, seconds, number(PAPER_BITS[name])]


def _curves(trainings: dict[str, list[Point]], axis: str) -> dict[str, list[Curve]]:
    return {
        name: [list(zip(point[axis], point["bits_per_dim"], strict=True)) for point in points]
        for name, points in trainings.items()
        if points
    }
