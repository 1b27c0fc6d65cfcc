"""`guidance` of generations, edits, events and the websocket: images of two slots each, drawn away from those without a
class."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model
from scanline.model.inference import load
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import shapes
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import NO_DELAY, arguments
from tests.support.server.sse_reader import images as event_images
from tests.support.server.sse_reader import named, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

GENERATIONS, EDITS = "/v1/images/generations", "/v1/images/edits"
SLOTS, WAITING, MAX_IMAGES = 7, 13, 24  # an odd number of slots: one of them stays free among guided images
ROOM = SLOTS + WAITING
IMAGE = noise(7, 5)
HOLE = np.full((7, 5), 255, np.uint8)  # known bytes before, between and after the bytes to paint
HOLE[2:5, 1:3] = 0
MASKED = {"image": text(encode(IMAGE)), "mask": text(encode(HOLE))}
STAR = 3  # its label
DEFAULTS = {"class": "any", "guidance": 1.5}

WRONG = {  # label: fields besides a class, the code
    "below 1": ({"guidance": 0.5}, "invalid_value"),
    "above 10": ({"guidance": 11}, "invalid_value"),
    "a number as text": ({"guidance": "2"}, "invalid_value"),
    "not a number": ({"guidance": float("nan")}, "invalid_value"),
    "infinite": ({"guidance": float("inf")}, "invalid_value"),
    "no class": ({"guidance": 2, "class": None}, "invalid_value"),
}


@pytest.fixture(scope="module")
def network(guided_directory: Path) -> Transformer:
    return load_model(guided_directory, "cpu")


@pytest.fixture(scope="module")
def guided_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shapes.evaluate(shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED))


@pytest.fixture(scope="module")
def guided_server(guided_directory: Path, shapes_directory: Path) -> Iterator[Server]:
    """A model, one of the same classes that predicts mixtures of logistics, and one that is guided by default."""
    limits = {"slots": SLOTS, "max-waiting-images": WAITING, "max-images-per-request": MAX_IMAGES, "client-share": 1}
    default = shapes.save(guided_directory.with_name("default"), shapes.GUIDED)
    (default / "generation_config.json").write_text(json.dumps({**DEFAULTS, "temperature": 0.9, "particles": 4}))
    others = {"model": [str(shapes_directory), str(default)]}
    with serve(guided_directory, *arguments({**others, **limits, **NO_DELAY})) as server:
        yield server


@pytest.fixture
def guided_client(guided_server: Server) -> Iterator[httpx.Client]:
    with guided_server.client() as client:
        yield client


def post(client: httpx.Client, url: str = GENERATIONS, **fields: object) -> dict[str, Any]:
    response = client.post(url, json={"class": "star", "seed": 7, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def alone(network: Transformer, n: int, seed: int = 7, **fields: Any) -> np.ndarray:
    """The images [n, 7, 5] of stars that an engine without a server paints."""
    request = GenerateRequest(0, n, seed, **{"label": STAR, "guidance": 2.5, **fields})
    return paint_request(network, request).images.reshape(n, 7, 5)


def completed(network: Transformer, n: int, seed: int = 7, **fields: Any) -> np.ndarray:
    """As `alone`, completions of IMAGE around HOLE."""
    return alone(network, n, seed, known=(IMAGE.tobytes(),), masks=((HOLE == 255).tobytes(),), **fields)


@pytest.mark.parametrize(("guidance", "temperature"), [(2.5, 0.8), (10, 1.0)])
def test_guided_images_are_those_of_painting_without_a_server(
    guided_client: httpx.Client, network: Transformer, guidance: float, temperature: float
) -> None:
    answer = post(guided_client, n=5, guidance=guidance, temperature=temperature)
    request = GenerateRequest(0, 5, 7, temperature, label=STAR, guidance=float(guidance))
    expected = paint_request(network, request)
    np.testing.assert_array_equal(painted(answer), expected.images.reshape(5, 7, 5))
    assert [one["bits_per_dim"] for one in answer["data"]] == pytest.approx(expected.bits_per_dim.tolist(), rel=1e-6)


def test_guided_images_of_a_mixture_of_logistics_are_those_of_painting_without_a_server(
    guided_client: httpx.Client, shapes_directory: Path
) -> None:
    answer, network = post(guided_client, model="shapes", n=3, guidance=2.5), load_model(shapes_directory, "cpu")
    np.testing.assert_array_equal(painted(answer), alone(network, 3))
    assert (painted(answer) != alone(network, 3, guidance=1.0)).any()


def test_guidance_changes_the_images_and_guidance_1_does_not(guided_client: httpx.Client) -> None:
    plain, none, guided = (
        post(guided_client, n=3, **fields)["data"] for fields in ({}, {"guidance": 1}, {"guidance": 2})
    )
    assert plain == none
    assert all(one["b64_json"] != other["b64_json"] for one, other in zip(plain, guided, strict=True))


def test_a_noisy_picture_is_classified_to_within_a_tolerance(
    guided_client: httpx.Client, guided_directory: Path
) -> None:
    """Like guidance, it takes logits of all values."""
    noisy = np.full((7, 5), 3, np.uint8)
    noisy[2:4] = 252
    data = post_picture(guided_client, "classifications", noisy)
    model = load(guided_directory, device="cpu")
    law = model.classify(noisy).bits[0] / 35
    assert list(data["bits_per_dim"].values()) == pytest.approx(law.tolist(), rel=1e-6)
    cleaned = np.where(noisy > 9, 254, 0).astype(np.uint8)
    exact = model.classify(cleaned).bits[0] / 35
    assert (law < exact / 2).all()
    likelihood = post_picture(guided_client, "likelihoods", noisy, clean="auto", **{"class": "circle"})
    assert likelihood["bits_per_dim"] == pytest.approx(exact[0], rel=1e-6)


def post_picture(client: httpx.Client, of: str, picture: np.ndarray, **fields: object) -> dict[str, Any]:
    response = client.post(f"/v1/images/{of}", json={"image": text(encode(picture)), **fields})
    assert response.status_code == 200, response.text
    return response.json()["data"][0]


def test_a_request_that_says_nothing_gets_the_models_defaults_and_is_told_them(
    guided_server: Server, guided_client: httpx.Client
) -> None:
    unsaid = {"model": "default", "seed": 7}
    said = {**unsaid, **DEFAULTS, "temperature": 0.9}
    answers = [guided_client.post(GENERATIONS, json={**fields, "n": 3}).json() for fields in (unsaid, said)]
    assert answers[0]["data"] == answers[1]["data"]
    assert (answers[0]["guidance"], answers[0]["temperature"]) == (1.5, 0.9)
    assert all(image["class"] for image in answers[0]["data"])
    with connected(guided_server.url) as websocket:
        job = websocket.paint(type="generate", n=3, **unsaid)
    np.testing.assert_array_equal(job.images(), painted(answers[0]).reshape(3, 35))
    (none,) = post(guided_client, **unsaid, **{"class": "none"})["data"]
    assert none["class"] is None
    edit = post(guided_client, EDITS, **unsaid, **MASKED, **{"class": None})
    assert (edit["guidance"], edit["data"][0]["class"]) == (1.0, None)
    too_many = guided_client.post(GENERATIONS, json={**unsaid, "n": 13})
    assert_refused(too_many, 400, "guidance", "invalid_value")
    card = guided_client.get("/v1/models/default").json()
    assert card["defaults"] == {**DEFAULTS, "temperature": 0.9, "particles": 4}


def test_guided_images_are_the_same_beside_others(guided_server: Server, network: Transformer) -> None:
    edit = {"type": "complete", **MASKED}
    jobs: dict[str, tuple[dict[str, object], np.ndarray]] = {
        "guided": ({"type": "generate", "n": 3, "class": "star", "guidance": 2.5}, alone(network, 3)),
        "plain": ({"type": "generate", "n": 3}, alone(network, 3, label=0, guidance=1.0)),
        "completed": ({**edit, "n": 2, "class": "star", "guidance": 4}, completed(network, 2, guidance=4.0)),
        "particles": ({**edit, "class": "star", "particles": 5}, completed(network, 1, guidance=1.0, particles=5)),
    }
    with connected(guided_server.url) as websocket:
        websocket.send_together(*({"id": name, "seed": 7, **fields} for name, (fields, _) in jobs.items()))
        done = websocket.receive_until_finished(len(jobs))
    for name, (_, expected) in jobs.items():
        np.testing.assert_array_equal(done[name].images(), expected.reshape(len(expected), 35), err_msg=name)


def test_events_and_the_websocket_have_the_same_guided_images(
    guided_server: Server, guided_client: httpx.Client
) -> None:
    fields = {"n": 3, "seed": 7, "guidance": 2.5, "class": "star"}
    whole = post(guided_client, **fields)
    events = post_for_events(guided_client, GENERATIONS, partial_images=3, **fields)
    np.testing.assert_array_equal(event_images(events), painted(whole))
    bits = [one["bits_per_dim"] for one in whole["data"]]
    assert [one["bits_per_dim"] for one in named(events, "completed")] == bits
    with connected(guided_server.url) as websocket:
        job = websocket.paint(type="generate", **fields)
    np.testing.assert_array_equal(job.images(), painted(whole).reshape(3, 35))


@pytest.mark.parametrize("fields", [{}, {"particles": 1}], ids=["no particles", "one particle"])
def test_a_guided_edit_keeps_the_known_pixels(
    guided_client: httpx.Client, network: Transformer, fields: dict[str, object]
) -> None:
    answer = post(guided_client, EDITS, n=3, guidance=2.5, **MASKED, **fields)
    np.testing.assert_array_equal(painted(answer), completed(network, 3))
    np.testing.assert_array_equal(painted(answer)[:, HOLE == 255], np.stack([IMAGE[HOLE == 255]] * 3))
    rows = painted(post(guided_client, EDITS, image=MASKED["image"], keep_rows=4, guidance=2.5))
    np.testing.assert_array_equal(rows[0, :4], IMAGE[:4])


def test_a_form_has_guidance_too(guided_client: httpx.Client) -> None:
    files = {"image": encode(IMAGE), "mask": encode(HOLE)}
    response = guided_client.post(EDITS, files=files, data={"seed": "7", "class": "star", "guidance": "2.5"})
    assert response.json()["data"] == post(guided_client, EDITS, guidance=2.5, **MASKED)["data"]
    for wrong in ("strong", "nan", "0.5", "11"):
        response = guided_client.post(EDITS, files=files, data={"class": "star", "guidance": wrong})
        assert_refused(response, 400, "guidance", "invalid_value")


@pytest.mark.parametrize("label", WRONG)
def test_guidance_that_cannot_be_had_is_refused(guided_server: Server, guided_client: httpx.Client, label: str) -> None:
    fields, code = WRONG[label]
    body = {"class": "star", **fields}
    with connected(guided_server.url) as websocket:
        for kind, more in (("generate", {}), ("complete", MASKED)):
            job = websocket.paint(type=kind, id=kind, **more, **body)
            assert_error({"error": job.messages[-1]["error"]}, "guidance", code)
    if label in ("not a number", "infinite"):  # httpx sends no such JSON
        return
    for url, more in ((GENERATIONS, {}), (GENERATIONS, {"stream": True}), (EDITS, MASKED)):
        response = guided_client.post(url, json={**body, **more})
        assert_refused(response, 400, "guidance", code)


def test_guidance_and_particles_exclude_each_other(guided_server: Server, guided_client: httpx.Client) -> None:
    body = {**MASKED, "class": "star", "guidance": 2, "particles": 4}
    expected = "guidance and particles cannot be combined; send one of them."
    response = guided_client.post(EDITS, json=body)
    assert_refused(response, 400, "particles", "invalid_value")
    assert response.json()["error"]["message"] == expected
    with connected(guided_server.url) as websocket:
        job = websocket.paint(type="complete", id=1, **body)
    assert job.messages[-1]["error"]["message"] == expected
    assert post(guided_client, EDITS, **{**body, "guidance": 1})["data"][0]["effective_particles"] > 1


def test_a_server_of_one_slot_cannot_guide(guided_directory: Path) -> None:
    sentence = "This server has one slot, and a guided image needs two."
    with serve(guided_directory, "--slots", "1") as server, server.client() as client:
        for url, more in ((GENERATIONS, {}), (GENERATIONS, {"stream": True}), (EDITS, MASKED)):
            error = client.post(url, json={"class": "star", "guidance": 2, **more}).json()["error"]
            assert (error["message"], error["param"], error["code"]) == (sentence, "guidance", "guidance_not_supported")
        assert len(post(client, guidance=1)["data"]) == 1


def test_the_limits_count_a_guided_image_twice(guided_client: httpx.Client) -> None:
    reason = {"reason": "client_queue_full"}
    before = Metrics(guided_client).of("requests_rejected_total", **reason)
    n = MAX_IMAGES // 2 + 1
    response = guided_client.post(GENERATIONS, json={"class": "star", "guidance": 2, "n": n})
    assert_refused(response, 400, "guidance", "invalid_value")
    assert response.json()["error"]["message"] == (
        f"guidance: {n} images take {2 * n} slots, two each unless it is 1, above the limit of {MAX_IMAGES} per"
        " request."
    )
    n = ROOM // 2 + 1
    response = guided_client.post(GENERATIONS, json={"class": "star", "guidance": 2, "n": n})
    assert_refused(response, 429, None, "client_queue_full")
    assert f"{2 * n} images, each guided image counted as two, " in response.json()["error"]["message"]
    # the room of refused requests is free again
    assert len(post(guided_client, guidance=2, n=ROOM // 2)["data"]) == ROOM // 2
    assert len(post(guided_client, n=ROOM)["data"]) == ROOM
    now = Metrics(guided_client)
    assert now.of("requests_rejected_total", **reason) == before + 1
    assert now.of("num_images_reserved") == 0


def test_a_model_card_says_whether_images_can_be_guided(guided_client: httpx.Client) -> None:
    cards = guided_client.get("/v1/models").json()["data"]
    assert {card["id"]: card["max_guidance"] for card in cards} == {"guided": 10, "shapes": 10, "default": 10}


def test_the_log_and_the_description_know_guidance(guided_server: Server, guided_client: httpx.Client) -> None:
    schemas = guided_client.get("/openapi.json").json()["components"]["schemas"]
    for name in ("GenerationRequest", "EditRequest", "EditForm"):
        field = schemas[name]["properties"]["guidance"]
        assert (field["minimum"], field["maximum"]) == (1, 10)
    post(guided_client, guidance=3.75)
    wait_for(lambda: any("guidance=3.75" in line for line in guided_server.log), "a line of the log")
