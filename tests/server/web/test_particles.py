"""Particles, in a real browser: the choice is open where it makes a difference, and the page shows it."""

from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.server.web.test_complete import HEIGHT, complete, picture, shown, stroke, upload
from tests.support.page.visitor import Visit, Visitor
from tests.support.pictures import encode, text
from tests.support.pictures import painted as images_of
from tests.support.server.running_server import Server

N, SEED = 3, 5


@pytest.fixture
def hidden(visit: Visit, server: Server) -> Visitor:
    """A picture with a hole that known pixels follow."""
    visitor = visit(f"{server.url}/#complete")
    visitor.expect_ready()
    upload(visitor, encode(picture()))
    hide(visitor)
    return visitor


def hide(visitor: Visitor) -> None:
    visitor.see("#rows").fill(str(HEIGHT))
    visitor.page.get_by_text("Hide", exact=True).click()
    stroke(visitor, (0.4, 0.4), (0.6, 0.4))


def choose(visitor: Visitor, particles: int) -> None:
    visitor.unfold()
    visitor.see("#particles label").get_by_text(str(particles), exact=True).click()


def mask_of(visitor: Visitor) -> str:
    given = shown(visitor)[1][..., 3]
    return text(encode(np.where(given == 255, 255, 0).astype(np.uint8)))


def completed(client: httpx.Client, mask: str, **fields: object) -> dict[str, Any]:
    """The answer of the API to the same request."""
    body = {"image": text(encode(picture())), "mask": mask, "n": N, "seed": SEED, **fields}
    answer = client.post("/v1/images/edits", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def captions(answer: dict[str, Any], *, effective: bool) -> list[str]:
    """What the page says below each completion."""
    lines = [f"{one['bits_per_dim']:.2f}\nevidence {one['evidence_bits']:.1f}" for one in answer["data"]]
    if not effective:
        return lines
    return [
        f"{line}\neffective {one['effective_particles']:.1f}" for line, one in zip(lines, answer["data"], strict=True)
    ]


def test_the_choice_at_the_start_is_the_default_of_the_api_and_its_numbers_are_shown(
    hidden: Visitor, client: httpx.Client
) -> None:
    complete(hidden, N, SEED)
    answer = completed(client, mask_of(hidden))
    assert (np.array(shown(hidden)[2:])[..., 0] == images_of(answer)).all()
    assert hidden.see("#results figcaption").all_inner_texts()[2:] == captions(answer, effective=True)
    expect(hidden.see("#particles-legend")).to_be_visible()
    name = hidden.see("#results .stack canvas:first-child").nth(2).get_attribute("aria-label")
    assert f"evidence {answer['data'][0]['evidence_bits']:.1f} bits" in str(name)


def test_completions_with_one_particle_stand_above_those_with_several(hidden: Visitor, client: httpx.Client) -> None:
    choose(hidden, 4)
    hidden.see("#particles-compare").check()
    hidden.see("#complete-count").fill(str(N))
    hidden.see("#complete-seed").fill(str(SEED))
    hidden.see("#complete-form .primary").click()
    hidden.expect_done(2 * N, "#complete-meter")
    groups = hidden.see("#results [role=group]").evaluate_all("all => all.map(({ariaLabel}) => ariaLabel)")
    assert groups == ["1 particle", "4 particles"]
    _, _, *images = np.array(shown(hidden))[..., 0]
    answers = [completed(client, mask_of(hidden), particles=count) for count in (1, 4)]
    assert (np.array(images) == np.concatenate([images_of(answer) for answer in answers])).all()
    expected = captions(answers[0], effective=False) + captions(answers[1], effective=True)
    assert hidden.see("#results figcaption").all_inner_texts()[2:] == expected
    means = [np.mean([one["evidence_bits"] for one in answer["data"]]) for answer in answers]
    labels = [f"{group} · mean evidence {mean:.1f} bits" for group, mean in zip(groups, means, strict=True)]
    assert hidden.see("#results .label").all_inner_texts() == labels
    tops = {round(figure.bounding_box()["y"]) for figure in hidden.see("#results figure").all()}  # type: ignore[index]
    assert len(tops) == 3


def test_the_choice_is_closed_where_nothing_known_follows_a_hidden_pixel(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/#complete")
    visitor.expect_ready()
    expect(visitor.see("#particles input").first).to_be_disabled()
    expect(visitor.see("#particles-hint")).to_contain_text("only where known pixels follow hidden ones")
    hide(visitor)
    expect(visitor.see("#particles input").first).to_be_enabled()
    expect(visitor.see("#particles-hint")).to_contain_text("painted by that many particles")
    visitor.see("#uncover").click()
    expect(visitor.see("#particles input").first).to_be_disabled()
    visitor.see("#rows").fill("3")
    complete(visitor, 2, SEED)
    assert "effective" not in visitor.see("#results").inner_text()
