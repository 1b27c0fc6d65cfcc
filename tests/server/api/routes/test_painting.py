"""What is asked of painting reaches the library over every face, and what
cannot be had is refused by each.
"""

import json

import pytest
from numpy.testing import assert_array_equal

from scanline.model.inference import load
from scanline.server.api.base.errors import from_exception
from scanline.server.api.payload.partial_images import UNPAINTED
from scanline.server.engine.job import EngineFailedError
from tests.support import shapes
from tests.support.pictures import encode, painted, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import (
    CLEAN,
    FILES,
    HOLE,
    IMAGE,
    MASKED,
    NOISY,
    generate,
    post,
)
from tests.support.server.metrics_reader import Metrics
from tests.support.server.routes import CLASSIFICATIONS, EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.running_server import client_of
from tests.support.server.shared_servers import NO_DELAY, server_of
from tests.support.server.sse_reader import images, named, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.shapes import ROOM, SLOTS

FACTS = ("class", "bits_per_dim", "evidence_bits", "effective_particles")
STAR = {"class": "star", "seed": 7, "temperature": 0.8}
PICTURE = {"image": MASKED["image"], "keep_rows": 3}
# an odd number of slots: one stays free among guided images
GUIDED_SLOTS = 7
GUIDED_WAITING = 13
GUIDED_IMAGES = 24
GUIDED_ROOM = GUIDED_SLOTS + GUIDED_WAITING
LIMITS = {
    "slots": GUIDED_SLOTS,
    "max-waiting-images": GUIDED_WAITING,
    "max-images-per-request": GUIDED_IMAGES,
}
DEFAULTS = {"class": "any", "guidance": 1.5, "temperature": 0.9, "particles": 4, "best_of": 1}

ASKED = {  # label: fields, and the library's own
    "temperature": ({"temperature": 0.9}, {"temperature": 0.9}),
    "a class": ({"class": "Star"}, {"class_name": "star"}),
    "a prompt": ({"prompt": "One hand-drawn STAR, please."}, {"class_name": "star"}),
    "a class beside an empty prompt": ({"prompt": "", "class": "box"}, {"class_name": "square"}),
    "nothing": ({"class": None, "prompt": None}, {}),
}
OF_GENERATIONS = ASKED | {"any class": ({"class": "any"}, {"class_name": "any"})}
OF_EDITS = ASKED | {
    "particles": ({"particles": 5}, {"particles": 5}),
    "as many particles as slots": ({"particles": SLOTS}, {"particles": SLOTS}),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = shapes.evaluate(
        shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED)
    )
    (directory / "generation_config.json").write_text(json.dumps(DEFAULTS))
    return directory


@pytest.fixture(scope="module")
def guided_model(directory):
    return load(directory, device="cpu")


guided_server = server_of({**LIMITS, "client-share": 1, **NO_DELAY}, "directory")
guided = client_of("guided_server")


def facts(data):
    """What an answer, events or messages say of each image, in the order of the images."""
    ordered = sorted(data, key=lambda one: one["index"])
    return [[one[name] for name in FACTS] for one in ordered]


def facts_of_library(law):
    rows = []
    for index, bits in enumerate(law.bits_per_dim):
        name = law.classes[index] if law.classes else None
        row = [name, pytest.approx(bits, rel=1e-6), None, None]
        if law.evidence_bits is not None:
            row[2] = pytest.approx(law.evidence_bits[index], rel=1e-6)
            row[3] = pytest.approx(law.effective_particles[index], rel=1e-6)
        rows.append(row)
    return rows


def assert_painted(server, client, url, law, **fields):
    """Every face answers with these images, and says the same of each."""
    answer = post(client, url, **fields)
    said = facts(answer["data"])
    assert_array_equal(painted(answer), law.array)
    assert said == facts_of_library(law)
    events = post_for_events(client, url, **fields)
    assert_array_equal(images(events), law.array)
    assert facts(named(events, "completed")) == said
    with connected(server.url) as websocket:
        job = websocket.paint("complete" if url == EDITS else "generate", **fields)
    assert_array_equal(job.images(), law.array.reshape(len(law.array), -1))
    assert facts([one for one in job.messages if one["type"] == "image"]) == said
    if url == EDITS:
        texts = {name: str(value) for name, value in fields.items() if value is not None}
        files = {name: FILES[name] for name in ("image", "mask") if texts.pop(name, "")}
        form = client.post(EDITS, files=files, data=texts)
        assert form.json()["data"] == answer["data"]


@pytest.mark.parametrize("label", OF_GENERATIONS)
def test_generations_are_those_of_the_library_on_every_face(
    shapes_server, shapes_client, shapes_model, label
):
    fields, asked = OF_GENERATIONS[label]
    law = shapes_model.sample(9, seed=2**63 - 1, **asked)
    assert len({*law.classes}) == {"any": 3, None: 0}.get(asked.get("class_name"), 1)
    assert_painted(shapes_server, shapes_client, GENERATIONS, law, n=9, seed=2**63 - 1, **fields)


