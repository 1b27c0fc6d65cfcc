"""A headless Chromium for the tests of the page; they are skipped if none is installed."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.page_visitor import KEY, Visitor
from tests.support.running_server import PATIENCE, Server, serve

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# as root in a container there is no sandbox, and shared memory may be too small
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]

expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="package")  # its event loop must not run in this thread while other packages' tests run theirs
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS, timeout=1000 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def locked(grey_directory: Path) -> Iterator[Server]:
    """A server that requires the API key KEY."""
    with serve(grey_directory, "--slots", "8", "--api-key", KEY, "--max-images-per-request", "8") as server:
        yield server


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Visitor]]:
    """Opens a page; the test fails at its end if the console has shown an error that it did not expect."""
    visitors: list[Visitor] = []

    def open_page(url: str, width: int = 1280, height: int = 800, **options: object) -> Visitor:
        visitor = Visitor(browser, tmp_path, viewport={"width": width, "height": height}, **options)
        visitors.append(visitor)
        visitor.page.goto(url)
        return visitor

    yield open_page
    for visitor in visitors:
        visitor.page.context.close()
        assert visitor.errors == []
