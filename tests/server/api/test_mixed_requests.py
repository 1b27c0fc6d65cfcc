"""The property test of mixed requests over HTTP: each answer is the same as
alone, also where an engine is killed, or two processes have their models
reloaded; in the end the server holds nothing."""

import pytest

from tests.support.server.metrics_reader import Metrics
from tests.support.server.mixed_requests import KINDS, Mix, serve_models

# seeds of mixes; the first ones have all KINDS
MIXES = [(17, 35), pytest.param(range(40, 65), marks=pytest.mark.fuzz)]
KILLS = [(100, 101), pytest.param(range(102, 118), marks=pytest.mark.fuzz)]

RELOADS = [(200, 201), pytest.param(range(202, 212), marks=pytest.mark.fuzz)]


@pytest.fixture(scope="module")
def mixed_server(tmp_path_factory):
    with serve_models(tmp_path_factory.mktemp("mixed")) as server:
        yield server


@pytest.mark.parametrize("seeds", MIXES, ids=["few", "many"])
def test_answers_are_the_same_whatever_else_is_asked(mixed_server, seeds):
    mixes = [Mix(seed) for seed in seeds]
    assert KINDS - {kind for mix in mixes for kind in mix.kinds} == set()
    for seed, mix in zip(seeds, mixes, strict=True):
        assert not mix.faults(mixed_server), f"of mix {seed}"


@pytest.mark.parametrize("seeds", KILLS, ids=["few", "many"])
def test_answers_are_the_same_where_an_engine_is_killed(mixed_server, seeds):
    with mixed_server.client() as client:
        restarts = Metrics(client).of("engine_restarts_total")
        for seed in seeds:
            assert not Mix(seed).faults(mixed_server, kills=True), f"of mix {seed}"
        assert Metrics(client).of("engine_restarts_total") == restarts + len(seeds)


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    options = {"api-processes": 2, "precision": "int8"}
    with serve_models(tmp_path_factory.mktemp("mixed"), **options) as server:
        yield server


@pytest.mark.parametrize("seeds", RELOADS, ids=["few", "many"])
def test_answers_of_two_processes_are_the_same_where_models_are_reloaded(two_processes, seeds):
    for seed in seeds:
        assert not Mix(seed).faults(two_processes, kills=True, reloads=True), f"of mix {seed}"
