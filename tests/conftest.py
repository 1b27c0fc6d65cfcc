"""What every test starts from: torch's own random stream at a known place, and one thread for its small
tensors, where a second one that has to be waited for costs more than it saves. Without a GPU, Triton's kernels
run in its interpreter, which has to be said before the first of them is imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
