"""Training of one acoustic network by CTC, with greedy decoding and the phoneme error rate after each epoch.

Transformers learn by RAdam and the Bi-LSTM by Adam, as in the paper. The rate halves when the validation loss has not
fallen for PATIENCE epochs; the paper's validation error stays at 100 % at first, while a network says nothing. The
error that is reported is that of the test part, by the weights of the epoch with the least validation error.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.paper.speech.corpus import PARTS, CorpusError, load
from benchmarks.paper.speech.ctc import ctc_loss, error_rate, greedy
from benchmarks.paper.speech.features import mel_bands
from benchmarks.paper.speech.network import LONGEST

PATIENCE = 1


@dataclass(frozen=True)
class Recording:
    frames: torch.Tensor  # [N, 40]
    symbols: list[int]  # of its phonemes


@dataclass(frozen=True)
class Data:
    """The parts of a corpus as a network reads them. A symbol is the place of a phoneme in `phonemes`, 0 the blank."""

    parts: dict[str, list[Recording]]
    phonemes: list[str]
    left_out: int  # utterances without phonemes, longer than LONGEST frames, or too short for their phonemes

    @property
    def seconds(self) -> dict[str, float]:
        """Of speech in each part, by its frames of 10 ms."""
        return {part: 0.01 * sum(len(r.frames) for r in recordings) for part, recordings in self.parts.items()}


@dataclass(frozen=True)
class Batch:
    frames: torch.Tensor  # [B, N, 40], padded with zeros
    lengths: torch.Tensor  # [B]
    symbols: list[list[int]]


@dataclass(frozen=True)
class Recipe:
    epochs: int
    batch: int
    rate: float
    clip: float = 1.0  # norm of all gradients


def read(folder: Path) -> Data:
    """Return the corpus in `folder`; CorpusError where a part holds nothing that can be used."""
    found = {part: load(folder, part) for part in PARTS}
    phonemes = ["", *sorted({p for part in found.values() for u in part.utterances for p in u.phonemes})]
    symbol = {phoneme: index for index, phoneme in enumerate(phonemes) if phoneme}
    parts: dict[str, list[Recording]] = {}
    left_out = sum(len(part.left_out) for part in found.values())
    for name, part in found.items():
        recordings = []
        for utterance in part.utterances:
            recording = Recording(mel_bands(*utterance.samples()), [symbol[p] for p in utterance.phonemes])
            repeats = sum(a == b for a, b in zip(utterance.phonemes, utterance.phonemes[1:], strict=False))
            if len(recording.symbols) + repeats <= len(recording.frames) <= LONGEST:  # else CTC has no path
                recordings.append(recording)
        if not recordings:
            raise CorpusError(f"{folder / name} has no utterance of at most {LONGEST} frames")
        left_out += len(part.utterances) - len(recordings)
        parts[name] = recordings
    return Data(parts, phonemes, left_out)


def batches(recordings: Sequence[Recording], size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
    """Yield batches of `size`: recordings of similar length share one, and the order of batches is drawn where there is
    a generator."""
    by_length = sorted(recordings, key=lambda recording: len(recording.frames))
    groups = [by_length[i : i + size] for i in range(0, len(by_length), size)]
    order = range(len(groups)) if generator is None else torch.randperm(len(groups), generator=generator).tolist()
    for index in order:
        frames = [recording.frames for recording in groups[index]]
        lengths = torch.tensor([len(x) for x in frames])
        symbols = [recording.symbols for recording in groups[index]]
        yield Batch(pad_sequence(frames, batch_first=True), lengths, symbols)


def train(network: nn.Module, data: Data, recipe: Recipe, adam: bool, seed: int = 0) -> dict[str, Any]:
    """Train in place; return the curves over epochs, the seconds of each, and the test's error at the best one."""
    kind = torch.optim.Adam if adam else torch.optim.RAdam
    optimiser = kind(network.parameters(), lr=recipe.rate)
    halve = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=PATIENCE)
    generator = torch.Generator().manual_seed(seed)
    curves: dict[str, list[float]] = {"loss": [], "dev_error": [], "dev_loss": [], "seconds_of_epochs": [], "rate": []}
    best, best_weights = float("inf"), network.state_dict()
    for _ in range(recipe.epochs):
        start = time.perf_counter()
        network.train()
        losses = [
            _update(network, optimiser, batch, recipe.clip)
            for batch in batches(data.parts["train"], recipe.batch, generator)
        ]
        curves["seconds_of_epochs"].append(time.perf_counter() - start)
        curves["loss"].append(sum(losses) / len(losses))
        curves["rate"].append(optimiser.param_groups[0]["lr"])
        error, loss = evaluate(network, data.parts["dev"], recipe.batch)
        curves["dev_error"].append(error)
        curves["dev_loss"].append(loss)
        halve.step(loss)
        if error < best:
            best, best_weights = error, copy.deepcopy(network.state_dict())
    network.load_state_dict(best_weights)
    test_error, _ = evaluate(network, data.parts["test"], recipe.batch)
    parameters = sum(p.numel() for p in network.parameters())
    return {**curves, "test_error": test_error, "best_dev_error": best, "parameters": parameters}


def _update(network: nn.Module, optimiser: torch.optim.Optimizer, batch: Batch, clip: float) -> float:
    """Make one update; return its loss."""
    loss = ctc_loss(network(batch.frames, batch.lengths), batch.lengths, batch.symbols)
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimiser.step()
    return loss.item()


@torch.inference_mode()
def evaluate(network: nn.Module, recordings: Sequence[Recording], size: int) -> tuple[float, float]:
    """Return the phoneme error rate of greedy decoding, 0.08 for 8 %, and the loss."""
    network.eval()
    references: list[list[int]] = []
    found: list[list[int]] = []
    losses = []
    for batch in batches(recordings, size):
        scores = network(batch.frames, batch.lengths)
        references += batch.symbols
        found += greedy(scores, batch.lengths)
        losses.append(ctc_loss(scores, batch.lengths, batch.symbols).item())
    return error_rate(references, found), sum(losses) / len(losses)
