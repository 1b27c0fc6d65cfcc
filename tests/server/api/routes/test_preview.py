"""The picture that other services show with a link to the page."""

import re
import shutil
from html import unescape
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from scanline.model.images.one_hand import one_hand
from scanline.server.api.base.page_paths import MAX_QUERY, PREVIEW
from scanline.server.api.routes import preview
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import post
from tests.support.server.metrics_reader import Metrics
from tests.support.server.routes import GENERATIONS
from tests.support.server.running_server import serve

TAG = re.compile(r'<meta property="og:image" content="([^"]*)"')


def cells(client, rows, columns, size, **query):
    """The images [rows, columns, H, W] of a preview."""
    answer = client.get(PREVIEW, params=query)
    assert answer.headers["content-type"] == "image/png"
    picture = np.asarray(Image.open(BytesIO(answer.content)).convert("L"))
    assert picture.shape == (preview.HEIGHT, preview.WIDTH)
    height, width = size
    scale = min(preview.WIDTH // (columns * width), preview.HEIGHT // (rows * height))
    top = (preview.HEIGHT - scale * rows * height) // 2
    left = (preview.WIDTH - scale * columns * width) // 2
    small = picture[top:, left:][::scale, ::scale][: rows * height, : columns * width]
    return small.reshape(rows, height, columns, width).swapaxes(1, 2)


def test_it_has_the_first_images_of_the_link(shapes_client):
    fields = {"seed": 2**63 - 1, "class": "star", "temperature": 0.9}
    images = painted(post(shapes_client, GENERATIONS, n=8, guidance=1, **fields))
    size = images.shape[1:3]
    # as many as there are, and 8 of more; other fields of an address have other uses
    for n in (3, 8, 9, 1024):
        count = min(n, preview.IMAGES)
        rows = -(-count // preview.COLUMNS)
        columns = min(count, preview.COLUMNS)
        found = cells(shapes_client, rows, columns, size, n=n, utm_source="mail", **fields)
        assert (found.reshape(count, *size) == images[:count]).all()
    # without a seed it is the same picture each time, of the model's defaults
    default = painted(post(shapes_client, GENERATIONS, n=8, seed=preview.SEED))
    assert (cells(shapes_client, 2, 4, size).reshape(default.shape) == default).all()


def test_it_is_painted_once(shapes_client):
    def counted():
        return Metrics(shapes_client).of("images_total")

    before = counted()
    query = {"seed": 12345, "n": 2}
    first, second = (shapes_client.get(PREVIEW, params=query) for _ in range(2))
    assert first.content == second.content
    assert counted() - before == 2


@pytest.fixture(scope="module")
def digits_client(digits_directory):
    with serve(digits_directory, "--slots", "64") as server, server.client() as client:
        yield client


def test_what_is_written_stands_in_lines_with_its_blanks(digits_client):
    letters = "202602"
    classes = {"class": list(letters), "guidance": 1}
    images = one_hand(painted(post(digits_client, GENERATIONS, seed=7, **classes)))
    size = images.shape[1:3]
    found = cells(digits_client, 1, 7, size, seed=7, write="2026 02")[0]
    assert (found[[0, 1, 2, 3, 5, 6]] == images).all()
    assert (found[4] == 0).all()
    # 12 characters a line, and at most 32
    long = cells(digits_client, 2, 12, size, seed=7, write=12 * "2" + " 0")
    assert (long[1, 1:] == 0).all()
    assert digits_client.get(PREVIEW, params={"write": 32 * "2"}).status_code == 200
    refused = digits_client.get(PREVIEW, params={"write": 33 * "2"})
    assert_refused(refused, 400, "write", "invalid_value")
    assert refused.json()["error"]["message"] == "write has at most 32 characters."


def test_what_is_written_has_the_guidance_of_the_model(digits_directory, tmp_path):
    directory = shutil.copytree(digits_directory, tmp_path / "guided")
    (directory / "generation_config.json").write_text('{"guidance": 3, "best_of": 8}')
    with serve(directory) as server, server.client() as client:
        written = {"seed": 7, "class": ["2", "0"], "best_of": 1}
        images = painted(post(client, GENERATIONS, **written))
        assert (images != painted(post(client, GENERATIONS, guidance=1, **written))).any()
        found = cells(client, 1, 2, images.shape[1:3], seed=7, write="20")[0]
        assert (found == one_hand(images)).all()
        # a link that names neither class nor guidance has none
        plain = painted(post(client, GENERATIONS, seed=7, n=1, guidance=1, **{"class": "none"}))
        assert (cells(client, 1, 1, images.shape[1:3], seed=7, n=1)[0, 0] == plain[0]).all()


WRONG = {
    "model": "other",
    "seed": 2**63,
    "n": 0,
    "temperature": 2.01,
    "class": "cat",
}


@pytest.mark.parametrize("param", WRONG)
def test_a_wrong_field_is_refused_in_a_sentence(shapes_client, param):
    response = shapes_client.get(PREVIEW, params={param: WRONG[param]})
    assert response.status_code in (400, 404)
    error = response.json()["error"]
    assert error["param"] == param
    assert error["message"].endswith(".")


def test_the_query_of_a_link_has_at_most_so_many_bytes(shapes_client):
    start = "model=other&more="
    longest = start + (MAX_QUERY - len(start)) * "a"
    assert shapes_client.get(f"{PREVIEW}?{longest}").status_code == 404
    assert shapes_client.get(f"{PREVIEW}?{longest}a").status_code == 200  # as without a query


def test_the_page_names_it_by_the_address_that_the_client_has_used(shapes_client):
    query = 'seed=7&n=2&class=star&fbclid=1&write="><b>'
    headers = {"host": "localhost:8443"}

    def named(**more):
        page = shapes_client.get(f"/?{query}", headers={**headers, **more}).text
        (address,) = TAG.findall(page)
        assert "<b>" not in page
        return unescape(address)

    fields = "n=2&seed=7&class=star&write=%22%3E%3Cb%3E"
    assert named() == f"http://localhost:8443/preview.png?{fields}"
    behind = {"x-forwarded-proto": "https", "x-forwarded-prefix": "/digits/"}
    assert named(**behind) == f"https://localhost:8443/digits/preview.png?{fields}"
    odd = {"x-forwarded-proto": "javascript", "x-forwarded-prefix": '"/x'}
    assert named(**odd) == f"http://localhost:8443/preview.png?{fields}"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_cannot_have_it_painted(shapes_client, site):
    answer = shapes_client.get(PREVIEW, headers={"sec-fetch-site": site})
    assert_refused(answer, 403, None, "origin_not_allowed")
    own = shapes_client.get(PREVIEW, headers={"sec-fetch-site": "same-origin"})
    assert own.status_code == 200


def test_a_server_with_keys_has_none(guarded_server):
    with guarded_server.client() as client:
        assert TAG.findall(client.get("/?seed=7").text) == []
        assert_refused(client.get(PREVIEW), 401, None, "invalid_api_key")
