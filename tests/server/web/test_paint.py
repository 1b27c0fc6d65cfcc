"""Paint, in a real browser: the page shows and saves the images that the API returns."""

import re
import signal
import subprocess
import zipfile
from io import BytesIO
from os import kill
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.support.page.visitor import Visit, painted
from tests.support.server.running_server import Server

LARGEST = 2**63 - 1


def test_the_page_paints_when_it_is_opened_and_its_url_paints_the_same(visit: Visit, server: Server) -> None:
    visitor = visit(server.url)
    visitor.expect_done(32)
    expect(visitor.see(".tile.done")).to_have_count(32)
    expect(visitor.see("#facts")).to_contain_text(" 7 grey ")
    assert re.fullmatch(r".*/\?model=grey&seed=\d+&temperature=1&n=32#paint", visitor.page.url)
    second = visit(visitor.page.url)
    second.expect_done(32)
    assert (np.load(visitor.saved("#save-array")) == np.load(second.saved("#save-array"))).all()


def test_a_link_paints_what_the_api_paints(visit: Visit, server: Server, client: httpx.Client) -> None:
    visitor = visit(f"{server.url}/?model=grey&seed={LARGEST}&temperature=0.8&n=5")
    visitor.expect_done(5)
    images = painted(client, n=5, seed=LARGEST, temperature=0.8)
    assert (np.load(visitor.saved("#save-array")) == images).all()


def test_colour_images_are_painted(visit: Visit, colour_server: Server, colour_client: httpx.Client) -> None:
    visitor = visit(f"{colour_server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    images = painted(colour_client, n=4, seed=3)
    assert (np.load(visitor.saved("#save-array")) == images).all()
    assert (visitor.gallery_image(3)[..., :3] == images[3]).all()


def test_images_are_enlarged_and_saved_one_by_one_and_together_and_shown_as_code(
    visit: Visit, server: Server, client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=5")
    visitor.expect_done(5)
    visitor.see(".tile").nth(2).click()
    expect(visitor.see("#viewer-title")).to_have_text("Image 3 of 5")
    image = np.asarray(Image.open(visitor.saved("#viewer-save")).convert("L"))
    assert (image == painted(client, n=5, seed=3)[2]).all()
    visitor.page.keyboard.press("ArrowRight")
    visitor.see("#viewer-next").click()
    visitor.page.keyboard.press("ArrowRight")  # there is no sixth
    expect(visitor.see("#viewer-title")).to_have_text("Image 5 of 5")
    visitor.page.keyboard.press("Escape")
    expect(visitor.see(".tile").nth(4)).to_be_focused()
    sheet = np.asarray(Image.open(visitor.saved("#save-sheet")).convert("L"))
    answer = client.post("/v1/images/generations", json={"n": 5, "seed": 3}, headers={"accept": "image/png"})
    expected = np.asarray(Image.open(BytesIO(answer.content)))
    assert (sheet == np.kron(expected, np.ones((4, 4), np.uint8))).all()
    with zipfile.ZipFile(visitor.saved("#save-zip")) as archive:
        assert archive.testzip() is None
        files = [np.asarray(Image.open(BytesIO(archive.read(name))).convert("L")) for name in archive.namelist()]
    assert (np.array(files) == painted(client, n=5, seed=3)).all()
    film = client.post("/v1/images/generations", json={"n": 5, "seed": 3}, headers={"accept": "image/gif"})
    assert visitor.saved("#save-film").read_bytes() == film.content
    expect(visitor.see("#save-film")).to_have_text("Save film (GIF)")

    # The code that the page shows paints the same.
    visitor.see("#view-code").click()
    subprocess.run(visitor.see("#code").inner_text(), shell=True, check=True, cwd=tmp_path, capture_output=True)
    assert (np.asarray(Image.open(tmp_path / "images.png")) == expected).all()
    visitor.see("#code-form").get_by_text("OpenAI client").click()
    monkeypatch.chdir(tmp_path)
    exec(visitor.see("#code").inner_text(), {})  # as a user runs it
    assert (np.asarray(Image.open(tmp_path / "image-4.png")) == painted(client, n=5, seed=3)[4]).all()


def test_repeat_paints_the_same_and_a_new_seed_other_images(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    first = np.load(visitor.saved("#save-array"))
    visitor.see("#again").click()
    expect(visitor.see("#after")).to_be_visible()
    visitor.expect_done(4)
    assert (np.load(visitor.saved("#save-array")) == first).all()
    visitor.see("#seed").fill("")
    visitor.see("#paint-form .primary").click()
    expect(visitor.page).not_to_have_url(re.compile("seed=3&"))
    visitor.expect_done(4)
    assert (np.load(visitor.saved("#save-array")) != first).any()


def test_a_job_can_be_stopped(visit: Visit, server: Server, client: httpx.Client) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    engine = server.engine
    kill(engine, signal.SIGSTOP)  # the job must not end before Stop is pressed
    try:
        visitor.see("#count").fill("200")
        visitor.see("#paint-form .primary").click()
        expect(visitor.see(".tile")).to_have_count(200)
        visitor.see("#paint-stop").click()
        expect(visitor.see("#paint-status")).to_have_text("Stopped.")
        expect(visitor.see("#paint-stop")).to_be_hidden()
        expect(visitor.see("#after")).to_be_hidden()
    finally:
        kill(engine, signal.SIGCONT)
    visitor.see("#count").fill("2")
    visitor.see("#paint-form .primary").click()
    visitor.expect_done(2)


def test_a_new_job_replaces_the_running_one(visit: Visit, server: Server, client: httpx.Client) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    engine = server.engine
    kill(engine, signal.SIGSTOP)  # the first job must not end before the second is sent
    try:
        for count, seed in (("200", "4"), ("5", "6")):
            visitor.see("#count").fill(count)
            visitor.see("#seed").fill(seed)
            visitor.see("#paint-form .primary").click()
            expect(visitor.see(".tile")).to_have_count(int(count))
    finally:
        kill(engine, signal.SIGCONT)
    visitor.expect_done(5)
    expect(visitor.see("#paint-stop")).to_be_hidden()
    assert (np.load(visitor.saved("#save-array")) == painted(client, n=5, seed=6)).all()


def test_arrow_keys_move_in_the_gallery(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=4")
    visitor.expect_done(4)
    visitor.see(".tile").first.focus()
    for key, index in (("ArrowRight", 1), ("End", 3), ("ArrowRight", 3), ("ArrowLeft", 2), ("Home", 0)):
        visitor.page.keyboard.press(key)
        expect(visitor.see(".tile").nth(index)).to_be_focused()
    visitor.page.keyboard.press("Enter")
    expect(visitor.see("#viewer-title")).to_have_text("Image 1 of 4")
