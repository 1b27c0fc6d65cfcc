"""Guidance, in a real browser: the slider is open where it can be used, and the page paints what the API paints."""

import re

import httpx
import numpy as np
from playwright.sync_api import expect

from tests.server.web.test_classes import choose
from tests.server.web.test_complete import HEIGHT, complete, picture, shown, stroke, upload
from tests.support.page.visitor import Visit, Visitor, painted
from tests.support.pictures import encode, text
from tests.support.server.running_server import Server

N, SEED = 3, 5
FORMS = {"paint": "guidance", "complete": "complete-guidance"}  # the slider of each tab


def expect_title(visitor: Visitor, slider: str, sentence: str) -> None:
    expect(visitor.see(f"#{slider}-field")).to_have_attribute("title", re.compile(sentence))


def test_a_guided_image_is_the_apis_and_its_url_paints_the_same(
    visit: Visit, classified: Server, classified_client: httpx.Client
) -> None:
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse")
    visitor.expect_done(4)
    expect_title(visitor, "guidance", "more typical of their class and less varied.*two slots")
    visitor.see("#guidance").fill("2.5")
    expect(visitor.see("#guidance-shown")).to_have_text("2.50")
    visitor.see("#paint-form .primary").click()
    expect(visitor.page).to_have_url(re.compile(r"&class=horse&guidance=2\.5#paint$"))
    visitor.expect_done(4)
    fields = {"model": "guided", "n": 4, "seed": 3, "guidance": 2.5, "class": "horse"}
    expected = painted(classified_client, **fields)
    expect(visitor.see("#after")).to_be_visible()
    assert (np.load(visitor.saved("#save-array")) == expected).all()
    visitor.see(".tile").first.click()
    expect(visitor.see("#viewer-figures")).to_contain_text("class horse · seed 3 · temperature 0.97 · guidance 2.5")
    second = visit(visitor.page.url)
    second.expect_done(4)
    expect(second.see("#guidance")).to_have_value("2.5")
    assert (np.load(second.saved("#save-array")) == expected).all()


def test_guidance_is_not_offered_without_a_class(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse&guidance=2")
    visitor.expect_done(4)
    choose(visitor, "paint", "none")
    expect(visitor.page).to_have_url(re.compile(r"model=guided&seed=3&temperature=0\.97&n=4#paint$"))
    expect(visitor.see("#guidance")).to_be_disabled()
    expect_title(visitor, "guidance", "choose one to use it")
    choose(visitor, "paint", "7")
    expect(visitor.see("#guidance")).to_be_enabled()
    expect(visitor.page).to_have_url(re.compile("&class=7&guidance=2#paint$"))


def test_a_model_that_cannot_be_guided_has_no_slider(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?model=plain&seed=3&n=4&guidance=2")
    visitor.expect_done(4)
    for tab, slider in FORMS.items():
        visitor.see(f"#tab-{tab}").click()
        expect(visitor.see(f"#{tab}")).to_be_visible()
        expect(visitor.see(f"#{slider}")).to_be_hidden()
    visitor.see("#model").select_option("guided")
    visitor.unfold()
    expect(visitor.see("#complete-guidance")).to_be_visible()


def test_a_link_whose_guidance_the_slider_does_not_have_paints_nothing(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse&guidance=7")
    visitor.expect_notice("The guidance must be from 1 to 4, in steps of 0.25, not 7.")
    expect(visitor.see(".tile")).to_have_count(0)
    expect(visitor.see("#guidance")).to_be_focused()


def test_a_guided_completion_is_the_apis_and_particles_exclude_guidance(
    visit: Visit, classified: Server, classified_client: httpx.Client
) -> None:
    visitor = visit(f"{classified.url}/?model=guided#complete")
    visitor.expect_ready()
    upload(visitor, encode(picture()))
    expect(visitor.see("#complete-guidance")).to_be_disabled()
    choose(visitor, "complete", "horse")
    visitor.see("#complete-guidance").fill("3")
    visitor.see("#rows").fill(str(HEIGHT))
    visitor.page.get_by_text("Hide", exact=True).click()
    stroke(visitor, (0.4, 0.4), (0.6, 0.4))
    expect(visitor.see("#complete-guidance")).to_be_disabled()  # 16 particles
    expect_title(visitor, "complete-guidance", "choose 1 particle to use it")
    visitor.see("#particles label").get_by_text("1", exact=True).click()
    expect(visitor.see("#complete-guidance")).to_be_enabled()
    complete(visitor, N, SEED)
    given, *images = np.array(shown(visitor))[1:]
    mask = np.where(given[..., 3] == 255, 255, 0).astype(np.uint8)
    body = {"model": "guided", "image": text(encode(picture())), "mask": text(encode(mask)), "n": N, "seed": SEED}
    expected = painted(classified_client, "edits", **body, guidance=3, **{"class": "horse"})
    assert (np.array(images)[..., 0] == expected).all()


def test_painting_in_the_browser_says_why_it_has_no_guidance(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?model=guided#device")
    visitor.expect_ready()
    expect(visitor.see("#device-class")).to_have_attribute("title", re.compile("only the server offers it"))
