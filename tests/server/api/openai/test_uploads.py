"""Pictures and masks in every way in which the official OpenAI client takes them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.pictures import encode, noise
from tests.support.server.openai_clients import official, pictures
from tests.support.server.running_server import Server

if TYPE_CHECKING:
    import openai

IMAGE = noise(7, 5)
FILE = encode(IMAGE)
OTHERS = noise(3, 7, 5, seed=1)
KNOWN = np.ones((7, 5), bool)
KNOWN[2:5, 1:3] = False
ALPHA = np.where(KNOWN, np.uint8(255), np.uint8(0))


IMAGES: dict[str, Callable[[Path], Any]] = {  # label: what is given as `image`, of the path of a file
    "bytes": lambda path: FILE,
    "a path": lambda path: path,
    "a list of an open file of a misleading name": lambda path: [path.rename(path.with_suffix(".jpg")).open("rb")],
    "a name, bytes and a misleading type": lambda path: ("image.png", FILE, "text/plain"),
    "a WebP": lambda path: encode(IMAGE, "WEBP", lossless=True),
}

MASKS = {  # label: what is given as `mask`
    "alpha": encode(np.dstack((np.zeros((7, 5, 3), np.uint8), ALPHA))),
    "black and white": encode(ALPHA),
    "a file": io.BytesIO(encode(ALPHA)),
    "a name, bytes and a type": ("mask.png", encode(ALPHA), "image/png"),
}


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with official(server.url) as client:
        yield client


@pytest.mark.parametrize("label", IMAGES)
def test_an_image_is_read(client: openai.OpenAI, tmp_path: Path, label: str) -> None:
    (tmp_path / "image.png").write_bytes(FILE)
    answer = client.images.edit(image=IMAGES[label](tmp_path / "image.png"), prompt="", extra_body={"keep_rows": 4})
    np.testing.assert_array_equal(pictures(answer)[:, :4], IMAGE[None, :4])


@pytest.mark.parametrize("label", MASKS)
def test_a_mask_is_read(client: openai.OpenAI, label: str) -> None:
    answer = client.images.edit(image=FILE, mask=MASKS[label], prompt="", n=2, extra_body={"seed": 7})
    again = client.images.edit(image=FILE, mask=encode(ALPHA), prompt="", n=2, extra_body={"seed": 7})
    np.testing.assert_array_equal(pictures(answer)[:, KNOWN], np.stack([IMAGE[KNOWN]] * 2))
    assert answer.data == again.data


def test_a_list_of_several_is_painted_image_after_image(client: openai.OpenAI) -> None:
    first, second, third = (encode(image) for image in OTHERS)
    files = [first, io.BytesIO(second), ("third.png", third, "image/png")]
    answer = client.images.edit(image=files, mask=encode(ALPHA), prompt="", n=2)
    np.testing.assert_array_equal(pictures(answer)[:, KNOWN], np.repeat(OTHERS, 2, axis=0)[:, KNOWN])


def test_every_field_of_a_form_is_read(client: openai.OpenAI) -> None:
    """Numbers and truths are text there."""
    fields = {"model": "grey", "n": 2, "size": "5x7", "response_format": "b64_json", "output_format": "webp"}
    harmless = {"background": "auto", "quality": "auto", "input_fidelity": "low", "output_compression": 100}
    ours = {"keep_rows": 4, "seed": 7, "temperature": 0.9}
    answer = client.images.edit(image=FILE, prompt="", stream=False, **fields, **harmless, extra_body=ours)
    assert (answer.output_format, answer.seed, len(answer.data or [])) == ("webp", 7, 2)


def test_a_streamed_edit_is_that_of_an_answer_in_one_piece(client: openai.OpenAI) -> None:
    fields = {"image": [encode(image) for image in OTHERS], "mask": encode(ALPHA), "prompt": "", "n": 2}
    whole = client.images.edit(**fields, extra_body={"seed": 7})
    stream = client.images.edit(**fields, extra_body={"seed": 7}, stream=True)
    assert {event.index: event.b64_json for event in stream} == {one.index: one.b64_json for one in whole.data or []}
