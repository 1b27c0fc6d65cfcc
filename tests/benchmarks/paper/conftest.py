"""Images for the trainings of the paper's comparisons."""

import numpy as np
import pytest


@pytest.fixture
def images() -> np.ndarray:
    """Sixteen images of a bright bar on black, whose first byte is 0 as MNIST's is."""
    drawn = np.zeros((16, 28, 28), np.uint8)
    for index, image in enumerate(drawn):
        image[4:24, 5 + index : 8 + index] = 255
    return drawn.reshape(16, 784)
