"""What every test starts from: torch's own random stream at a known place, and one thread for its small
tensors, where a second one that has to be waited for costs more than it saves."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
