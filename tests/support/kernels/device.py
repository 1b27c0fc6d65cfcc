"""The device of tests of kernels: a GPU where there is one, else the CPU."""

import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"


def there(*tensors):
    """Copies of the tensors where the kernels are."""
    return tuple(tensor.to(DEVICE, copy=True) for tensor in tensors)
