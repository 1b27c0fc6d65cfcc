"""40 mel bands of a recording: logarithms of energies in 25 ms windows, 10 ms apart, without temporal differences
(section 4.3), with the mean and deviation of each band over the utterance taken out."""

import math
from functools import cache

import numpy as np
import torch

BANDS = 40
WINDOW, HOP = 0.025, 0.010  # seconds
LOWEST, HIGHEST = 20.0, 7600.0  # Hz, of the bands
FLOOR = 1e-6  # of energies, below the noise of 16-bit samples


def mel_bands(samples: np.ndarray, rate: int) -> torch.Tensor:
    """Return [N, 40] float32, a frame each 10 ms, of samples [n] at a rate in Hz.

    ValueError for less than one window, or a rate that does not reach the highest band.
    """
    window, hop = round(WINDOW * rate), round(HOP * rate)
    if rate < 2 * HIGHEST:
        raise ValueError(f"speech must be sampled at {2 * HIGHEST:.0f} Hz or more, not {rate}")
    if len(samples) < window:
        raise ValueError(f"a recording of {len(samples)} samples is shorter than a window of {window}")
    points = 2 ** math.ceil(math.log2(window))  # of the Fourier transform
    frames = torch.from_numpy(np.ascontiguousarray(samples, np.float32)).unfold(0, window, hop)
    spectrum = torch.fft.rfft(frames * torch.hamming_window(window, periodic=False), n=points)
    bands = (spectrum.abs().square() @ filters(rate, points).T).clamp(min=FLOOR).log()
    return (bands - bands.mean(dim=0)) / (bands.std(dim=0, correction=0) + 1e-5)


@cache
def filters(rate: int, points: int) -> torch.Tensor:
    """Return [40, points / 2 + 1]: triangles over the bins of a Fourier transform, equally wide on the mel scale
    (m = 1127 ln(1 + f / 700)), each from the centre of the one before to that of the next."""

    def mel(hertz: torch.Tensor) -> torch.Tensor:
        return 1127 * torch.log1p(hertz / 700)

    edges = torch.linspace(mel(torch.tensor(LOWEST)).item(), mel(torch.tensor(HIGHEST)).item(), BANDS + 2)
    bins = mel(torch.arange(points // 2 + 1) * rate / points)
    left, centre, right = (edges[i : i + BANDS].unsqueeze(1) for i in range(3))
    return torch.minimum((bins - left) / (centre - left), (right - bins) / (right - centre)).clamp(min=0)
