"""The command line on a CPU, run in this process as the console script
runs it, or as a process of its own.
"""

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from unittest.mock import patch

import pytest
import torch

from scanline.server.cli import main
from tests.support.server.running_server import SCANLINE


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def scanline(*arguments):
    out = StringIO()
    err = StringIO()
    with (
        patch.object(sys, "argv", ["scanline", *map(str, arguments)]),
        patch.object(torch.cuda, "is_available", return_value=False),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    return Ran(int(stop.value.code or 0), out.getvalue(), err.getvalue())


def in_a_process(*arguments):
    command = [SCANLINE, *map(str, arguments)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def done(*arguments):
    """Return what `scanline ARGUMENTS` prints; assert that it succeeds."""
    ran = scanline(*arguments)
    assert (ran.status, ran.err) == (0, ""), ran.err
    return ran.out


def refused(*arguments):
    """Return the one sentence with which `scanline ARGUMENTS` ends;
    assert status 2 and no other output.
    """
    return sentence_of(scanline(*arguments))


def sentence_of(ran):
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert ran.err.startswith("scanline: ")
    return ran.err.removeprefix("scanline: ").removesuffix("\n")
