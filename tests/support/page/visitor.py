"""A visitor of the page: a browser page of its own, with what the tests look
at and the errors of its console.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from io import BytesIO

import numpy as np
from playwright.sync_api import expect

from tests.support.server.running_server import PATIENCE

KEY = "sk-page?>~"  # of the server `locked`
UNFOLD = """element => {
    const inner = element.tagName === "SUMMARY" ? element.parentElement.parentElement : element;
    for (let fold = inner.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}"""
READ = """canvas => {
    const {width, height} = canvas;
    const bytes = canvas.getContext("2d").getImageData(0, 0, width, height).data;
    return [height, width, btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""))];
}"""


class Visitor:
    """One page."""

    def __init__(self, context, downloads):
        context.set_default_timeout(1000 * PATIENCE)
        self.page = context.new_page()
        self.downloads = downloads
        self.errors = []  # of the console, without those that the test expects
        self.page.on("console", self._log)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _log(self, message):
        # READ causes that warning
        if message.type in ("error", "warning") and "getImageData" not in message.text:
            self.errors.append(message.text)

    def see(self, selector):
        return self.page.locator(selector)

    def find(self, selector):
        """An element whose folds are opened, as a visitor opens them who looks for it."""
        locator = self.see(selector)
        locator.evaluate(UNFOLD)
        return locator

    def click(self, selector):
        self.find(selector).click()

    def fill(self, selector, text):
        self.find(selector).fill(text)

    def press(self, key):
        self.page.keyboard.press(key)

    def expect_text(self, selector, text):
        expect(self.see(selector)).to_have_text(text)

    def expect_contains(self, selector, text):
        expect(self.see(selector)).to_contain_text(text)

    def expect_visible(self, selector):
        expect(self.see(selector)).to_be_visible()

    def expect_hidden(self, selector):
        expect(self.see(selector)).to_be_hidden()

    def expect_focused(self, selector):
        expect(self.see(selector)).to_be_focused()

    def expect_enabled(self, selector):
        expect(self.see(selector)).to_be_enabled()

    def expect_disabled(self, selector):
        expect(self.see(selector)).to_be_disabled()

    def expect_value(self, selector, value):
        expect(self.see(selector)).to_have_value(value)

    def expect_count(self, selector, count):
        expect(self.see(selector)).to_have_count(count)

    def expect_attribute(self, selector, name, value):
        expect(self.see(selector)).to_have_attribute(name, value)

    def expect_url(self, pattern):
        """Waits until the pattern is found in the page's address."""
        expect(self.page).to_have_url(re.compile(pattern))

    def expect_ready(self):
        """Waits until the models are known: before that, the page ignores all input."""
        expect(self.see("#model")).to_be_enabled()

    def unfold(self):
        """Opens all folds of the tab that is shown."""
        self.see("[role=tabpanel]:not([hidden])").evaluate(
            "tab => tab.querySelectorAll('details:not(.menu)').forEach(fold => fold.open = true)"
        )

    def expect_done(self, images, meter="#paint-meter"):
        """Waits until that many images are painted and their job has ended."""
        expect(self.see(meter)).to_have_text(
            re.compile(rf"^{images} of {images} images? .* bits/dim · [\d.]+ s$")
        )

    def expect_notice(self, sentence):
        expect(self.see("#notice")).to_have_text(sentence)
        expect(self.see("#notice")).to_be_visible()

    def pixels(self, canvas):
        """The pixels of a canvas, [H, W, 4] uint8."""
        locator = self.see(canvas) if isinstance(canvas, str) else canvas
        height, width, data = locator.evaluate(READ)
        return np.frombuffer(b64decode(data), np.uint8).reshape(height, width, 4)

    def gallery_image(self, index):
        """The pixels [H, W, 4] that the gallery's canvas shows over the button of an image."""
        rectangles = [self.see("#sheet"), self.see(".tile").nth(index)]
        sheet, tile = (
            locator.evaluate("e => e.getBoundingClientRect().toJSON()") for locator in rectangles
        )
        pixels = self.pixels("#sheet")
        scale = sheet["width"] / pixels.shape[1]
        edges = [(tile["left"] - sheet["left"]) / scale, (tile["top"] - sheet["top"]) / scale]
        edges += [tile["width"] / scale, tile["height"] / scale]
        left, top, width, height = (round(edge) for edge in edges)
        # whole pixels of the canvas
        np.testing.assert_allclose(edges, [left, top, width, height], atol=0.05)
        return pixels[top : top + height, left : left + width]

    def saved(self, button):
        """The file that a button saves."""
        with self.page.expect_download() as download:
            self.click(button)
        path = self.downloads / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def saved_images(self):
        return np.load(self.saved("#save-array"))

    def expect_errors(self, pattern):
        """Removes the errors that the test has caused."""
        self.errors = [error for error in self.errors if not re.search(pattern, error)]


Visit = Callable[..., Visitor]


def painted(client, path="generations", **fields):
    """The images that the API returns, [n, H, W] or [n, H, W, 3]."""
    answer = client.post(f"/v1/images/{path}", json=fields, headers={"accept": "application/x-npy"})
    assert answer.status_code == 200, answer.text
    return np.load(BytesIO(answer.content))