@pytest.mark.parametrize("known", [{"mask": HOLE == 255}, {"keep_rows": 3}], ids=["mask", "rows"])
@pytest.mark.parametrize("label", OF_EDITS)
def test_completions_are_those_of_the_library_on_every_face(
    shapes_server,
    shapes_client,
    shapes_model,
    label,
    known,
):
    fields, asked = OF_EDITS[label]
    given = MASKED if "mask" in known else PICTURE
    law = shapes_model.complete(IMAGE, n=3, seed=4, **known, **asked)
    assert_painted(shapes_server, shapes_client, EDITS, law, n=3, seed=4, **given, **fields)


def test_guidance_is_that_of_the_library(guided_server, guided, guided_model):
    asked = {"class_name": "star", "seed": 7, "temperature": 0.8, "n": 3}
    law = guided_model.sample(**asked, guidance=2.5)
    fields = {**STAR, "guidance": 2.5, "n": 3}
    assert (law.array != guided_model.sample(**asked, guidance=1).array).any()
    assert_painted(guided_server, guided, GENERATIONS, law, **fields)
    law = guided_model.complete(IMAGE, mask=HOLE == 255, **asked, guidance=2.5, particles=1)
    for more in ({}, {"particles": 1}):
        assert_painted(guided_server, guided, EDITS, law, **fields, **MASKED, **more)


def test_a_noisy_picture_is_classified_to_within_a_tolerance(guided, guided_model):
    """Like guidance, it takes logits of all values."""
    picture = {"image": text(encode(NOISY))}
    (one,) = post(guided, CLASSIFICATIONS, **picture)["data"]
    law, exact = (guided_model.classify(image).bits[0] / 35 for image in (NOISY, CLEAN))
    assert list(one["bits_per_dim"].values()) == pytest.approx(law.tolist(), rel=1e-6)
    assert (law < exact / 2).all()
    (one,) = post(guided, LIKELIHOODS, **picture, clean="auto", **{"class": "circle"})["data"]
    assert one["bits_per_dim"] == pytest.approx(exact[0], rel=1e-6)


def test_a_request_that_says_nothing_gets_the_models_defaults(guided_server, guided):
    said = {name: value for name, value in DEFAULTS.items() if name != "particles"}
    unsaid, same = (generate(guided, n=3, seed=7, **fields) for fields in ({}, said))
    assert unsaid["data"] == same["data"]
    assert (unsaid["guidance"], unsaid["temperature"]) == (1.5, 0.9)
    assert all(image["class"] for image in unsaid["data"])
    with connected(guided_server.url) as websocket:
        job = websocket.paint(n=3, seed=7)
    assert_array_equal(job.images(), painted(unsaid).reshape(3, 35))
    assert generate(guided, **{"class": "none"})["data"][0]["class"] is None
    edit = post(guided, EDITS, **MASKED, **{"class": None})
    assert (edit["guidance"], edit["data"][0]["class"]) == (1.0, None)
    card = guided.get("/v1/models/guided").json()
    assert (card["defaults"], card["max_guidance"]) == (DEFAULTS, 10)


def test_partial_images_with_pixels_of_one_particle_say_that_they_are_provisional(shapes_client):
    found = []
    # how far an image is when its partial images are cut is a matter of time
    for seed in range(20):
        events = post_for_events(
            shapes_client, EDITS, partial_images=3, seed=seed, particles=8, **MASKED
        )
        partial = named(events, "partial_image")
        assert [event["partial_image_index"] for event in partial] == [0, 1, 2]
        pictures = images(events, "partial_image")
        whole = images(events)[0]
        for event, picture in zip(partial, pictures, strict=True):
            assert_array_equal(picture[HOLE == 255], IMAGE[HOLE == 255])
            found.append(
                (
                    event.get("provisional"),
                    bool(((picture != whole) & (picture != UNPAINTED)).any()),
                )
            )
        if (True, True) in found:
            break
    assert set(found) <= {(None, False), (True, False), (True, True)}
    assert (True, True) in found


def test_an_engine_replaced_by_one_of_fewer_slots_names_the_field():
    failed = EngineFailedError("This server has fewer slots.", "invalid_value", "particles")
    assert from_exception(failed).body["error"]["param"] == "particles"


def test_the_limits_count_every_particle(shapes_server, shapes_client):
    response = shapes_client.post(EDITS, json={**MASKED, "n": ROOM // 20 + 1, "particles": 20})
    assert_refused(response, 429, None, "client_queue_full")
    assert str(20 * (ROOM // 20 + 1)) in response.json()["error"]["message"]
    # images without a choice of particles count once
    data = post(shapes_client, EDITS, image=MASKED["image"], keep_rows=2, n=ROOM - 1)["data"]
    assert [one["effective_particles"] for one in data] == [1.0] * (ROOM - 1)
    assert Metrics(shapes_client).of("num_images_reserved") == 0
    post(shapes_client, EDITS, particles=7, n=2, **MASKED)
    shapes_server.wait_for_log("slots=14")


def test_the_limits_count_a_guided_image_twice(guided_server, guided):
    most = GUIDED_ROOM // 2
    response = guided.post(GENERATIONS, json={**STAR, "guidance": 2, "n": most + 1})
    assert_refused(response, 429, None, "client_queue_full")
    assert f"{GUIDED_ROOM + 2} images, each guided image counted as two, " in response.text
    assert len(post(guided, GENERATIONS, **STAR, guidance=3.75, n=most)["data"]) == most
    assert Metrics(guided).of("num_images_reserved") == 0
    guided_server.wait_for_log(f"slots={2 * most}")
