"""Arguments of `serve run scanline.server.cluster:app`: what they mean, and what is refused."""

from pathlib import Path

import pytest
from ray.serve.config import HTTPOptions

from scanline.model import zoo
from scanline.server.cluster import app, application
from scanline.server.cluster.arguments import (
    HTTP_OPTIONS,
    NGINX_CONFIG,
    UNBOUNDED,
    ClusterSettings,
    cluster_settings,
)

ROOT = Path(__file__).parents[3]


def test_numbers_and_lists_may_be_texts_and_all_have_defaults():
    settings = cluster_settings(
        {"model": "mnist-small", "replicas": "2", "gpus": "0.5", "slots": "512"}
    )
    assert (settings.models, settings.replicas, settings.gpus, settings.slots) == (
        ("mnist-small",),
        2,
        0.5,
        512,
    )
    assert cluster_settings({}) == ClusterSettings()
    assert cluster_settings({}).models == (zoo.DEFAULT,)
    for models in ("mnist-small,cifar10-small", ["mnist-small", "cifar10-small"]):
        assert cluster_settings({"model": models}).models == ("mnist-small", "cifar10-small")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"replicas": 0}, "replicas: Input should be greater than or equal to 1"),
        ({"gpus": -1}, "gpus: Input should be greater than or equal to 0"),
        ({"target_share": 2}, "target_share: Input should be less than or equal to 1"),
        ({"port": 80}, "port: set port under http_options in Serve's configuration"),
        ({"tls_key": "k.pem"}, "tls_key: set ssl_keyfile under http_options"),
        ({"api_processes": 2}, "api_processes: set ingress_replicas instead"),
        (
            {"max_head_bytes": 9},
            "max_head_bytes: Serve's proxies have no such setting; set it in the proxy in front",
        ),
        ({"replicas": 2, "max_replicas": 3}, "replicas excludes min_replicas and max_replicas"),
        ({"min_replicas": 3}, "min_replicas must be at most max_replicas"),
        ({"replica": 2}, "replica: unknown argument; known ones are allow_hosts, allow_origins, "),
        ({"model": ""}, "model: a model must be a name or a directory, not ''"),
    ],
)
def test_a_wrong_argument_is_named(args, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        cluster_settings(args)


def test_what_belongs_under_http_options_is_a_field_there_and_the_rest_is_not():
    assert set(HTTP_OPTIONS.values()) <= HTTPOptions.model_fields.keys()
    assert not UNBOUNDED & HTTPOptions.model_fields.keys()
    assert HTTP_OPTIONS.keys() | UNBOUNDED <= ClusterSettings.model_fields.keys()
    assert (ROOT / NGINX_CONFIG).is_file()


def test_an_unknown_model_and_a_misspelt_variable_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="nowhere"):
        app({"model": "nowhere"})
    monkeypatch.setenv("SCANLINE_REPLICSA", "2")
    with pytest.raises(ValueError, match="did you mean SCANLINE_REPLICAS"):
        cluster_settings({})


def test_keys_come_from_the_environment_and_are_not_printed(monkeypatch):
    monkeypatch.setenv("SCANLINE_API_KEYS", "one,two")
    assert len(cluster_settings({}).api_keys) == 2
    assert "two" not in repr(cluster_settings({}))


def test_ray_without_a_token_is_warned_of(monkeypatch, caplog):
    for mode, address, count in (
        ("", "10.0.0.7", 1),
        ("token", "10.0.0.7", 0),
        ("", "127.0.0.1", 0),
    ):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        monkeypatch.setattr(application, "get_node_ip_address", lambda address=address: address)
        application.warn_without_token()
        assert caplog.text.count("RAY_AUTH_MODE=token") == count
        caplog.clear()
