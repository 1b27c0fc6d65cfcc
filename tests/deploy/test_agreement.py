"""Facts that two files share, of deploy/, the Dockerfile, pyproject.toml and the server's settings."""

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
from tests.support.manifests import COMPOSE, COMPOSE_CUDA, CPU, LABELS, NGINX_CONF, PROXY, RAY, SERVE, WORKERS, nginx


def without_proxies(serve: dict[str, Any]) -> dict[str, Any]:
    """The configuration of Kubernetes, where only nginx reaches Serve, without trust in it."""
    (one,) = serve["applications"]
    return serve | {"applications": [one | {"args": one["args"] | {"trusted_proxies": []}}]}


def numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def dockerfile(pattern: str) -> list[Any]:
    return re.findall(pattern, manifests.DOCKERFILE, re.MULTILINE)


def selectors(service: dict[str, Any], *others: dict[str, Any]) -> list[dict[str, str]]:
    return [service["spec"]["selector"], *(other["spec"]["selector"]["matchLabels"] for other in others)]


PROJECT = tomllib.loads((manifests.ROOT / "pyproject.toml").read_text())["project"]
SETTINGS = cluster_settings(SERVE["applications"][0]["args"])
(PROMETHEUS,), (KUSTOMIZATION,) = map(manifests.documents, ("prometheus.yml", "kubernetes/ray/kustomization.yaml"))
(SERVICE,), (BUDGET,) = (manifests.documents(f"kubernetes/cpu/{name}.yaml") for name in ("service", "budget"))
PODS = {name: workload["template"]["spec"] for name, workload in manifests.WORKLOADS.items()}
IMAGES = {"cpu": "", "cuda": "-cuda", "head": "-cluster", "workers": "-cluster"}  # of which build
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
CONTAINERS["cuda"] = manifests.CUDA["spec"]["template"]["spec"]["containers"][0]
(PORT,), (USER,) = dockerfile(r"SCANLINE_PORT=(\d+)"), dockerfile(r"^USER (\d+)$")
UPSTREAM = f"{RAY['metadata']['name']}-serve-svc"


def test_variables_are_settings() -> None:
    check(dict(dockerfile(r"\b(SCANLINE_\w+)=(\S+)")), ())
    check(dict.fromkeys(COMPOSE["scanline"]["environment"], ""), ())
    for name in IMAGES:
        variables = dict.fromkeys((variable["name"] for variable in CONTAINERS[name]["env"]), "")
        assert variables
        variables.pop("HOME", None)
        check(variables, (), ClusterSettings if name in ("head", "workers") else Settings)


