"""POST /v1/images/steps: the numbers of some steps of an image are those of the recurrence."""

from base64 import b64decode

import numpy as np
import torch

from scanline.model.base.state import State
from tests.support.close import assert_close
from tests.support.pictures import encode, noise, text
from tests.support.server.json_requests import post
from tests.support.server.routes import STEPS

LAYER = 1
HEAD = 0
FIRST = 7
COUNT = 20
IMAGE = noise(3, 4, 3)


def inspected(client, **fields):
    picture = {"image": text(encode(IMAGE))}
    return post(
        client,
        STEPS,
        **picture,
        **{"layer": LAYER, "head": HEAD, "first": FIRST, "steps": COUNT, **fields},
    )


def test_every_number_is_that_of_the_recurrence(colour_client, colour):
    answer = inspected(colour_client)
    c = colour.config.key_width
    m = colour.config.value_width
    shapes = dict.fromkeys(("q", "k", "phi_q", "phi_k", "z"), (-1, c))
    shapes |= {"v": (-1, m), "y": (-1, m), "s": (-1, c, m), "probabilities": (-1, 256)}
    arrays = {
        name: torch.tensor(np.frombuffer(b64decode(answer[name]), "<f4")).reshape(shape)
        for name, shape in shapes.items()
    }
    q, k, v, phi_q, phi_k, s, z, y = (
        arrays[name] for name in ("q", "k", "v", "phi_q", "phi_k", "s", "z", "y")
    )
    assert (len(q), len(s), answer["steps"]) == (COUNT, COUNT + 1, COUNT)
    assert_close("phi(q)", torch.nn.functional.elu(q) + 1, phi_q)
    assert_close("phi(k)", torch.nn.functional.elu(k) + 1, phi_k)
    assert_close("s", s[:-1] + phi_k.unsqueeze(2) * v.unsqueeze(1), s[1:])
    assert_close("z", z[:-1] + phi_k, z[1:])
    assert_close(
        "y", torch.einsum("nc,ncm->nm", phi_q, s[1:]) / (phi_q * z[1:]).sum(dim=1, keepdim=True), y
    )
    images = torch.tensor(IMAGE).reshape(1, -1)
    state = State.zeros(colour.config, 1)
    with torch.inference_mode():
        bits = colour.bits(colour.parallel(images, state, FIRST + COUNT), images, 0, FIRST + COUNT)[
            0, FIRST:
        ]
    assert_close("s of the model", state.s[LAYER, 0, HEAD], s[-1])
    drawn = (
        arrays["probabilities"]
        .gather(1, images[0, FIRST : FIRST + COUNT].long().unsqueeze(1))
        .squeeze(1)
    )
    assert_close("bits", bits.float(), -drawn.log2())
    assert_close("sum", torch.ones(COUNT), arrays["probabilities"].sum(dim=1))


def test_the_state_is_constant_and_the_cache_grows(colour_client):
    early, late = (inspected(colour_client, first=first, steps=1)["attention"] for first in (0, 35))
    assert early["state_bytes"] == late["state_bytes"]
    assert late["cache_bytes"] == 36 * early["cache_bytes"]
