"""Likelihoods of partly known images: what their known bytes cost, whatever the hidden ones are.

The hidden bytes are painted several times, each time with particles that the known bytes weigh. A painting's
2^-evidence_bits is an unbiased estimate of the probability of the known bytes, and so is the mean over the repeats.
"""

from collections.abc import Iterator

from scanline.model.inputs import checked_seed
from scanline.model.marginal_likelihood import check_known, estimate
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.api.jobs import finite_or_null, known_pictures
from scanline.server.api.payload import offload
from scanline.server.api.payload.response_schemas import Evidence
from scanline.server.api.payload.schemas import LikelihoodRequest
from scanline.server.api.payload.uploads import uploads
from scanline.server.engine.job import Job
from scanline.server.process.registry import ServedModel


async def evidence_request(fields: LikelihoodRequest, label: int, model: ServedModel, client: str) -> GenerateRequest:
    """Return the request that paints the hidden bytes of each picture as often as it asks for, at temperature 1.

    InvalidInput where a picture is wrong or a mask leaves nothing known.
    """
    sources = await offload.collect(known_pictures(fields, model.config), sum(map(len, uploads(fields))))
    check_known(sources[0][1].count(1), "keep_rows" if fields.mask is None else "mask")
    return GenerateRequest(
        id=next(model.engine.request_ids),
        images=len(sources) * fields.repeats,
        seed=checked_seed(fields.seed),
        known=tuple(known for known, _ in sources),
        masks=tuple(mask for _, mask in sources),
        label=label,
        particles=fields.particles,
        client=client,
    )


def evidence_of(job: Job, request: GenerateRequest) -> Iterator[Evidence]:
    """Yield the estimate of each picture, from all its paintings."""
    repeats = request.images // len(request.masks)
    for index, mask in enumerate(request.masks):
        found = estimate(job.evidence_bits[index * repeats : (index + 1) * repeats], mask.count(1))
        yield Evidence(
            index=index,
            evidence_bits=finite_or_null(found.bits),
            standard_error=finite_or_null(found.standard_error),
            known_bytes=found.known_bytes,
            bits_per_known_byte=finite_or_null(found.bits_per_dim),
        )
