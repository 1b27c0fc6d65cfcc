"""A number that the model writes by hand, in a real browser: in a row, saved, and painted again from its link."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.server.web.test_first_minute import MAX_SHIFT, OBSERVE, SIZES, shift
from tests.support.page.visitor import Visit, painted
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import NO_DELAY, arguments


@pytest.fixture(scope="module")
def digits(digits_directory: Path) -> Iterator[Server]:
    with serve(digits_directory, "--slots", "64", *arguments(NO_DELAY)) as server:
        yield server


@pytest.mark.parametrize("size", SIZES)
def test_a_number_is_written_in_a_row_and_its_link_writes_it_again(visit: Visit, digits: Server, size: str) -> None:
    visitor = visit("about:blank", *SIZES[size])
    visitor.page.add_init_script(OBSERVE)
    visitor.page.goto(digits.url)
    visitor.expect_done(32)
    rows: list[np.ndarray] = []
    for _ in range(2):
        visitor.see("#write").fill("2026")
        visitor.page.keyboard.press("Enter")
        visitor.expect_done(4)
        row = np.asarray(Image.open(visitor.saved("#save-sheet")))[::4, ::4]
        with digits.client() as client:
            link = httpx.URL(visitor.page.url).params
            fields = {"class": [*link["write"]], "seed": int(link["seed"]), "guidance": float(link.get("guidance", 1))}
            images = painted(client, **fields)
        assert link["write"] == "2026"
        assert (np.load(visitor.saved("#save-array")) == images).all()
        assert (row[..., 0] == np.concatenate([*images], axis=1)).all()
        rows.append(row)
    assert (rows[0] != rows[1]).any()  # another hand
    assert shift(visitor) <= MAX_SHIFT
    with Image.open(visitor.saved("#save-film")) as film:
        assert film.size[0] == 4 * 5 / 7 * film.size[1]
    tops = {tile.bounding_box()["y"] for tile in visitor.see(".tile").all()}  # type: ignore[index]
    assert len(tops) == 1
    second = visit(visitor.page.url, *SIZES[size])
    second.expect_done(4)
    expect(second.see("#write")).to_have_value("2026")
    assert (np.asarray(Image.open(second.saved("#save-sheet")))[::4, ::4] == rows[1]).all()


def test_what_the_model_cannot_write_is_said(visit: Visit, digits: Server, server: Server) -> None:
    visitor = visit(f"{digits.url}/?write=2x&seed=3")
    visitor.expect_notice("This model writes 2 0 6 only, not x.")
    expect(visitor.see("#write")).to_be_focused()
    expect(visitor.see(".tile")).to_have_count(0)
    for text in ("", "2" * 33):
        visitor.see("#write").fill(text)
        visitor.see("#write-form .primary").click()
        visitor.expect_notice("Type 1 to 32 characters to write.")
    visitor.page.goto(f"{server.url}/?seed=3&n=2")  # a model without classes
    visitor.expect_done(2)
    expect(visitor.see("#write-form")).to_be_hidden()
