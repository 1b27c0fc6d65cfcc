"""The pictures of the page in the documentation are taken when it has painted and completed."""

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from benchmarks.docs_pictures import WINDOW, photograph_page
from scanline.model import zoo
from tests.support.server.running_server import serve


@pytest.mark.slow
def test_the_pictures_show_a_gallery_and_completions(browser: Browser, tmp_path: Path) -> None:
    with serve(zoo.find(zoo.DEFAULT)) as server:
        page = browser.new_page(viewport=WINDOW)
        photograph_page(page, server.url, tmp_path)
        expect(page.locator("#results .stack")).to_have_count(2 + 8 + 8)
        assert "16 of 16 images" in page.locator("#complete-meter").inner_text()
        assert "16 particles · mean evidence" in page.locator("#results").inner_text()
        page.close()
    for name in ("page-paint.png", "page-complete.png"):
        with Image.open(tmp_path / name) as picture:
            assert picture.width == WINDOW["width"]
            assert picture.height > WINDOW["height"]
