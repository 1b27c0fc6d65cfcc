"""The official OpenAI client, unchanged but for its base_url."""

from collections.abc import Iterator

import numpy as np
import openai
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from tests.support.openai_clients import official as connect
from tests.support.openai_clients import pictures
from tests.support.pictures import encode, noise
from tests.support.running_server import Server

IMAGE = noise(7, 5)
MASK = np.dstack((np.zeros((7, 5, 3), np.uint8), np.full((7, 5), 255, np.uint8)))
MASK[2:5, 1:3, 3] = 0
KNOWN = MASK[..., 3] == 255


@pytest.fixture
def official(server: Server) -> Iterator[openai.OpenAI]:
    with connect(server.url) as client:
        yield client


def test_models_are_listed(official: openai.OpenAI) -> None:
    assert [model.id for model in official.models.list()] == ["grey"]


def test_a_model_is_retrieved_with_what_is_ours(official: openai.OpenAI) -> None:
    model = official.models.retrieve("grey")
    assert (model.id, model.height, model.width) == ("grey", 7, 5)


def test_images_are_generated(official: openai.OpenAI) -> None:
    answer = official.images.generate(prompt="", model="grey", n=3, size="5x7", response_format="b64_json")
    assert pictures(answer).shape == (3, 7, 5)


def test_our_fields_go_in_and_come_out(official: openai.OpenAI) -> None:
    first, again = (official.images.generate(prompt="", extra_body={"seed": 7, "temperature": 0.9}) for _ in range(2))
    assert first.seed == 7
    assert first.data == again.data


def test_images_are_those_of_painting_without_a_server(official: openai.OpenAI, grey: Transformer) -> None:
    alone = paint(grey, 3, seed=7, temperature=0.9).images.reshape(3, 7, 5)
    answer = official.images.generate(prompt="", n=3, extra_body={"seed": 7, "temperature": 0.9})
    np.testing.assert_array_equal(pictures(answer), alone)


def test_what_is_none_is_as_if_it_were_not_there(official: openai.OpenAI) -> None:
    names = ("model", "n", "size", "response_format", "output_format", "stream", "partial_images")
    harmless = ("background", "quality", "style", "moderation", "output_compression")
    answer = official.images.generate(prompt="", **dict.fromkeys((*names, *harmless)))
    assert (pictures(answer).shape, answer.output_format) == ((1, 7, 5), "png")


def test_a_raw_response_has_headers_and_the_answer(official: openai.OpenAI) -> None:
    raw = official.images.with_raw_response.generate(prompt="", extra_body={"seed": 7})
    assert raw.headers["x-scanline-seed"] == "7"
    assert raw.parse().data == official.images.generate(prompt="", extra_body={"seed": 7}).data


def test_a_picture_is_streamed_as_it_is(official: openai.OpenAI, grey: Transformer) -> None:
    wanted = {"prompt": "", "extra_body": {"seed": 7}, "extra_headers": {"accept": "application/x-npy"}}
    with official.images.with_streaming_response.generate(**wanted) as raw:
        data = b"".join(raw.iter_bytes())
    assert data.endswith(paint(grey, 1, seed=7).images.tobytes())


def test_an_answer_has_the_id_of_its_request(official: openai.OpenAI) -> None:
    answer = official.images.generate(prompt="", extra_headers={"x-request-id": "mine-1"})
    assert answer._request_id == "mine-1"


def test_usage_is_read(official: openai.OpenAI) -> None:
    usage = official.images.generate(prompt="").usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (0, 35, 35)


def test_bytes_are_edited(official: openai.OpenAI) -> None:
    answer = official.images.edit(image=encode(IMAGE), prompt="", n=2, extra_body={"keep_rows": 4, "seed": 7})
    np.testing.assert_array_equal(pictures(answer)[:, :4], np.stack((IMAGE, IMAGE))[:, :4])


def test_a_mask_is_obeyed(official: openai.OpenAI) -> None:
    answer = official.images.edit(image=encode(IMAGE), mask=("m.png", encode(MASK), "image/png"), prompt="")
    np.testing.assert_array_equal(pictures(answer)[0][KNOWN], IMAGE[KNOWN])


def test_a_list_of_images_is_edited(official: openai.OpenAI) -> None:
    others = noise(2, 7, 5, seed=1)
    answer = official.images.edit(image=[encode(image) for image in others], mask=encode(MASK), prompt="")
    np.testing.assert_array_equal(pictures(answer)[:, KNOWN], others[:, KNOWN])


def test_a_bad_request_names_its_parameter(official: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        official.images.generate(prompt="", extra_body={"temperature": 0})
    assert (caught.value.param, caught.value.code) == ("temperature", "invalid_value")


def test_a_misspelt_field_is_a_bad_request(official: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        official.images.edit(image=encode(IMAGE), prompt="", extra_body={"keep_row": 4})
    assert (caught.value.param, caught.value.code) == ("keep_row", "unknown_parameter")


def test_an_unknown_model_is_not_found(official: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        official.images.generate(prompt="", model="dall-e-2")
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
