"""The causal depthwise convolution: numbers of a pixel and of painted ones around it, its
neighbours, one weight for each number and neighbour. Sums over all pixels before, as linear
attention has, blur what is near; this does not.

Pixels outside the image count as zeros. What a step needs of earlier pixels is
constant: those of a row and three more.
"""

from torch import Tensor

# Rows up and columns to the left of each neighbour, all painted before the pixel.
OFFSETS = ((0, 1), (0, 2), (1, 0), (1, 1), (1, -1), (1, 2), (1, -2))
NEIGHBOURS = len(OFFSETS)


def causal_conv(
    x: Tensor,  # [N, D]: of the pixels of an image, in raster order
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    width: int,  # of the image
) -> Tensor:
    """Return y [N, D]: y_p = x_p + sum over neighbours q_k of p of weight_k * x_(q_k), number by
    number."""
    y = x.clone()
    for pixel in range(len(x)):
        row = pixel // width
        column = pixel % width
        for weight, (up, left) in zip(conv_weight, OFFSETS, strict=True):
            neighbour_row = row - up
            neighbour_column = column - left
            if neighbour_row >= 0 and 0 <= neighbour_column < width:
                y[pixel] += weight * x[neighbour_row * width + neighbour_column]
    return y
