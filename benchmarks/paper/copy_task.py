"""The copy task (section 4.1, Figure 2): loss and accuracy against updates, for softmax, LSH and linear attention.

A sequence is n symbols, a separator, and the same n symbols; the rest is padding. n is drawn from N / 4 to (N - 1) / 2,
as in the authors' task. The loss is that of the second half, which alone can be predicted. The paper trains 4 layers
of 8 heads at N = 128 with 64 sequences an update, by RAdam at 1e-3, and at 1e-4 after 3,000 updates; `FULL` is what
fits an hour on two cores. Each training is one point of the results.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.paper.attentions import Attention, attention, unavailable
from benchmarks.paper.encoder import Encoder, Sizes, reset
from benchmarks.paper.markdown import number, plot, table
from benchmarks.paper.results import Point, Results

SYMBOLS, SEPARATOR = 10, 0  # symbols are 1 to 10; the separator is the padding too, as in the authors' task
ATTENTIONS = ("softmax", "lsh-4", "linear")
CHUNK = 16  # positions of LSH's chunks
SEEDS = (0, 1, 2)
EVALUATED = 64  # sequences that no update has seen, whenever the accuracy is measured
COPIED = 0.99  # accuracy from which on a network copies


@dataclass(frozen=True)
class Task:
    """One recipe; `points` losses and accuracies are kept."""

    sizes: Sizes
    longest: int  # N
    batch: int
    updates: int
    drop: int  # updates at the first rate
    rate: float = 1e-3
    rate_after: float = 1e-4
    clip: float = 1.0  # norm of all gradients
    points: int = 30


PAPER = Task(Sizes(4, 8, 32, 1024), longest=128, batch=64, updates=10_000, drop=3000)  # heads as on images
FULL = Task(Sizes(4, 8, 16, 256), longest=64, batch=16, updates=4000, drop=3400)
QUICK = Task(Sizes(1, 2, 16, 64), longest=16, batch=16, updates=60, drop=50, points=6)


class CopyNetwork(nn.Module):
    """Symbols to logits of the next symbol."""

    def __init__(self, task: Task, attention: Attention) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS + 1, task.sizes.width)
        self.encoder = Encoder(task.sizes, attention, task.longest)
        self.head = nn.Linear(task.sizes.width, SYMBOLS + 1)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Return logits [B, N, 11] of the symbol after each of sequences [B, N]."""
        return self.head(self.encoder(self.embedding(sequences)))


