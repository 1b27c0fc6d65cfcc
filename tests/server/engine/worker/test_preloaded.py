"""The fork server's imports: they ask for no GPU, since CUDA works in no fork of a process that has asked."""

import importlib
import multiprocessing
import sys
from unittest import mock

import torch


def import_anew() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "scanline"]:
        del sys.modules[name]
    asked = mock.Mock(side_effect=AssertionError("an import asks for a GPU"))
    with mock.patch.multiple(torch.cuda, is_available=asked, device_count=asked, init=asked, _lazy_init=asked):
        importlib.import_module("scanline.server.engine.worker.preloaded")


def test_no_import_asks_for_a_gpu() -> None:
    process = multiprocessing.get_context("fork").Process(target=import_anew)
    process.start()
    process.join()
    assert process.exitcode == 0
