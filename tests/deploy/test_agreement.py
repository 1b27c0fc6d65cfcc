"""Facts that files of deploy/ share with the Dockerfile, pyproject.toml and the server's code."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from scanline.server.api.errors import ApiError
from scanline.server.cluster.arguments import ClusterSettings, cluster_settings
from scanline.server.environment import check
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.process.running import CLOSING_SECONDS
from scanline.server.runtime.lifecycle import ERROR_RESPONSE_SECONDS
from scanline.server.settings import Settings
from tests.support import manifests
from tests.support.manifests import COMPOSE, COMPOSE_CUDA, CPU, NGINX_CONF, RAY, SERVE, nginx


def numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def dockerfile(pattern: str) -> list[Any]:
    return re.findall(pattern, manifests.DOCKERFILE, re.MULTILINE)


PROJECT = tomllib.loads((manifests.ROOT / "pyproject.toml").read_text())["project"]
SETTINGS = cluster_settings(SERVE["applications"][0]["args"])
HTTP = SERVE["http_options"]
PODS = {name: workload["template"]["spec"] for name, workload in manifests.WORKLOADS.items()}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
CONTAINERS["cuda"] = manifests.CUDA["spec"]["template"]["spec"]["containers"][0]
IMAGES = {"cpu": "", "cuda": "-cuda", "head": "-cluster", "workers": "-cluster"}  # of which build
SERVICES = [*map(CONTAINERS.get, IMAGES), COMPOSE["scanline"], COMPOSE_CUDA["scanline"]]
DEPLOY_PAGE = (manifests.ROOT / "docs/deploy.md").read_text()
(PORT,) = dockerfile(r"SCANLINE_PORT=(\d+)")
# only nginx reaches Serve in Kubernetes: there it trusts no proxy
TRUSTLESS = [{**one, "args": {**one["args"], "trusted_proxies": []}} for one in SERVE["applications"]]


def test_variables_are_settings() -> None:
    check(dict(dockerfile(r"\b(SCANLINE_\w+)=(\S+)")), ())
    check(dict.fromkeys(COMPOSE["scanline"]["environment"], ""), ())
    for name in IMAGES:
        variables = dict.fromkeys((variable["name"] for variable in CONTAINERS[name]["env"]), "")
        assert variables
        variables.pop("HOME", None)
        check(variables, (), ClusterSettings if name in ("head", "workers") else Settings)


def default(name: str) -> float:
    return float(Settings.model_fields[name].default)


SAME: dict[str, tuple[Any, Any]] = {
    "torch": ([torch in PROJECT["dependencies"] for torch in dockerfile(r'"(torch[^"]*)"')], [True]),
    "image": (
        [service["image"] for service in SERVICES],
        [f"scanline:{PROJECT['version']}{kind}" for kind in (*IMAGES.values(), "", "-cuda")],
    ),
    "image of the page": (set(re.findall(r"scanline:(\d[\d.]*\d)", DEPLOY_PAGE)), {PROJECT["version"]}),
    "port of Compose": (COMPOSE["scanline"]["ports"], [f"127.0.0.1:{PORT}:{PORT}"]),
    "port of the pod": ([str(port["containerPort"]) for port in CONTAINERS["cpu"]["ports"]], [PORT]),
    "configuration of Serve": (manifests.documents("serve.yaml"), [{**SERVE, "applications": TRUSTLESS}]),
    "address of Serve": (
        re.findall(r"server (\S+) max_fails", NGINX_CONF),
        [f"{RAY['metadata']['name']}-serve-svc:{HTTP['port']}"],
    ),
    "max_body_bytes": (int(nginx("client_max_body_size")), SETTINGS.max_body_bytes),
    "max_head_bytes": (numbers(nginx("large_client_header_buffers")), [4, SETTINGS.max_head_bytes // 4 // 1024]),
    "send_timeout": (nginx("send_timeout"), f"{SETTINGS.send_timeout:g}s"),
    "max_connections": (re.findall(r"limit_conn connections (\d+);", NGINX_CONF), [str(SETTINGS.max_connections)]),
    "time limit": (re.findall(r"proxy_read_timeout (\d+)s", NGINX_CONF)[0], str(HTTP["request_timeout_s"])),
}
VARIABLES = {variable["name"]: variable.get("value") for variable in CONTAINERS["cpu"]["env"]}
AFTER_DRAIN = ERROR_RESPONSE_SECONDS + CLOSING_SECONDS
EXIT_SECONDS = default("drain_seconds") + AFTER_DRAIN
POD_EXIT_SECONDS = float(VARIABLES.get("SCANLINE_DRAIN_SECONDS", default("drain_seconds"))) + AFTER_DRAIN
SHUTDOWN_SECONDS = numbers(nginx("worker_shutdown_timeout"))[0]
PATIENCE = {  # seconds that Kubernetes waits for an exit after its signal
    name: PODS[name]["terminationGracePeriodSeconds"] - CONTAINERS[name]["lifecycle"]["preStop"]["sleep"]["seconds"]
    for name in ("cpu", "proxy")
}
ORDERED: dict[str, tuple[Any, Any]] = {  # the first is less than the second
    "exit, Compose's patience": (EXIT_SECONDS, numbers(COMPOSE["scanline"]["stop_grace_period"])[0]),
    "exit, of systemd": (EXIT_SECONDS, numbers(manifests.UNIT.split("StopSec=")[1])[0]),
    "exit, Kubernetes' patience": (POD_EXIT_SECONDS, PATIENCE["cpu"]),
    "exit of nginx, Kubernetes' patience": (SHUTDOWN_SECONDS, PATIENCE["proxy"]),
    "drain of an ingress, exit of nginx": (SETTINGS.drain_seconds, SHUTDOWN_SECONDS + 1),
    "drain of an ingress, end of a cluster": (SETTINGS.drain_seconds, RAY["spec"]["rayClusterDeletionDelaySeconds"]),
    "loading of a model, deadline of a rollout": (default("load_timeout"), CPU["spec"]["progressDeadlineSeconds"]),
    "time limit of the API, of Serve": (SETTINGS.request_timeout, HTTP["request_timeout_s"]),
    # nginx, whose default is 60 seconds, would else send a request into a connection that Serve just closes
    "idle seconds of nginx, of Serve": (60, HTTP["keep_alive_timeout_s"]),
    "Python, of the image": (numbers(PROJECT["requires-python"]), numbers(dockerfile(r"^ARG PYTHON=(.*)$")[0])),
}


@pytest.mark.parametrize("fact", SAME)
def test_files_agree(fact: str) -> None:
    one, other = SAME[fact]
    assert other
    assert one == other


@pytest.mark.parametrize("fact", ORDERED)
def test_limits_are_in_order(fact: str) -> None:
    less, more = ORDERED[fact]
    assert less < more


def test_the_server_answers_the_paths_of_probes_and_prometheus(grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),))
    client = TestClient(build(settings, served_models(settings)))
    probes = [CONTAINERS["cpu"][f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")]
    annotations = CPU["spec"]["template"]["metadata"]["annotations"]
    paths = [*probes, annotations["prometheus.io/path"]]
    assert [client.get(path).status_code for path in paths] == [200, 503, 200, 200]  # no engine has been started
    assert annotations["prometheus.io/port"] == PORT


def test_refusals_of_nginx_have_the_shape_of_all_errors() -> None:
    refusals = re.findall(r"return (\d{3}) '(\{.*\})';", NGINX_CONF)
    assert len(refusals) == len(re.findall(r"error_page", NGINX_CONF)) > 0
    for status, body in refusals:
        error = json.loads(body)["error"]
        assert {"error": error} == ApiError(int(status), error["message"], code=error["code"]).body
