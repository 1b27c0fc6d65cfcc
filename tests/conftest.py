"""Settings for all tests, and the two tiny models that most of them paint with.

Tests are seeded. torch gets one thread, since a second one costs more than it saves on small
tensors. Without a GPU, Triton kernels run in its interpreter, which must be chosen before the first
of them is imported. torch is imported by functions only, since the process that distributes tests
to workers reads this file and needs none.
"""

import asyncio
import atexit
import gc
import inspect
import os
from importlib import import_module
from importlib.util import find_spec

import pytest

from tests.support.waiting import PATIENCE

gc.disable()  # until all tests are collected, which takes a fifth less time so
if find_spec("hypothesis"):  # a bare GPU machine has only what kernels and model need
    from hypothesis import HealthCheck, settings

    # few examples of each property by default, many with `--hypothesis-profile
    # many`; no example is judged by its time
    seeded_examples = settings(
        derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("few", seeded_examples, max_examples=15)
    settings.register_profile("many", seeded_examples, max_examples=500)
    settings.load_profile("few")


# the files and folders whose tests run on one worker, and what that
# worker alone starts or imports for them
SHARED = {
    "tests/server/web": "a browser",
    "tests/server/cluster": "a Ray cluster",
    "tests/server/api/middleware": "a server with API keys",
    "tests/server/api/routes": "servers of models without and with classes, and a full one",
    "tests/server/api/openai": "openai",
    "tests/model/training": "torch._dynamo and matplotlib",
    "tests/model/backends/cuda/test_particles.py": "torch._dynamo and matplotlib",
    "tests/kernels/causal_conv/test_triton.py": "torch._dynamo and matplotlib",
    "tests/model/evaluation": "torch._dynamo and matplotlib",
    "tests/server/cli/train": "torch._dynamo and matplotlib",
    "tests/server/cli/test_evaluate.py": "torch._dynamo and matplotlib",
}


def pytest_addoption(parser, pluginmanager):
    """Accept and ignore the xdist options of pyproject.toml where xdist is missing or disabled."""
    parser.addoption("--compared", metavar="FILE", help="for tests/support/compared.py")
    if not pluginmanager.hasplugin("xdist"):
        for option in ("--numprocesses", "--dist"):
            parser.addoption(option, help="ignored without xdist")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Distribute files, those of SHARED that need the same to one worker. `--dist=loadgroup` does
    not do this: xdist 3.8 ignores its marks under pytest 9.2."""
    from xdist.scheduler.loadfile import LoadFileScheduling

    class SharedScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            needed = [SHARED[start] for start in SHARED if nodeid.startswith(start)]
            return needed[0] if needed else super()._split_scope(nodeid)

    return SharedScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config):
    """Make servers forks of the worker of xdist that starts them, which
    saves it a second import of torch.
    """
    # which kernels and model are tested without
    if hasattr(config, "workerinput") and find_spec("fastapi"):
        pytest_collection()
        forked_server = import_module("tests.support.server.forked_server")
        capture = config.pluginmanager.getplugin("capturemanager")
        if forked_server.AVAILABLE and capture:
            # engines log into what is captured of the test that runs then
            capture.resume_global_capture()
            # before tests are collected, since forks of a small process cost less
            forked_server.fork_this_process()
            capture.suspend_global_capture()
            gc.disable()  # again: what engines preload enables it


def pytest_collection():
    """Not called where tests are distributed only."""
    import torch

    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_finish():
    """Collect garbage from now on, without the objects of imports
    and tests, which stay to the end.
    """
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # after pytest's own collections: libraries look for leaks at exit


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine, on the loop of the fixture `runner`
    where one of its fixtures needs that.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run = (
        pyfuncitem._request.getfixturevalue("runner").run
        if "runner" in pyfuncitem.fixturenames
        else asyncio.run
    )
    run(asyncio.wait_for(pyfuncitem.obj(**given), PATIENCE))
    return True


@pytest.fixture(autouse=True)
def seeded():
    import torch

    torch.manual_seed(0)


@pytest.fixture
def compared(request):
    """A function that counts the bytes of what a test marked `compared` has found equal."""
    from tests.support.compared import record

    row = request.node.get_closest_marker("compared").args
    file = request.config.getoption("compared")
    return lambda *values: record(file, row, values)


def saved(name, folders):
    from scanline.model.formats.checkpoint import save_model
    from tests.support import small_models

    directory = folders.mktemp("models") / name.lower()
    save_model(small_models.model(getattr(small_models, name)), directory)
    return directory


@pytest.fixture(scope="session")
def grey_directory(tmp_path_factory):
    return saved("GREY", tmp_path_factory)


@pytest.fixture(scope="session")
def colour_directory(tmp_path_factory):
    return saved("COLOUR", tmp_path_factory)


@pytest.fixture(scope="session")
def grey(grey_directory):
    """7 rows of 5 grey pixels; the weights are those of the file, in float16."""
    from scanline.model.formats.checkpoint import load_model

    return load_model(grey_directory)


@pytest.fixture(scope="session")
def colour(colour_directory):
    """3 rows of 4 RGB pixels."""
    from scanline.model.formats.checkpoint import load_model

    return load_model(colour_directory)


@pytest.fixture
def engine(grey):
    """An engine loop in this process, with five slots."""
    from scanline.model.sampling.base.generator import Generator
    from scanline.model.sampling.engine import Engine

    generator = Generator(grey, 5, threads=1)
    yield Engine(generator)
    generator.close()
