"""Routes about the server itself: its models, its health, its documentation."""

import httpx

from scanline.model.network.transformer import Transformer


def test_a_model_card_has_its_sizes(colour_client: httpx.Client, colour: Transformer) -> None:
    card = colour_client.get("/v1/models/colour").json()
    assert isinstance(card.pop("created"), int)
    assert "kernel" in card["backend"] or "torch" in card["backend"]
    assert len(card.pop("digest")) == len(card.pop("coding")) == 32
    assert (card.pop("backend_name"), bool(card.pop("fallbacks"))) in (("cpu", False), ("eager", True))
    del card["backend"]
    assert card == {
        "id": "colour",
        "aliases": [],
        "object": "model",
        "owned_by": "scanline",
        "height": 3,
        "width": 4,
        "channels": 3,
        "layers": 2,
        "heads": 2,
        "classes": [],
        "max_guidance": None,
        "defaults": {"class": None, "guidance": 1, "temperature": 1, "particles": 16},
        "state": "ready",
        "failure": None,
        "parameters": colour.parameter_count,
        "bits_per_dim": None,
        "typical_bits_per_dim": None,
        "state_bytes_per_image": colour.config.state_bytes_per_image,
        "precision": "exact",
    }


def test_the_list_has_every_model(client: httpx.Client) -> None:
    assert client.get("/v1/models").json() == {"object": "list", "data": [client.get("/v1/models/grey").json()]}
    response = client.get("/v1/models/white/../grey2")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
