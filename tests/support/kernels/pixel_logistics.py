"""The mixture of discretised logistics as its formula is written, in float64 with differences of sigmoids; and a test
of samples against probabilities."""

import torch


def parameters(components: int, channels: int, seed: int = 0) -> torch.Tensor:
    """Parameters [P] float32: means over the range and beyond, scales from narrow to wide, coefficients of any sign."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(components, generator=random)
    means = torch.randn(components, channels, generator=random) * 0.7
    scales = torch.linspace(-2.5, 0, components * channels)
    coefficients = torch.randn(components * channels * (channels - 1) // 2, generator=random)
    return torch.cat((logits, means.flatten(), scales[torch.randperm(len(scales), generator=random)], coefficients))


def conditionals(
    parameters: torch.Tensor, components: int, pixel: list[int], temperature: float = 1.0, scale: str = "exp"
) -> torch.Tensor:
    """Return [C, 256] float64: the probabilities of each byte of a pixel, given its earlier bytes in `pixel`, with
    logits divided and scales multiplied by the temperature."""
    k, c = components, len(pixel)
    p = parameters.double()
    weights = torch.softmax(p[:k] / temperature, dim=0)
    means, raw, rest = (
        p[k : k + k * c].view(k, c),
        p[k + k * c : k + 2 * k * c].view(k, c),
        p[k + 2 * k * c :].view(k, -1),
    )
    scales = raw.clamp(min=-7).exp() if scale == "exp" else torch.where(raw > 0, raw, raw.expm1()) + 1.0001
    scales = scales * temperature
    seen = torch.tensor(pixel, dtype=torch.float64) / 127.5 - 1
    edges = torch.arange(255, dtype=torch.float64) / 127.5 - 1 + 1 / 255
    found = []
    for channel in range(c):
        mean = means[:, channel].clone()
        for earlier in range(channel):
            mean += rest[:, channel * (channel - 1) // 2 + earlier] * (seen[earlier] - means[:, earlier])
        below = torch.sigmoid((edges - mean[:, None]) / scales[:, channel, None])
        of_each = torch.cat((torch.zeros(k, 1), below, torch.ones(k, 1)), dim=1).diff(dim=1)  # [K, 256]
        found.append(weights @ of_each / weights.sum())
        weights = weights * of_each[:, pixel[channel]]
    return torch.stack(found)


def assert_fits(counts: torch.Tensor, probabilities: torch.Tensor) -> None:
    """Chi-square of counts against probabilities, values of fewer than ten expected draws taken together."""
    expected = probabilities * counts.sum()
    rare = expected < 10
    counts = torch.cat((counts[~rare], counts[rare].sum(0, keepdim=True)))
    expected = torch.cat((expected[~rare], expected[rare].sum(0, keepdim=True).clamp(min=1)))
    chi_square, freedom = ((counts - expected).square() / expected).sum().item(), len(counts) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5