SAME: dict[str, tuple[Any, Any]] = {
    "torch": ([torch in PROJECT["dependencies"] for torch in dockerfile(r'"(torch[^"]*)"')], [True]),
    "user": ([PODS[name]["securityContext"]["runAsUser"] for name in ("cpu", "head", "workers")], [int(USER)] * 3),
    "image": (
        [service["image"] for service in (*map(CONTAINERS.get, IMAGES), COMPOSE["scanline"], COMPOSE_CUDA["scanline"])],
        [f"scanline:{PROJECT['version']}{kind}" for kind in (*IMAGES.values(), "", "-cuda")],
    ),
    "image of the page": (
        re.findall(r"scanline:[\w.-]+", (manifests.ROOT / "docs/deploy.md").read_text()),
        [f"scanline:{PROJECT['version']}{kind}" for kind in ("", "-cuda", "-cluster") for _ in (1, 2)],
    ),
    "arguments of the build": (
        COMPOSE_CUDA["scanline"]["build"]["args"].keys() & {*dockerfile(r"^ARG (\w+)")},
        COMPOSE_CUDA["scanline"]["build"]["args"].keys(),
    ),
    "services of Compose": (COMPOSE_CUDA.keys() & COMPOSE.keys(), COMPOSE_CUDA.keys()),
    "memory": (
        [f"{services['scanline']['mem_limit']}i".upper() for services in (COMPOSE, COMPOSE_CUDA)],
        [CONTAINERS[name]["resources"]["limits"]["memory"].upper() for name in ("cpu", "cuda")],
    ),
    "port of Compose": (COMPOSE["scanline"]["ports"], [f"127.0.0.1:{PORT}:{PORT}"]),
    "port that Prometheus scrapes": (
        PROMETHEUS["scrape_configs"][0]["static_configs"][0]["targets"],
        [f"scanline:{PORT}"],
    ),
    "rules of Prometheus": (
        [f"./{name}:/etc/prometheus/{name}:ro" for name in PROMETHEUS["rule_files"]],
        COMPOSE["prometheus"]["volumes"][1:2],
    ),
    "port of the pod": ([str(port["containerPort"]) for port in CONTAINERS["cpu"]["ports"]], [PORT]),
    "port of the proxy": (
        re.findall(r"listen (\d+);", NGINX_CONF),
        [str(port["containerPort"]) for port in CONTAINERS["proxy"]["ports"]],
    ),
    "selectors of the server": (selectors(SERVICE, CPU, BUDGET), [LABELS["cpu"]] * 3),
    "selectors of the proxy": (
        selectors(manifests.PROXY_SERVICE, PROXY, manifests.PROXY_BUDGET),
        [LABELS["proxy"]] * 3,
    ),
    "configuration of Serve": (manifests.documents("serve.yaml"), [without_proxies(SERVE)]),
    "address of Serve": (
        re.findall(r"server (\S+) max_fails", NGINX_CONF),
        [f"{UPSTREAM}:{SERVE['http_options']['port']}"],
    ),
    "name that the proxy waits for": (PODS["proxy"]["initContainers"][0]["command"][-1].split()[3], f"{UPSTREAM};"),
    "file of nginx": (
        CONTAINERS["proxy"]["command"][2],
        f"{CONTAINERS['proxy']['volumeMounts'][0]['mountPath']}/{KUSTOMIZATION['configMapGenerator'][0]['files'][0]}",
    ),
    "folders that nginx writes": (
        {path.split("/")[1] for path in re.findall(r"^\s*(?:pid|\w+_temp_path) (\S+);", NGINX_CONF, re.MULTILINE)},
        {mount["name"] for mount in CONTAINERS["proxy"]["volumeMounts"] if not mount.get("readOnly")},
    ),
    "max_body_bytes": (int(nginx("client_max_body_size")), SETTINGS.max_body_bytes),
    "max_head_bytes": (numbers(nginx("large_client_header_buffers")), [4, SETTINGS.max_head_bytes // 4 // 1024]),
    "send_timeout": (nginx("send_timeout"), f"{SETTINGS.send_timeout:g}s"),
    "max_connections": (re.findall(r"limit_conn connections (\d+);", NGINX_CONF), [str(SETTINGS.max_connections)]),
    "time limit of requests": (
        re.findall(r"proxy_read_timeout (\d+)s", NGINX_CONF)[0],
        str(SERVE["http_options"]["request_timeout_s"]),
    ),
}


@pytest.mark.parametrize("fact", SAME)
def test_files_agree(fact: str) -> None:
    one, other = SAME[fact]
    assert other
    assert one == other


def stop_seconds(name: str) -> int:
    return int(CONTAINERS[name]["lifecycle"]["preStop"]["sleep"]["seconds"])


def default(name: str) -> float:
    return float(Settings.model_fields[name].default)


VARIABLES = {variable["name"]: variable.get("value") for variable in CONTAINERS["cpu"]["env"]}
AFTER_DRAIN = ERROR_RESPONSE_SECONDS + CLOSING_SECONDS
POD_EXIT_SECONDS = float(VARIABLES.get("SCANLINE_DRAIN_SECONDS", default("drain_seconds"))) + AFTER_DRAIN
SHUTDOWN_SECONDS = numbers(nginx("worker_shutdown_timeout"))[0]
RAY_CPUS = int(WORKERS["rayStartParams"]["num-cpus"])
INGRESS_CPUS = SETTINGS.ingress_replicas * SETTINGS.ingress_cpus
(MIN_RAY,) = re.findall(r"ray\[serve\]>=([\d.]+)", str(PROJECT["optional-dependencies"]["cluster"]))
ORDERED: dict[str, tuple[Any, Any]] = {  # the first is less than the second
    "exit, Compose's patience": (
        default("drain_seconds") + AFTER_DRAIN,
        numbers(COMPOSE["scanline"]["stop_grace_period"])[0],
    ),
    "exit, of systemd": (default("drain_seconds") + AFTER_DRAIN, numbers(manifests.UNIT.split("StopSec=")[1])[0]),
    "exit, Kubernetes' patience": (
        stop_seconds("cpu") + POD_EXIT_SECONDS,
        PODS["cpu"]["terminationGracePeriodSeconds"],
    ),
    "exit of nginx, Kubernetes' patience": (
        stop_seconds("proxy") + SHUTDOWN_SECONDS,
        PODS["proxy"]["terminationGracePeriodSeconds"],
    ),
    "drain of an ingress, exit of nginx": (SETTINGS.drain_seconds, SHUTDOWN_SECONDS + 1),
    "drain of an ingress, end of a replaced cluster": (
        SETTINGS.drain_seconds,
        RAY["spec"]["rayClusterDeletionDelaySeconds"],
    ),
    "loading of a model, deadline of a rollout": (default("load_timeout"), CPU["spec"]["progressDeadlineSeconds"]),
    "time limit of the API, of Serve": (SETTINGS.request_timeout, SERVE["http_options"]["request_timeout_s"]),
    # nginx, whose default is 60 seconds, would else send a request into a connection that Serve just closes
    "idle seconds of nginx, of Serve": (60, SERVE["http_options"]["keep_alive_timeout_s"]),
    "temporary files, memory": (
        numbers(COMPOSE["scanline"]["tmpfs"][0])[0],
        numbers(COMPOSE["scanline"]["mem_limit"])[0],
    ),
    "CPUs for Ray, CPUs of the pod": (RAY_CPUS, int(CONTAINERS["workers"]["resources"]["requests"]["cpu"]) + 1),
    **{
        f"replicas and ingresses, CPUs of {workers}": (
            # A replica is within one worker.
            max(replicas * RAY_CPUS / (RAY_CPUS // SETTINGS.cpus), replicas * SETTINGS.cpus + INGRESS_CPUS),
            WORKERS[workers] * RAY_CPUS + 1,
        )
        for workers, replicas in (("minReplicas", SETTINGS.min_replicas), ("maxReplicas", SETTINGS.max_replicas))
    },
    "Python of the package, of the image": (
        numbers(PROJECT["requires-python"]),
        numbers(dockerfile(r"^ARG PYTHON=(.*)$")[0]),
    ),
    "Ray of the package, of the image": (numbers(MIN_RAY), numbers(manifests.CLUSTER["rayVersion"])),
}


@pytest.mark.parametrize("fact", ORDERED)
def test_limits_are_in_order(fact: str) -> None:
    less, more = ORDERED[fact]
    assert less < more


def test_compose_mounts_files_that_exist() -> None:
    mounts = [mount.split(":")[0] for service in COMPOSE.values() for mount in service.get("volumes", [])]
    files = [manifests.DEPLOY / mount for mount in mounts if mount.startswith(".")]
    assert files
    assert all(file.exists() for file in files)


def test_the_server_answers_the_paths_of_probes_and_prometheus(grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),))
    client = TestClient(build(settings, served_models(settings)))
    probes = [CONTAINERS["cpu"][f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    annotations = CPU["spec"]["template"]["metadata"]["annotations"]
    paths = [*(probe["path"] for probe in probes), annotations["prometheus.io/path"]]
    assert [client.get(path).status_code for path in paths] == [200, 503, 200, 200]  # no engine has been started
    ports = {SERVICE["spec"]["ports"][0]["targetPort"], *(probe["port"] for probe in probes)}
    assert ports == {CONTAINERS["cpu"]["ports"][0]["name"]}
    assert annotations["prometheus.io/port"] == PORT


def test_refusals_of_nginx_have_the_shape_of_all_errors() -> None:
    refusals = re.findall(r"return (\d{3}) '(\{.*\})';", NGINX_CONF)
    assert len(refusals) == len(re.findall(r"error_page", NGINX_CONF)) > 0
    for status, body in refusals:
        error = json.loads(body)["error"]
        assert {"error": error} == ApiError(int(status), error["message"], code=error["code"]).body