def draw(task: Task, batch: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sequences [B, N] int64, the next symbol at each position, and a mask of the positions before a copied
    symbol, bool."""
    length = task.longest
    n = torch.randint(length // 4, (length - 1) // 2, (batch, 1), generator=generator)
    symbols = torch.randint(1, SYMBOLS + 1, (batch, length), generator=generator)
    at = torch.arange(length)
    copied = (at > n) & (at <= 2 * n)
    x = torch.where(at < n, symbols, SEPARATOR)
    x = torch.where(copied, symbols.gather(1, (at - n - 1).clamp(min=0)), x)
    return x, F.pad(x[:, 1:], (0, 1), value=SEPARATOR), F.pad(copied[:, 1:], (0, 1))


def train(task: Task, attention: Attention, seed: int) -> dict[str, Any]:
    """Return the curve of a training: updates, loss in nats a symbol and accuracy of sequences not seen, milliseconds
    of an update, and the first of these updates at which it copied, or None."""
    network = reset(seed, lambda: CopyNetwork(task, attention))
    optimiser = torch.optim.RAdam(network.parameters(), lr=task.rate)
    generator = torch.Generator().manual_seed(1000 + seed)
    unseen = draw(task, EVALUATED, torch.Generator().manual_seed(999))
    keep = {max(1, task.updates * (i + 1) // task.points) for i in range(task.points)}
    curve: dict[str, list[float]] = {"updates": [], "loss": [], "accuracy": []}
    spent = 0.0
    for update in range(1, task.updates + 1):
        start = time.perf_counter()
        optimiser.param_groups[0]["lr"] = task.rate if update <= task.drop else task.rate_after
        x, wanted, mask = draw(task, task.batch, generator)
        loss = F.cross_entropy(network(x)[mask], wanted[mask])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), task.clip)
        optimiser.step()
        spent += time.perf_counter() - start
        if update in keep:
            for key, value in zip(curve, (update, *evaluate(network, unseen)), strict=True):
                curve[key].append(value)
    reached = next((u for u, a in zip(curve["updates"], curve["accuracy"], strict=True) if a >= COPIED), None)
    return {**curve, "copies_from": reached, "update_ms": 1e3 * spent / task.updates, "task": asdict(task)}


@torch.inference_mode()
def evaluate(network: nn.Module, sequences: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    """Return the loss in nats a symbol, and the share of copied symbols that are the most probable."""
    x, wanted, mask = sequences
    logits = network(x)[mask]
    return F.cross_entropy(logits, wanted[mask]).item(), (logits.argmax(-1) == wanted[mask]).float().mean().item()


def run(results: Results, quick: bool) -> None:
    """Train each attention with each seed; the first seed of all of them comes first."""
    task = QUICK if quick else FULL
    names = [name for name in ATTENTIONS if unavailable(name) is None]
    for seed in SEEDS:
        for name in names:
            attend = attention(name, CHUNK)
            results.measure(f"{name}/{seed}", lambda attend=attend, seed=seed: train(task, attend, seed))


def _trainings(results: Results) -> dict[str, list[Point]]:
    return {name: [p for seed in SEEDS if (p := results.get(f"{name}/{seed}"))] for name in ATTENTIONS}


def summary(results: Results) -> str:
    """Return a sentence on what copies; empty for a quick run."""
    found = _trainings(results)
    if results.quick or not any(found.values()):
        return ""
    counts = [
        f"{name} with {sum(p['copies_from'] is not None for p in points)} of {len(points)} seeds"
        for name, points in found.items()
        if points
    ]
    return f"On the copy task, scaled down to an hour, these copy with {COPIED:.0%} accuracy: {', '.join(counts)}."


def section(results: Results) -> str:
    found = _trainings(results)
    trained = [point for points in found.values() for point in points]
    if not trained:
        return "Not run.\n"
    rows, curves = [], {}
    for name, points in found.items():
        copies = [point["copies_from"] for point in points if point["copies_from"] is not None]
        cells = [name, f"{len(points)} of {len(SEEDS)}"]
        if points:
            cells += [number(sum(p["loss"][-1] for p in points) / len(points))]
            cells += [f"{min(p['accuracy'][-1] for p in points):.2%}", f"{len(copies)} of {len(points)}"]
            cells += [number(max(copies)) if copies else "", number(min(p["update_ms"] for p in points))]
            curves[name] = [list(zip(p["updates"], p["loss"], strict=True)) for p in points]
        rows.append(cells + [""] * (len(HEADER) - len(cells)))
    picture = plot(results, "copy", "Copy task", curves, "updates", "loss, nats a copied symbol", ("linear", "log"))
    return "\n".join((_words(trained[0]["task"], results), table(HEADER, rows), picture))


HEADER = ("attention", "seeds", "last loss", "least accuracy", "copy", "all from update", "ms/update")


def _words(task: dict[str, Any], results: Results) -> str:
    """What was trained, where it is less than the paper's task, and which attention is missing."""
    sizes, paper = task["sizes"], asdict(PAPER)
    rows = [
        ("positions", task["longest"], paper["longest"]),
        ("layers", sizes["layers"], paper["sizes"]["layers"]),
        ("heads", sizes["heads"], paper["sizes"]["heads"]),
        ("sequences an update", task["batch"], paper["batch"]),
        ("updates at the first rate", task["drop"], paper["drop"]),
    ]
    differing = [f"{name} {ours:,} instead of {theirs:,}" for name, ours, theirs in rows if ours != theirs]
    text = f"{SYMBOLS} symbols and a separator, {task['updates']:,} updates; an attention copies from an accuracy of "
    text += f"{COPIED:.0%} on. Heads are {sizes['head_width']} wide, which the paper does not say."
    text += f" Other than in the paper: {', '.join(differing)}." if differing else " Sizes are the paper's."
    for name in ATTENTIONS:
        if not any(results.get(f"{name}/{seed}") for seed in SEEDS) and (reason := unavailable(name)):
            text += f" {name} is empty: {reason}."
    return text + "\n"
