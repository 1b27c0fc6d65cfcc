"""A real browser, headless, for the tests of the page; they are skipped where there is none."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.page_visitor import Visitor
from tests.support.running_server import PATIENCE, Server, serve

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# no sandbox: containers that run as root have none; no shared memory: it may be too small there
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]

KEY = "sk-page?>~"

expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="package")  # its event loop runs in this thread, where other packages' tests run their own
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS, timeout=1000 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def locked(grey_directory: Path) -> Iterator[Server]:
    """A server that wants KEY."""
    with serve(grey_directory, "--slots", "8", "--api-key", KEY, "--max-images-per-request", "8") as server:
        yield server


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Visitor]]:
    """Opens the page of a server; in the end, nothing may have gone wrong that the test did not expect."""
    visitors: list[Visitor] = []

    def opened(address: str, width: int = 1280, height: int = 800, **options: object) -> Visitor:
        visitor = Visitor(browser, tmp_path, viewport={"width": width, "height": height}, **options)
        visitors.append(visitor)
        visitor.page.goto(address)
        return visitor

    yield opened
    for visitor in visitors:
        visitor.page.context.close()
        assert visitor.wrongs == []
