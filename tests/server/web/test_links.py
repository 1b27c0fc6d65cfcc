"""Links of what was found: a picture as its code in the address, and a step of "How it works"."""

import re
from base64 import urlsafe_b64encode
from pathlib import Path

import httpx
from playwright.sync_api import expect

from scanline.model.formats.checkpoint import save_model
from tests.server.web.test_complete import picture
from tests.server.web.test_compress import SAME, code_of
from tests.support import small_models
from tests.support.page.visitor import Visit
from tests.support.pictures import encode
from tests.support.server.running_server import Server, serve


def test_a_picture_is_in_its_link_and_a_flipped_bit_too(visit: Visit, server: Server, client: httpx.Client) -> None:
    visitor = visit(f"{server.url}/#compress", reduced_motion="reduce")
    expect(visitor.see("#coded-status")).to_have_text(SAME)
    file = {"name": "one.png", "mimeType": "image/png", "buffer": encode(picture())}
    visitor.see("#coded-upload").set_input_files(file)
    code = code_of(client, picture())
    text = urlsafe_b64encode(code).decode().rstrip("=")
    expect(visitor.page).to_have_url(re.compile(rf"#compress&model=grey&weights=[\w-]{{8}}&code={text}$"))
    visitor.see("#bits").focus()
    visitor.page.keyboard.press("Space")
    expect(visitor.see("#coded-status")).to_contain_text("another picture")
    flipped, painted = visitor.page.url, visitor.pixels("#coded-painted")
    for link, expected in ((flipped, painted[..., 0]), (flipped.rsplit("=", 1)[0] + f"={text}", picture())):
        second = visit("about:blank", reduced_motion="reduce")
        second.page.goto(link)
        sentence = f"The link is this picture: its code of {len(code)} bytes is in the address."
        expect(second.see("#coded-status")).to_have_text(sentence)
        for canvas in ("#coded-painted", "#coded-picture"):
            assert (second.pixels(canvas)[..., 0] == expected).all()
        assert second.page.url == link
        expect(second.see("#notice")).to_be_hidden()
    for link, sentence in (
        (flipped.replace("code=", "code=%25"), "The code of this link is not complete."),
        (
            re.sub("weights=[^&]*", "weights=device", flipped),
            "A browser made the code of this link: load the model under “On your device”, then open the link.",
        ),
    ):
        visitor.page.goto("about:blank")
        visitor.page.goto(link)
        visitor.expect_notice(sentence)


def test_a_link_says_that_its_model_has_other_weights(visit: Visit, server: Server, tmp_path: Path) -> None:
    visitor = visit(f"{server.url}/#compress", reduced_motion="reduce")
    expect(visitor.see("#coded-status")).to_have_text(SAME)
    link = visitor.page.url.split("#")[1]
    save_model(small_models.model(small_models.config(height=7, width=5, layers=1), 9), tmp_path / "grey")
    with serve(tmp_path / "grey") as other:
        second = visit(f"{other.url}/#{link}", reduced_motion="reduce")
        sentence = "The link was made with other weights of grey, so that its code paints another picture here."
        second.expect_notice(sentence)
        second.page.goto("about:blank")
        second.page.goto(f"{other.url}/#{link.replace('model=grey', 'model=blue')}")
        second.expect_notice("This server does not have the model blue of the link, which its picture needs.")
        second.page.close()
