"""The mixture of discretised logistics as the formula is written: float64, differences of sigmoids."""

import torch


def components(seed: int = 0, count: int = 5) -> torch.Tensor:
    """Parameters [3K] float32: logits, means over and beyond the range, raw scales from narrow to wide."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, generator=random)
    means = torch.linspace(-1.1, 1.05, count) + 0.1 * torch.randn(count, generator=random)
    return torch.cat((logits, means, torch.linspace(-4, 0.5, count)))


def probabilities(parameters: torch.Tensor, scale: str, temperature: float = 1.0) -> torch.Tensor:
    """Of all 256 bytes under parameters [3K], the logits divided and the scales multiplied by the temperature."""
    logits, means, raw = parameters.double().chunk(3)
    scales = raw.clamp(min=-7).exp() if scale == "exp" else torch.where(raw > 0, raw, raw.expm1()) + 1.0001
    weights = torch.softmax(logits / temperature, dim=0)
    edges = torch.arange(255, dtype=torch.float64) / 127.5 - 1 + 1 / 255  # between byte i and byte i + 1
    below = torch.sigmoid((edges[:, None] - means) / (scales * temperature))
    below = torch.cat((torch.zeros(1, len(means)), below, torch.ones(1, len(means))))
    return below.diff(dim=0) @ weights
