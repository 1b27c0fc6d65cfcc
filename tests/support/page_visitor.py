"""Somebody who looks at the page: what they press, what they see, what goes wrong behind it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.support.running_server import PATIENCE

READ = """canvas => {
    const {width, height} = canvas;
    return [height, width, [...canvas.getContext("2d").getImageData(0, 0, width, height).data]];
}"""


class Visitor:
    """One page in a context of its own."""

    def __init__(self, browser: Browser, downloads: Path, **options: Any) -> None:
        context = browser.new_context(**options)
        context.set_default_timeout(1000 * PATIENCE)
        self.page: Page = context.new_page()
        self.downloads = downloads
        self.wrongs: list[str] = []  # what the console complains of; a test takes out what it expects
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "getImageData" not in message.text:  # that is of READ
            self.wrongs.append(message.text)

    def see(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def expect_done(self, images: int, meter: str = "#meter") -> None:
        """Waits until all images are painted."""
        expect(self.see(meter)).to_have_text(re.compile(rf"^{images} of {images} images .* bits/dim · [\d.]+ s$"))

    def expect_notice(self, sentence: str) -> None:
        expect(self.see("#notice")).to_have_text(sentence)
        expect(self.see("#notice")).to_be_visible()

    def pixels(self, canvas: str | Locator) -> np.ndarray:
        """What a canvas shows, [H, W, 4] uint8."""
        locator = self.see(canvas) if isinstance(canvas, str) else canvas
        height, width, data = locator.evaluate(READ)
        return np.array(data, np.uint8).reshape(height, width, 4)

    def saved(self, button: str) -> Path:
        """The file that a button saves."""
        with self.page.expect_download() as download:
            self.see(button).click()
        path = self.downloads / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def forgive(self, pattern: str) -> None:
        """Takes out complaints that the test has brought about."""
        self.wrongs = [wrong for wrong in self.wrongs if not re.search(pattern, wrong)]
