"""The causal depthwise convolution: numbers of a pixel and of painted ones around it, its neighbours, one weight for
each number and neighbour. Sums over all pixels before, as linear attention has, blur what is near; this does not.

Pixels outside the image count as zeros. What a step needs of earlier pixels is constant: those of a row and three more.
"""

import torch

# Rows up and columns to the left of each neighbour, all painted before the pixel.
OFFSETS = ((0, 1), (0, 2), (1, 0), (1, 1), (1, -1), (1, 2), (1, -2))
NEIGHBOURS = len(OFFSETS)


def causal_conv(
    x: torch.Tensor,  # [N, D]: of the pixels of an image, in raster order
    conv_weight: torch.Tensor,  # [NEIGHBOURS, D]
    width: int,  # of the image
) -> torch.Tensor:
    """Return y [N, D]: y_p = x_p + sum over neighbours q_k of p of weight_k * x_(q_k), number by number."""
    y = x.clone()
    for pixel in range(len(x)):
        row, column = pixel // width, pixel % width
        for weight, (up, left) in zip(conv_weight, OFFSETS, strict=True):
            if row - up >= 0 and 0 <= column - left < width:
                y[pixel] += weight * x[(row - up) * width + column - left]
    return y
