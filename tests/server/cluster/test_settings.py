"""What `serve run scanline.server.cluster:app` is given, and what is refused."""

from typing import Any

import pytest

from scanline.server.cluster import app
from scanline.server.cluster.settings import ClusterSettings, cluster_settings


def test_texts_of_a_command_line_are_numbers() -> None:
    settings = cluster_settings({"model": "mnist-small", "replicas": "2", "gpus": "0.5", "slots": "512"})
    assert (settings.models, settings.replicas, settings.gpus, settings.slots) == (("mnist-small",), 2, 0.5, 512)


@pytest.mark.parametrize("models", ["mnist-small,cifar10-small", ["mnist-small", "cifar10-small"]])
def test_several_models(models: Any) -> None:
    assert cluster_settings({"model": models}).models == ("mnist-small", "cifar10-small")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"replicas": 0}, "replicas: Input should be greater than or equal to 1"),
        ({"gpus": -1}, "gpus: Input should be greater than or equal to 0"),
        ({"target_share": 2}, "target_share: Input should be less than or equal to 1"),
        ({"port": 80}, "port is for Serve's proxies to say: see http_options"),
        ({"replicas": 2, "max_replicas": 3}, "replicas is a fixed number: leave it out, or min_replicas and max_"),
        ({"min_replicas": 3}, "min_replicas must be at most max_replicas"),
        ({"replica": 2}, "replica: there is no such argument, but allow_origins, api_keys, "),
        ({"model": ""}, "model: a model's name must not be empty"),
    ],
)
def test_what_is_wrong_is_named(args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        cluster_settings(args)


def test_a_model_that_is_not_there_is_told_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        app({"model": "nowhere"})


def test_variables_are_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANLINE_API_KEYS", "one,two")
    assert len(cluster_settings({}).api_keys) == 2
    assert "two" not in repr(cluster_settings({}))


def test_a_variable_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANLINE_REPLICSA", "2")
    with pytest.raises(ValueError, match="did you mean SCANLINE_REPLICAS"):
        cluster_settings({})


def test_every_argument_has_a_default() -> None:
    assert ClusterSettings().max_replicas == 1
