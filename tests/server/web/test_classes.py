"""Classes, in a real browser: the buttons are the model's classes, and the page paints what the API paints of them."""

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
from playwright.sync_api import expect

from tests.server.web.test_complete import complete, picture, shown, upload
from tests.support.page.visitor import Visit, Visitor, painted
from tests.support.pictures import encode, text
from tests.support.pictures import painted as images_of
from tests.support.server.running_server import Server


def buttons(visitor: Visitor, tab: str) -> list[str]:
    """The texts of the class buttons of a tab."""
    return visitor.see(f"#{tab}-class label").all_inner_texts()


def choose(visitor: Visitor, tab: str, name: str) -> None:
    visitor.unfold()
    visitor.see(f"#{tab}-class label").get_by_text(name, exact=True).click()


def test_a_class_button_paints_images_of_its_class(
    visit: Visit, classified: Server, classified_client: httpx.Client
) -> None:
    visitor = visit(f"{classified.url}/?seed=3&n=4")
    visitor.expect_done(4)
    assert buttons(visitor, "paint") == ["any", "7", "horse", "none"]
    saved = [np.load(visitor.saved("#save-array"))]
    for name in ("7", "horse"):
        choose(visitor, "paint", name)
        expect(visitor.page).to_have_url(re.compile(f"&class={name}#paint$"))
        expect(visitor.see("#after")).to_be_visible()
        saved.append(np.load(visitor.saved("#save-array")))
    fields: list[dict[str, object]] = [{}, {"class": "7"}, {"class": "horse"}]
    for images, of_class in zip(saved, fields, strict=True):
        assert (images == painted(classified_client, n=4, seed=3, **of_class)).all()
    assert (saved[1] != saved[2]).any()
    visitor.see(".tile").first.click()
    expect(visitor.see("#viewer-figures")).to_contain_text("class horse · seed 3")
    visitor.see("#what summary").click()
    expect(visitor.see("#posterior li")).to_have_count(2)
    answer = classified_client.post("/v1/images/classifications", json={"image": text(encode(saved[2][0]))}).json()
    percents = [f"{100 * probability:.1f} %" for probability in answer["data"][0]["posterior"].values()]
    assert visitor.see("#posterior .figures").all_inner_texts() == percents


def test_the_page_first_paints_images_of_any_class_and_says_of_which(
    visit: Visit, classified: Server, classified_client: httpx.Client
) -> None:
    visitor = visit(f"{classified.url}/?model=guided")
    expect(visitor.page).to_have_url(re.compile(r"&class=any&guidance=2#paint$"))
    expect(visitor.see("#after")).to_be_visible()
    link = parse_qs(urlsplit(visitor.page.url).query)
    fields = {"model": "guided", "n": int(link["n"][0]), "seed": int(link["seed"][0]), "class": "any", "guidance": 2}
    response = classified_client.post("/v1/images/generations", json=fields).json()
    assert (np.load(visitor.saved("#save-array")) == images_of(response)).all()
    for index in (0, 5):
        visitor.see(".tile").nth(index).click()
        named = f"class {response['data'][index]['class']} · seed"
        expect(visitor.see("#viewer-figures")).to_contain_text(named)
        visitor.see("#viewer-close").click()
    for model, temperature in (("plain", "1"), ("guided", "0.97")):
        visitor.see("#model").select_option(model)
        expect(visitor.see("#temperature")).to_have_value(temperature)


def test_a_link_without_a_class_paints_without_one(
    visit: Visit, classified: Server, classified_client: httpx.Client
) -> None:
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4")
    visitor.expect_done(4)
    expect(visitor.see("#paint-class input").last).to_be_checked()
    expect(visitor.page).to_have_url(re.compile(r"model=guided&seed=3&temperature=0\.97&n=4#paint$"))
    assert (
        np.load(visitor.saved("#save-array"))
        == painted(classified_client, model="guided", n=4, seed=3, **{"class": "none"})
    ).all()


def test_a_link_to_a_class_that_the_model_does_not_have_paints_nothing(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?seed=3&n=4&class=zebra")
    visitor.expect_notice("The model has no class zebra.")
    expect(visitor.see(".tile")).to_have_count(0)
    expect(visitor.see("#paint-class input").first).to_be_focused()
    visitor.see("#paint-form .primary").click()
    visitor.expect_done(4)
    expect(visitor.see("#notice")).to_be_hidden()


def test_arrow_keys_choose_a_class(visit: Visit, classified: Server) -> None:
    visitor = visit(f"{classified.url}/?seed=3&n=4")
    visitor.expect_done(4)
    visitor.see("#paint-class input").first.focus()
    visitor.page.keyboard.press("ArrowRight")
    expect(visitor.see("#paint-class input").nth(1)).to_be_focused()
    expect(visitor.page).to_have_url(re.compile("&class=7#paint$"))


def test_a_model_without_classes_has_no_class_buttons(visit: Visit, classified: Server) -> None:
    """The chosen class is kept where the next model has it."""
    visitor = visit(f"{classified.url}/?seed=3&n=4&class=horse")
    visitor.expect_done(4)
    visitor.see("#model").select_option("pixels")
    expect(visitor.page).to_have_url(re.compile("model=pixels.*&class=horse#paint$"))
    assert buttons(visitor, "paint") == ["any", "dog", "horse", "none"]
    visitor.see("#model").select_option("plain")
    expect(visitor.page).to_have_url(re.compile("model=plain&seed=3&temperature=1&n=4#paint$"))
    for tab in ("paint", "complete", "device"):
        visitor.see(f"#tab-{tab}").click()
        expect(visitor.see(f"#{tab}")).to_be_visible()
        expect(visitor.see(f"#{tab}-class")).to_be_hidden()


def test_completions_are_of_the_chosen_class(visit: Visit, classified: Server, classified_client: httpx.Client) -> None:
    visitor = visit(f"{classified.url}/#complete")
    visitor.expect_ready()
    upload(visitor, encode(picture()))
    choose(visitor, "complete", "horse")
    complete(visitor, 2, seed=5)
    fields = {"class": "horse"}
    expected = painted(classified_client, "edits", image=text(encode(picture())), n=2, seed=5, keep_rows=3, **fields)
    assert (np.array(shown(visitor)[2:])[..., 0] == expected).all()
