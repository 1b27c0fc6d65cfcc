"""`scanline sample --cluster` on three hosts: one machine's images, though a host and the command itself are killed."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from scanline.model.formats.checkpoint import load_model
from scanline.model.tasks.offline import paint
from tests.support.hosts.three_machines import HEAD, PAINTER, Machines
from tests.support.server.running_server import command_line
from tests.support.waiting import wait_for

N, SEED = 2_000, 11
OUT = Path("/tmp/painted")  # on the head


def test_a_folder_is_completed_though_a_machine_and_the_command_are_killed(machines: Machines) -> None:
    head, folder = machines.hosts[HEAD], machines.hosts[HEAD].path(OUT)
    command = f"scanline sample --cluster {HEAD}:6379 --model {machines.model.name} -n {N} --seed {SEED} --out {OUT}"

    def has(images: int) -> bool:
        return folder.exists() and sum(path.suffix == ".png" for path in folder.iterdir()) >= images

    with ThreadPoolExecutor() as pool:
        killed = pool.submit(machines.shell, HEAD, command)
        wait_for(lambda: has(N // 4), "a quarter of the images")
        machines.hosts[PAINTER].kill()
        wait_for(lambda: has(N // 2), "half of the images")
        for process in head.processes():
            if command_line(process).endswith(f"--out {OUT} "):
                os.kill(process, signal.SIGKILL)
        assert killed.exception()
    assert not has(N)
    kept = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.png")}
    print(machines.shell(HEAD, command))
    files = sorted(folder.glob("*.png"))
    painted = np.stack([np.asarray(Image.open(file)) for file in files])
    assert np.array_equal(painted.reshape(N, -1), paint(load_model(machines.model), N, seed=SEED).images.reshape(N, -1))
    assert kept.items() <= {file.name: file.stat().st_mtime_ns for file in files}.items()
    machines.rejoin(PAINTER)
