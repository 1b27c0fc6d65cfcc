"""Connectionist temporal classification (Graves et al., 2006): its loss, its greedy decoding, and how many of the
decoded phonemes are wrong. A symbol is a phoneme's number, from 1 on."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

BLANK = 0  # CTC's symbol of a frame that says nothing


def ctc_loss(scores: torch.Tensor, lengths: torch.Tensor, symbols: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the loss in nats a phoneme, averaged over the sequences, by torch.

    scores [B, N, symbols], log-probabilities; lengths [B], the frames that are not padding.
    """
    wanted = torch.tensor([symbol for sequence in symbols for symbol in sequence])
    counts = torch.tensor([len(sequence) for sequence in symbols])
    return F.ctc_loss(scores.transpose(0, 1), wanted, lengths, counts, blank=BLANK)


def greedy(log_probabilities: torch.Tensor, lengths: torch.Tensor) -> list[list[int]]:
    """Return the symbols of each sequence: the best of each frame, repeats merged, blanks removed.

    log_probabilities [B, N, symbols]; lengths [B], the frames that are not padding.
    """
    decoded = []
    for best, length in zip(log_probabilities.argmax(dim=-1), lengths.tolist(), strict=True):
        merged = best[:length].unique_consecutive()
        decoded.append(merged[merged != BLANK].tolist())
    return decoded


def edit_distance(reference: Sequence[object], found: Sequence[object]) -> int:
    """Return the least number of insertions, deletions and substitutions from one to the other (Levenshtein)."""
    row = list(range(len(found) + 1))
    for i, wanted in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, symbol in enumerate(found, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (wanted != symbol))
    return row[-1]


def error_rate(references: Sequence[Sequence[object]], found: Sequence[Sequence[object]]) -> float:
    """Return edits by phonemes of the references, over all utterances: 0.08 is 8 %. Insertions can bring it above 1."""
    edits = sum(edit_distance(*pair) for pair in zip(references, found, strict=True))
    return edits / sum(map(len, references))
