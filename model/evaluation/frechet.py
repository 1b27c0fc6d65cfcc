"""The Frechet distance between two clouds of features, each taken for a Gaussian (Dowson and Landau, 1982; Heusel et
al., 2017, whose FID is this number in the features of an Inception network)."""

import numpy as np
import torch


def frechet_distance(first: np.ndarray, second: np.ndarray) -> float:
    """|mu_1 - mu_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^(1/2)) of features [n, F] and [m, F]; n and m may be less than F.

    ValueError for fewer than two rows. With finite samples it is biased upward: compare numbers of equal n and m.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError(f"a covariance needs at least 2 images, not {min(len(first), len(second))}")
    (mean_1, covariance_1), (mean_2, covariance_2) = _gaussian(first), _gaussian(second)
    root = _root(covariance_1)
    shared = torch.linalg.eigvalsh(root @ covariance_2 @ root).clamp(min=0).sqrt().sum()
    apart = (mean_1 - mean_2).square().sum()
    return max(0.0, float(apart + covariance_1.trace() + covariance_2.trace() - 2 * shared))


def _gaussian(features: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean [F] and covariance [F, F], float64."""
    values = torch.from_numpy(np.ascontiguousarray(features, np.float64))
    return values.mean(dim=0), torch.cov(values.T).reshape(values.shape[1], -1)


def _root(covariance: torch.Tensor) -> torch.Tensor:
    """The symmetric square root; eigenvalues that rounding made negative count as zero."""
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * values.clamp(min=0).sqrt() @ vectors.T
