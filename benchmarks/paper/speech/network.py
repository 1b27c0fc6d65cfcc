"""Acoustic networks of Table 3: frames to log-probabilities of phonemes and CTC's blank.

The transformers differ in their attention alone; the Bi-LSTM is torch's.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.paper.attentions import Attention, attention, unavailable
from benchmarks.paper.encoder import Encoder, Sizes
from benchmarks.paper.speech.features import BANDS

LONGEST = 2400  # frames, as in the paper


@dataclass(frozen=True)
class NetworkSizes:
    transformer: Sizes
    lstm_layers: int
    lstm_width: int  # of each direction


PAPER = NetworkSizes(Sizes(9, 6, 32, 768), 3, 320)


class TransformerNetwork(nn.Module):
    """Mel bands through a linear map, the encoder and another linear map."""

    def __init__(self, sizes: Sizes, attend: Attention, symbols: int) -> None:
        super().__init__()
        self.frames = nn.Linear(BANDS, sizes.width)
        self.encoder = Encoder(sizes, attend, LONGEST)
        self.head = nn.Linear(sizes.width, symbols)

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities [B, N, symbols] of frames [B, N, 40]; lengths [B], the rest is padding."""
        mask = torch.arange(frames.shape[1]) < lengths.unsqueeze(1)
        return self.head(self.encoder(self.frames(frames), mask)).log_softmax(dim=-1)


class BiLstmNetwork(nn.Module):
    """Layers of LSTM in both directions, which do not run through the padding."""

    def __init__(self, layers: int, width: int, symbols: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BANDS, width, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, symbols)

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities [B, N, symbols] of frames [B, N, 40]; lengths [B], the rest is padding."""
        packed = pack_padded_sequence(frames, lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=frames.shape[1])
        return self.head(x).log_softmax(dim=-1)


def networks(sizes: NetworkSizes, symbols: int) -> dict[str, Callable[[], nn.Module]]:
    """Return what builds each network of Table 3, less LSH where the authors' library is missing."""

    def transformer(name: str) -> Callable[[], nn.Module]:
        return lambda: TransformerNetwork(sizes.transformer, attention(name, causal=False), symbols)

    found = {"linear": transformer("linear"), "softmax": transformer("softmax")}
    found["Bi-LSTM"] = lambda: BiLstmNetwork(sizes.lstm_layers, sizes.lstm_width, symbols)
    return found if unavailable("lsh-4") else {**found, "LSH-4": transformer("lsh-4")}
