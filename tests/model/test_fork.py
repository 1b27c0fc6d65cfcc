"""A program of its own paints, without the compiler, and forks, as a notebook's or a data loader's workers are."""

import subprocess
import sys
from pathlib import Path

FORKED = """
import os, sys, torch, scanline
torch.set_num_threads(2)
model = scanline.load(sys.argv[1], device="cpu", threads=2)
before = model.sample(3, seed=1).array
torch.zeros(10**6).exp()  # by torch's threads
painting = model.stream(1, seed=1)
next(painting)
if not (child := os.fork()):
    assert (model.sample(3, seed=1).array == before).all()
    try:
        list(painting)
        os._exit(1)
    except RuntimeError:
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
list(painting)
assert "torch._dynamo" not in sys.modules  # the compiler, which takes 150 MB; meta tensors may import it too
"""


def test_a_fork_paints_the_same_and_cannot_go_on_with_what_its_parent_paints(
    grey_directory: Path,
) -> None:
    command = [sys.executable, "-c", FORKED, str(grey_directory)]
    logged = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stderr
    assert "load the model after a fork" in logged
