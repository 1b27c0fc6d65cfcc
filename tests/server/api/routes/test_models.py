"""Routes about models: their cards, and several of them in one server."""

import shutil

import numpy as np
import pytest

from scanline.model import zoo
from scanline.model.base.extras import version
from scanline.model.tasks.offline import paint
from scanline.server.models.registry import served_models
from scanline.server.settings import Settings
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.json_requests import MASKED, post
from tests.support.server.metrics_reader import Metrics
from tests.support.server.routes import EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.running_server import client_of, serve
from tests.support.server.websocket_client import connected


def test_a_model_card_has_its_sizes(colour_client, colour):
    card = colour_client.get("/v1/models/colour").json()
    assert isinstance(card.pop("created"), int)
    assert "kernel" in card["backend"] or "torch" in card["backend"]
    assert len(card.pop("digest")) == len(card.pop("coding")) == 32
    assert (card.pop("backend_name"), bool(card.pop("fallbacks"))) in (
        ("cpu", False),
        ("eager", True),
    )
    del card["backend"]
    sizes = {
        "height": 3,
        "width": 4,
        "channels": 3,
        "layers": 2,
        "heads": 2,
        "parameters": colour.parameter_count,
    }
    assert card.pop("scanline") == version()
    unknown = dict.fromkeys(("max_guidance", "failure", "bits_per_dim", "typical_bits_per_dim"))
    assert card == {
        "id": "colour",
        "aliases": [],
        "object": "model",
        "owned_by": "scanline",
        "classes": [],
        "has_class_head": False,
        "state": "ready",
        "precision": "exact",
        "state_bytes_per_image": colour.config.state_bytes_per_image,
        "defaults": {"class": None, "guidance": 1, "temperature": 1, "particles": 16, "best_of": 1},
        **sizes,
        **unknown,
    }


def test_the_list_has_every_model(client):
    assert client.get("/v1/models").json() == {
        "object": "list",
        "data": [client.get("/v1/models/grey").json()],
    }
    assert_refused(client.get("/v1/models/white/../grey2"), 404, "model", "model_not_found")


@pytest.fixture(scope="module")
def several(tmp_path_factory, grey_directory, colour_directory):
    """Two models that load and one that does not; two threads
    each, where other servers have one.
    """
    broken = shutil.copytree(grey_directory, tmp_path_factory.mktemp("models") / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    others = ("--model", str(colour_directory), "--model", str(broken))
    with serve(grey_directory, *others, "--slots", "8", "--threads", "2") as server:
        yield server


of_several = client_of("several")


def test_each_paints_its_own(several, of_several, grey, colour):
    with connected(several.url) as websocket:
        for name in ("grey", "colour"):
            websocket.send(type="generate", id=name, model=name, n=3, seed=7)
        jobs = websocket.receive_until_finished(2)
    for name, model in (("grey", grey), ("colour", colour)):
        expected = paint(model, 3, seed=7).images
        answer = post(of_several, GENERATIONS, model=name, n=3, seed=7)
        assert answer["model"] == name
        for found in (painted(answer), jobs[name].images()):
            np.testing.assert_array_equal(found.reshape(3, -1), expected)


def test_models_are_shown_with_their_state_a_failed_one_with_its_error_not_its_path(of_several):
    states = {"grey": "ready", "colour": "ready", "broken": "failed"}
    cards = of_several.get("/v1/models").json()["data"]
    assert {card["id"]: card["state"] for card in cards} == states
    assert cards[2]["failure"].startswith(
        "broken/model.safetensors is not a readable safetensors file"
    )
    assert post(of_several, GENERATIONS)["model"] == "grey"  # the first is the default
    response = of_several.get("/readyz")
    assert (response.status_code, response.json()["models"]) == (200, states)
    metrics = Metrics(of_several)
    assert [metrics.of("engine_up", model_name=name) for name in states] == [1, 1, 0]


def test_requests_and_jobs_for_a_failed_model_are_refused(several, of_several):
    sentence = "The model broken cannot be served: broken/model.safetensors is not a readable"
    for path, more in ((GENERATIONS, {"stream": True}), (EDITS, MASKED), (LIKELIHOODS, MASKED)):
        response = of_several.post(path, json={"model": "broken", **more})
        assert_refused(response, 503, "model", "model_failed")
        assert response.json()["error"]["message"].startswith(sentence)
        assert "retry-after" not in response.headers
        assert response.headers["x-should-retry"] == "false"
    with connected(several.url) as websocket:
        assert_error(
            websocket.paint(model="broken").messages[-1],
            "model",
            "model_failed",
            503,
        )
        assert websocket.paint(model="grey").last == "done"


def test_a_server_without_models_in_its_settings_serves_all_shipped_ones():
    assert list(served_models(Settings()).all) == zoo.names()


# label: cores, models, settings; share and threads of each
SHARES = {
    "a single model": (8, 1, {}, [(1, None)]),
    "several models": (8, 3, {}, [(1 / 3, 3), (1 / 3, 3), (1 / 3, 2)]),
    "more models than cores": (2, 3, {}, [(1 / 3, 1)] * 3),
    "threads of each": (8, 2, {"threads": 5}, [(1 / 2, 5)] * 2),
}


@pytest.mark.parametrize("label", SHARES)
def test_models_share_the_free_memory_and_the_cores(monkeypatch, tmp_path, grey_directory, label):
    cores, models, given, expected = SHARES[label]
    monkeypatch.setattr("scanline.server.models.registry.cores", lambda: cores)
    copies = tuple(
        str(shutil.copytree(grey_directory, tmp_path / f"copy{index}")) for index in range(models)
    )
    options = [
        model.engine.options
        for model in served_models(Settings(models=copies, **given)).all.values()
    ]
    assert [(one.share, one.threads) for one in options] == expected
