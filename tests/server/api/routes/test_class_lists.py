"""A list of classes paints one image of each, in one row of a sheet: over HTTP, in Python and on the command line."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from scanline.model.inference import load
from scanline.model.inputs import InvalidInput
from tests.support.commands import done
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.running_server import serve
from tests.support.server.shared_servers import NO_DELAY, arguments

URL = "/v1/images/generations"
EXCLUDED = "class and a prompt exclude each other where one is a list; send one."
NAMES = "class must be a name of at most 256 characters, or a list of such names."


@pytest.fixture(scope="module")
def client(digits_directory: Path) -> Iterator[httpx.Client]:
    with (
        serve(digits_directory, "--slots", "8", "--max-images-per-request", "8", *arguments(NO_DELAY)) as server,
        server.client() as client,
    ):
        yield client


@pytest.mark.parametrize("more", [{}, {"guidance": 2}, {"n": 4}])
def test_each_image_is_that_of_its_class_alone(client: httpx.Client, more: dict[str, int]) -> None:
    """Image i is image i of the same request with its class alone; a list of one class is a request for n of it."""
    names = ["2", "horse", "TWO", 6]
    answer = client.post(URL, json={"class": names, "seed": 7, **more}).json()
    assert [each["class"] for each in answer["data"]] == ["2", "horse", "2", "6"]
    images = painted(answer)
    for index, name in enumerate(names):
        alone = client.post(URL, json={**more, "class": name, "seed": 7, "n": index + 1}).json()
        assert (painted(alone)[index] == images[index]).all()
    of_one = {"class": ["6"] * 3, "seed": 7}
    three = {"class": "6", "seed": 7, "n": 3}
    assert (painted(client.post(URL, json=of_one).json()) == painted(client.post(URL, json=three).json())).all()


def test_a_prompt_of_digits_python_and_the_command_line_paint_the_same_row(
    client: httpx.Client, digits_directory: Path, tmp_path: Path
) -> None:
    asked: tuple[dict[str, object], ...] = ({"prompt": "2026"}, {"class": ["2", "0", "2", "6"]})
    sheets = [client.post(URL, json={**fields, "seed": 3}, headers={"accept": "image/png"}) for fields in asked]
    model = load(digits_directory, device="cpu")
    images = model.sample(class_name=["2", "0", "2", "6"], seed=3)
    images.save(tmp_path / "python.png")
    done("sample", "--model", digits_directory, "--class", "2026", "--seed", 3, "--out", tmp_path / "command.png")
    files = [(tmp_path / name).read_bytes() for name in ("python.png", "command.png")]
    row = np.concatenate([*images], axis=1)
    for file in (*(sheet.content for sheet in sheets), *files):
        assert (np.asarray(Image.open(BytesIO(file))) == row).all()
    film = client.post(URL, json={**asked[0], "seed": 3, "scale": 1}, headers={"accept": "image/gif"})
    assert Image.open(BytesIO(film.content)).size == (20, 7)
    assert images.classes == ("2", "0", "2", "6")
    assert len(model.sample(class_name=["none", "2"])) == 2


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        ({"class": []}, "class", "class must list at least one class."),
        ({"class": ["2", "9"]}, "class", "class must be one of 2, 0, 6, horse, not '9'."),
        ({"class": ["2", "any"]}, "class", 'class "any" cannot be in a list of classes; name each of them.'),
        ({"class": ["2", None]}, "class", NAMES),
        ({"class": {"2": 0}}, "class", NAMES),
        ({"class": ["2", "x" * 257]}, "class", NAMES),
        ({"class": ["2", "0"], "n": 3}, "n", "n must be 2, the number of classes that are listed, or be left out."),
        ({"prompt": "20", "n": 1}, "n", "n must be 2, the number of classes that are listed, or be left out."),
        ({"class": ["2"] * 9}, "class", "class: 9 images exceed the limit of 8 per request."),
        ({"prompt": "2" * 9}, "prompt", "prompt: 9 images exceed the limit of 8 per request."),
        ({"prompt": "20", "class": "2"}, "class", EXCLUDED),
        ({"prompt": "two", "class": ["2"]}, "class", EXCLUDED),
        ({"class": ["2", "none"], "guidance": 2}, "guidance", "guidance needs a class, or a prompt that names one."),
    ],
)
def test_a_wrong_list_gets_one_sentence(
    client: httpx.Client, fields: dict[str, object], param: str, sentence: str
) -> None:
    response = client.post(URL, json=fields)
    assert_refused(response, 400, param, "invalid_value")
    assert response.json()["error"]["message"] == sentence


def test_a_completion_has_one_class(digits_directory: Path) -> None:
    model = load(digits_directory, device="cpu")
    with pytest.raises(InvalidInput, match="a list of classes is for images that are painted from nothing"):
        model.complete(np.zeros((7, 5), np.uint8), keep_rows=2, class_name=["2"])  # type: ignore[arg-type]
