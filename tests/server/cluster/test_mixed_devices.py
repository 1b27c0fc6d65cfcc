"""Replicas on processors and on graphics cards: with int8 weights they share requests and codes, at
other arithmetic they share none, and a line of the log says so. The card is Triton's interpreter.
"""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed")

import scanline
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks import decode, encode
from scanline.model.tasks.decode import DecodeValues
from scanline.model.tasks.encode import EncodeValues
from scanline.server.engine.job import Job
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import OtherModelError, Route
from scanline.server.models import registry
from tests.support import small_models
from tests.support.cluster.local_replicas import local_pool
from tests.support.engine.engines import with_deadline
from tests.support.engine.interpreted import CONFIG, InterpretedOptions
from tests.support.engine.jobs import PaintJob
from tests.support.kernels.native import NATIVE

pytestmark = NATIVE
CPU = {"backend": "cpu", "precision": "int8", "slots": 4}
CARD = CPU | {"backend": "cuda"}


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "EngineOptions", InterpretedOptions)
    monkeypatch.setattr(over_ray, "MIN_SHARD", 2)
    directory = tmp_path / "tiny"
    save_model(small_models.model(CONFIG), directory)
    return directory


async def done(pool, task):
    """Run a task on the replicas of a pool, and return its result."""
    request = replace(task.request, id=next(pool.request_ids))
    with pool.run(Job(request, task)) as job:
        await with_deadline(job.wait())
    for _ in task.work():
        pass
    return task.result()


def sampled(model):
    """What a machine paints for that job."""
    images = model.sample(4, seed=7)
    return images.array.reshape(4, -1)


async def painted(pool):
    request = GenerateRequest(next(pool.request_ids), 4, seed=7)
    with pool.run(PaintJob(request, CONFIG)) as job:
        await with_deadline(job.wait())
    return job.task.images


@pytest.mark.slow  # the interpreter takes its time
@pytest.mark.compared(
    "a request and a file of codes, in 8 bits",
    "one CPU",
    "replicas on CPU and card, Triton's interpreter",
)
async def test_with_int8_weights_they_share_requests_and_codes(directory, capfd, compared):
    model = scanline.load(directory, precision="int8", device="cpu")
    async with local_pool(directory, directory, settings=(CPU, CARD)) as (handle, pool):
        cpu, card = handle.replicas
        assert card.engine.ready.backend_name == "cuda"
        images = await painted(pool)
        assert {replica for _, replica in handle.sent} == {cpu, card}
        assert np.array_equal(images, sampled(model))

        # What one encodes, the other decodes.
        codings = pool.ready.codings
        info = ModelInfo(CONFIG)
        nothing = np.zeros(2, np.int64)
        for encoding, decoding in ((cpu, card), (card, cpu)):
            values = EncodeValues([None, None], codings[0], "int8")
            encoder = encode.plan(info, values)
            encoder.fill([Cleaned(images[:2], nothing > 0, nothing)])
            handle.route = lambda _, replica=encoding: replica
            encoded = await done(pool, encoder)
            file = encoded.file
            pictures = images[:2].reshape(2, CONFIG.height, CONFIG.width)
            assert file.to_bytes() == model.compress(pictures)
            handle.route = lambda _, replica=decoding: replica
            decoder = decode.plan(info, DecodeValues([file], range(2), codings, "int8"))
            decoded = await done(pool, decoder)
            assert np.array_equal(decoded.images, images[:2])
            compared(file.to_bytes(), images[:2])
    compared(images)
    assert "share no request" not in capfd.readouterr().err


async def test_replicas_of_other_arithmetic_share_no_request_and_the_log_says_so_once(
    directory, capfd
):
    exact = {**CPU, "precision": "exact"}
    async with local_pool(directory, directory, settings=(CPU, exact)) as (handle, pool):
        images = await painted(pool)
        digests = [replica.engine.ready.digest for replica in handle.replicas]
        request = GenerateRequest(0, 2, 7, digest=digests[1])
        refusal = f"^its model is {digests[0]}, the request's is {digests[1]}$"
        with pytest.raises(OtherModelError, match=refusal):
            await anext(handle.replicas[0].run(request, Route()))
        statuses = []
        for replica in handle.replicas:
            statuses.append(await replica.status("a test", 0))
        pool.update(statuses, others=0)
    by_one = []
    for precision in ("int8", "exact"):
        model = scanline.load(directory, precision=precision, device="cpu")
        by_one.append(np.array_equal(images, sampled(model)))
    assert any(by_one)
    line = (
        "the replicas of tiny have other weights, builds, precisions or devices than each other,"
        f" and share no request: their digests are {' and '.join(sorted(digests))} "
    )
    assert capfd.readouterr().err.count(line) == 1
