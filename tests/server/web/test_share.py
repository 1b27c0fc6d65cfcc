"""Sharing, in a real browser: the picture or the film with its address, else the link; and the
files that put the page on a home screen."""

from io import BytesIO

import numpy as np
from PIL import Image

from scanline.model.images import recipe as recipes
from tests.server.web.test_visit import SIZES

# what a phone's browser has; the test reads what it was given
SHARES = """
    navigator.canShare = ({files}) => files[0].type === "image/png";
    navigator.share = async ({files, url}) => {
        const bytes = new Uint8Array(await files[0].arrayBuffer());
        window.shared = {url, bytes: Array.from(bytes)};
        document.body.dataset.shared = files[0].name;
        if (window.refusal) throw new DOMException("", window.refusal);
    };
"""


def test_a_picture_or_its_film_is_shared_with_its_address(visit, classified):
    visitor = visit("about:blank", *SIZES["phone"])
    visitor.page.add_init_script(SHARES)
    visitor.page.goto(f"{classified.url}/?model=guided&seed=7&n=4&class=7&guidance=1.5")
    visitor.expect_done(4)

    def shared(suffix):
        visitor.click("#share")
        visitor.expect_attribute("body", "data-shared", f"guided-class-7-seed-7.{suffix}")
        found = visitor.page.evaluate("window.shared")
        assert found["url"] == visitor.page.url
        return bytes(found["bytes"])

    sheet = shared("png")
    assert recipes.read(sheet)["request"]["seed"] == 7
    film = visitor.saved("#save-film").read_bytes()
    assert shared("gif") == film
    # A closed list of programs is no error, and a refusal copies the link.
    visitor.page.evaluate("window.refusal = 'AbortError'")
    visitor.click("#share")
    visitor.expect_text("#share", "Share")
    visitor.page.evaluate("window.refusal = 'NotAllowedError'")
    visitor.click("#share")
    visitor.expect_text("#share", "Link copied")


def test_the_page_can_be_put_on_a_home_screen(visit, classified, api):
    visitor = visit(classified.url)
    link = visitor.see("link[rel=manifest]").evaluate("link => link.href")
    manifest = api.get(link).json()
    assert api.get(link).headers["content-type"] == "application/manifest+json"
    assert manifest["start_url"] == manifest["scope"] == "./"
    (icon,) = manifest["icons"]
    answer = api.get(f"/{icon['src']}")
    assert answer.headers["content-type"] == icon["type"]
    picture = Image.open(BytesIO(answer.content))
    assert icon["sizes"] == "{}x{}".format(*picture.size)
    # all of it is in the circle that a launcher cuts out
    colours = np.asarray(picture.convert("RGB")).astype(int)
    inked = np.argwhere((colours != colours[0, 0]).any(axis=-1))
    half = picture.width / 2
    assert np.hypot(*(inked - half).T).max() < 0.45 * picture.width
    # The browser reads the manifest: the policy of the page allows it.
    session = visitor.page.context.new_cdp_session(visitor.page)
    found = session.send("Page.getAppManifest")
    assert found["url"] == link
    assert found["errors"] == []
