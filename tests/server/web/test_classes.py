"""Classes and guidance, in a real browser: the controls are the model's, and the
page paints what the API paints.
"""

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
from playwright.sync_api import expect

from tests.server.web.test_complete import (
    choose_particles,
    complete,
    completed,
    hide,
    mask_of,
    shown,
    upload,
)
from tests.support.page.visitor import Visitor, painted
from tests.support.pictures import encode, text
from tests.support.pictures import painted as images_of
from tests.support.server.json_requests import CLASSIFICATIONS, GENERATIONS, IMAGE, post

SLIDERS = {"paint": "guidance", "complete": "complete-guidance"}  # of each tab


def buttons(visitor: Visitor, tab: str) -> list[str]:
    """The texts of the class buttons of a tab."""
    return visitor.see(f"#{tab}-class label").all_inner_texts()


def choose(visitor: Visitor, tab: str, name: str) -> None:
    visitor.unfold()
    visitor.see(f"#{tab}-class label").get_by_text(name, exact=True).click()


def expect_title(visitor: Visitor, field: str, sentence: str) -> None:
    visitor.expect_attribute(field, "title", re.compile(sentence))


def test_guided_images_of_a_class_are_the_apis(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=7&guidance=2", done=4)
    assert buttons(visitor, "paint") == ["any", "7", "horse", "none"]
    saved = [visitor.saved_images()]
    choose(visitor, "paint", "horse")
    visitor.expect_url("&class=horse&guidance=2#paint$")
    expect_title(
        visitor, "#guidance-field", "more typical of their class and less varied.*two slots"
    )
    visitor.fill("#guidance", "2.5")
    visitor.expect_text("#guidance-shown", "2.50")
    visitor.click("#paint-form .primary")
    visitor.expect_url(r"&class=horse&guidance=2\.5#paint$")
    visitor.expect_done(4)
    visitor.expect_visible("#after")
    saved.append(visitor.saved_images())
    for images, name, guidance in zip(saved, ("7", "horse"), (2, 2.5), strict=True):
        fields = {"model": "guided", "n": 4, "seed": 3, "guidance": guidance, "class": name}
        assert (images == painted(api, **fields)).all()
    second = visit(visitor.page.url, done=4)
    second.expect_value("#guidance", "2.5")
    assert (second.saved_images() == saved[1]).all()

    # The viewer says which class was asked for, and of which the image is most probably.
    visitor.see(".tile").first.click()
    visitor.expect_contains(
        "#viewer-figures", "class horse · seed 3 · temperature 0.97 · guidance 2.5"
    )
    visitor.click("#what summary")
    visitor.expect_count("#posterior li", 2)
    answer = post(api, CLASSIFICATIONS, model="guided", image=text(encode(saved[1][0])))
    percents = [
        f"{100 * probability:.1f} %" for probability in answer["data"][0]["posterior"].values()
    ]
    assert visitor.see("#posterior .figures").all_inner_texts() == percents
    assert answer["data"][0]["posterior_by_bits"] is None
    visitor.expect_contains(
        "#unusual", "A classifier trained on this model's features names the class."
    )
    visitor.click("#viewer-close")

    # Without a class there is no guidance; arrow keys choose another class.
    choose(visitor, "paint", "none")
    visitor.expect_url(r"model=guided&seed=3&temperature=0\.97&n=4#paint$")
    visitor.expect_disabled("#guidance")
    expect_title(visitor, "#guidance-field", "choose one to use it")
    visitor.see("#paint-class input").first.focus()
    visitor.press("ArrowRight")
    expect(visitor.see("#paint-class input").nth(1)).to_be_focused()
    visitor.expect_url(r"&class=7&guidance=2\.5#paint$")


def test_picky_images_are_the_best_of_several(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse", done=4)
    visitor.find("#picky").select_option("4")
    visitor.click("#paint-form .primary")
    visitor.expect_url("&class=horse&best_of=4#paint$")
    visitor.expect_done(4)
    visitor.expect_visible("#after")
    fields = {"model": "guided", "n": 4, "seed": 3, "class": "horse", "guidance": 1, "best_of": 4}
    expected = painted(api, **fields)
    assert (visitor.saved_images() == expected).all()
    second = visit(visitor.page.url, done=4)
    second.expect_value("#picky", "4")
    choose(visitor, "paint", "none")
    visitor.expect_url("seed=3&temperature=0.97&n=4#paint$")
    second.see("#model").select_option("pixels")
    second.expect_value("#picky", "2")  # its default, which a link without it does not have
    plain = visit(f"{classified.url}/?model=pixels&seed=3&n=4&class=horse", done=4)
    expected = painted(api, **fields | {"model": "pixels", "best_of": 1})
    assert (plain.saved_images() == expected).all()


def test_the_page_first_paints_any_class_and_says_which(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided")
    visitor.expect_url(r"&class=any&guidance=2#paint$")
    visitor.expect_visible("#after")
    link = parse_qs(urlsplit(visitor.page.url).query)
    fields = {
        "model": "guided",
        "n": int(link["n"][0]),
        "seed": int(link["seed"][0]),
        "class": "any",
        "guidance": 2,
    }
    response = post(api, GENERATIONS, **fields)
    assert (visitor.saved_images() == images_of(response)).all()
    for index in (0, 5):
        visitor.see(".tile").nth(index).click()
        named = f"class {response['data'][index]['class']} · seed"
        visitor.expect_contains("#viewer-figures", named)
        visitor.click("#viewer-close")
    for model, temperature in (("plain", "1"), ("guided", "0.97")):
        visitor.see("#model").select_option(model)
        visitor.expect_value("#temperature", temperature)


def test_a_link_without_a_class_paints_without_one(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4", done=4)
    expect(visitor.see("#paint-class input").last).to_be_checked()
    visitor.expect_url(r"model=guided&seed=3&temperature=0\.97&n=4#paint$")
    expected = painted(api, model="guided", n=4, seed=3, **{"class": "none"})
    assert (visitor.saved_images() == expected).all()


def test_a_link_to_a_class_or_guidance_that_is_not_there_paints_nothing(visit, classified):
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse&guidance=7")
    visitor.expect_notice("The guidance must be from 1 to 4, in steps of 0.25, not 7.")
    visitor.expect_count(".tile", 0)
    visitor.expect_focused("#guidance")
    visitor.page.goto(f"{classified.url}/?seed=3&n=4&class=zebra")
    visitor.expect_notice("The model has no class zebra.")
    visitor.expect_count(".tile", 0)
    expect(visitor.see("#paint-class input").first).to_be_focused()
    visitor.click("#paint-form .primary")
    visitor.expect_done(4)
    visitor.expect_hidden("#notice")


def test_a_model_without_classes_has_neither_buttons_nor_slider(visit, classified):
    """The chosen class is kept where the next model has it."""
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=horse&guidance=2", done=4)
    visitor.see("#model").select_option("pixels")
    visitor.expect_url("model=pixels.*&class=horse.*#paint$")
    assert buttons(visitor, "paint") == ["any", "dog", "horse", "none"]
    visitor.see("#model").select_option("plain")
    visitor.expect_url("model=plain&seed=3&temperature=1&n=4#paint$")
    for tab in ("paint", "complete", "device"):
        visitor.click(f"#tab-{tab}")
        visitor.expect_visible(f"#{tab}")
        visitor.expect_hidden(f"#{tab}-class")
        if tab in SLIDERS:
            visitor.expect_hidden(f"#{SLIDERS[tab]}")
    visitor.see("#model").select_option("guided")
    visitor.unfold()
    visitor.expect_visible("#device-guidance")


def test_guided_completions_exclude_particles(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided#complete")
    visitor.expect_ready()
    upload(visitor, encode(IMAGE))
    visitor.expect_disabled("#complete-guidance")
    choose(visitor, "complete", "horse")
    visitor.fill("#complete-guidance", "3")
    hide(visitor)
    visitor.expect_disabled("#complete-guidance")  # 16 particles
    expect_title(visitor, "#complete-guidance-field", "choose 1 particle to use it")
    choose_particles(visitor, 1)
    visitor.expect_enabled("#complete-guidance")
    complete(visitor)
    fields = {"model": "guided", "n": 3, "guidance": 3, "class": "horse"}
    expected = completed(api, IMAGE, mask=mask_of(visitor), **fields)
    assert (np.array(shown(visitor)[2:])[..., 0] == expected).all()
