"""deploy/, .github/: files are valid, pods have no rights, alerts use exported
metrics, and facts of files agree.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema
from starlette.testclient import TestClient

from scanline.server.api.base.error_codes import MEANINGS, STATUSES
from scanline.server.api.base.errors import ApiError
from scanline.server.cluster import app
from scanline.server.cluster.arguments import ClusterSettings, cluster_settings
from scanline.server.environment import check
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.process.running import CLOSING_SECONDS
from scanline.server.runtime.lifecycle import ERROR_RESPONSE_SECONDS
from scanline.server.settings import Settings
from tests.support import manifests
from tests.support.manifests import CPU, DEPLOY, NGINX_CONF, RAY, SERVE, documents, nginx

ROOT = DEPLOY.parent
SERVICE = DEPLOY / "scanline.service"
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
# the first with preStop.sleep, and the newest
VERSIONS = ("1.30", kubernetes_validate.latest_version())


def validate(*documents):
    for document in documents:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


SCHEMA = ("check-jsonschema", "--builtin-schema")
TOOLS = [
    (*SCHEMA, "vendor.compose-spec", *DEPLOY.glob("compose*.yaml")),
    (*SCHEMA, "vendor.github-workflows", *WORKFLOWS),
    ("actionlint", *WORKFLOWS),
    ("hadolint", "--no-color", "Dockerfile"),
    ("promtool", "check", "config", "deploy/prometheus.yml"),
    ("promtool", "test", "rules", "tests/deploy/alerts.yaml"),
    # in tenths of systemd's points, of which a unit without restrictions has 9.6
    ("systemd-analyze", "security", "--offline=yes", "--threshold=21", SERVICE),
]


def output_of(tool, *arguments):
    """The exit status of a tool, run in the repository, and what it prints."""
    program = shutil.which(tool, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"{tool} is not installed")
    result = subprocess.run(
        [program, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return result.returncode, result.stdout


@pytest.mark.parametrize("command", TOOLS, ids=lambda command: " ".join(map(str, command[:3])))
def test_a_tool_finds_nothing(command):
    status, output = output_of(*command)
    assert status == 0, output


def test_the_unit_is_valid_but_that_the_server_is_not_installed():
    _, output = output_of("systemd-analyze", "verify", SERVICE)
    for line in output.splitlines():
        assert "/scanline is not executable" in line


@pytest.mark.parametrize(
    "path", ["cpu/deployment", "cpu/service", "cpu/budget", "ray/proxy", "ray/network"]
)
def test_kubernetes_manifests_are_valid(path):
    validate(*documents(f"kubernetes/{path}.yaml"))


@pytest.mark.parametrize("overlay", ["cpu", "cuda", "ray"])
def test_rendered_overlays_are_valid(overlay):
    """Patched and with the configuration of nginx, as `kubectl apply -k` would apply them."""
    status, output = output_of("kubectl", "kustomize", DEPLOY / "kubernetes" / overlay)
    assert status == 0, output
    rendered = {document["kind"]: document for document in yaml.safe_load_all(output)}
    if overlay == "ray":
        assert rendered.pop("RayService") == RAY
        assert rendered["ConfigMap"]["data"] == {"nginx.conf": NGINX_CONF}
        (volume, _) = rendered["Deployment"]["spec"]["template"]["spec"]["volumes"]
        # with a hash of the data
        assert volume["configMap"] == {"name": rendered["ConfigMap"]["metadata"]["name"]}
    validate(*rendered.values())
    assert rendered.keys() >= {"Deployment", "Service", "PodDisruptionBudget"}


def test_the_ray_service_has_valid_pods_and_wants_a_token():
    assert RAY.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert (RAY["apiVersion"], RAY["kind"]) == ("ray.io/v1", "RayService")
    # Ray wants it of everybody, from 2.52 on
    assert manifests.CLUSTER["authOptions"] == {"mode": "token"}
    for group in (manifests.HEAD, manifests.WORKERS):
        assert all(type(value) is str for value in group["rayStartParams"].values())
        validate({"apiVersion": "v1", "kind": "Pod", **group["template"]})


def test_serve_builds_the_application_that_its_configuration_describes():
    (application,) = ServeDeploySchema.model_validate(SERVE).applications
    settings = cluster_settings(application.args)
    assert (
        application.import_path == f"{app.__module__.removesuffix('.application')}:{app.__name__}"
    )
    assert settings.model_fields_set >= application.args.keys() - {"model"}
    ingress = app(application.args)._bound_deployment
    (model,) = (bound._bound_deployment for bound in ingress.init_args)
    scaling = model._deployment_config.autoscaling_config
    assert (ingress.name, ingress.num_replicas) == ("Ingress", settings.ingress_replicas)
    assert model.name == settings.models[0]
    assert (scaling.min_replicas, scaling.max_replicas) == (
        settings.min_replicas,
        settings.max_replicas,
    )


@pytest.mark.parametrize("name", manifests.WORKLOADS)
def test_a_pod_has_no_rights_bounded_memory_and_writes_to_tmp_alone(name):
    pod = manifests.WORKLOADS[name]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    # variables of a service named scanline would be read as settings
    assert pod["enableServiceLinks"] is False
    # Ray's autoscaler beside the head asks Kubernetes for workers; nothing else has a token.
    assert pod.get("automountServiceAccountToken", True) == (name == "head")
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"].keys() == {"memory"}
        writable = {
            mount["mountPath"]
            for mount in container.get("volumeMounts", [])
            if not mount.get("readOnly")
        }
        assert writable <= {"/tmp"}
    assert [volume["emptyDir"].keys() for volume in pod["volumes"] if "emptyDir" in volume] == [
        {"sizeLimit"}
    ]


# 503 of a server that is loading, draining or full
NOT_ALERTED = {
    "not_ready",
    "shutting_down",
    "too_many_connections",
    "too_many_websockets",
}
# clients cause these, and are told by the refusal
NOT_ALERTED |= {"unknown_transfer_coding", "too_much_arriving", "too_much_unread"}
NOT_ALERTED |= {"too_many_requests", "unavailable"}  # of nginx before a cluster
ALERTS = (DEPLOY / "alerts.yml").read_text()


def test_each_alert_is_tested():
    names = set(re.findall(r"- alert: (\w+)", ALERTS))
    assert names
    assert names == set(
        re.findall(r"alertname: (\w+)", (ROOT / "tests/deploy/alerts.yaml").read_text())
    )


def test_every_server_error_is_alerted():
    expected = {code for code, status in STATUSES.items() if status >= 500} - NOT_ALERTED
    for codes in re.findall(r'code=~"([\w|]+)"', ALERTS):
        assert set(codes.split("|")) == expected


def test_every_refusal_of_too_much_is_alerted():
    patterns = re.findall(r'(?:reason|code)=~"([^"]+)"', ALERTS)
    alerted = {code for code in STATUSES for pattern in patterns if re.fullmatch(pattern, code)}
    assert MEANINGS[429].keys() - NOT_ALERTED <= alerted
    assert alerted & NOT_ALERTED == set()


@pytest.mark.parametrize("name", ["grafana/scanline.json", "alerts.yml"])
def test_queries_use_metrics_that_the_server_exports(grey_directory, name):
    settings = Settings(models=(str(grey_directory),))
    metrics = TestClient(build(settings, served_models(settings))).get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (scanline_\w+) (\w+)", metrics, re.MULTILINE))
    known = {
        f"{metric}_bucket" if kind == "histogram" else metric for metric, kind in kinds.items()
    }
    used = set(re.findall(r"scanline_\w+", (DEPLOY / name).read_text()))
    assert used
    assert used <= known


def numbers(text):
    return [int(digits) for digits in re.findall(r"\d+", text)]


def dockerfile(pattern):
    return re.findall(pattern, manifests.DOCKERFILE, re.MULTILINE)


PROJECT = tomllib.loads((manifests.ROOT / "pyproject.toml").read_text())["project"]
SETTINGS = cluster_settings(SERVE["applications"][0]["args"])
HTTP = SERVE["http_options"]
PODS = {name: workload["template"]["spec"] for name, workload in manifests.WORKLOADS.items()}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
CONTAINERS["cuda"] = manifests.CUDA["spec"]["template"]["spec"]["containers"][0]
IMAGES = {"cpu": "", "cuda": "-cuda", "head": "-cluster", "workers": "-cluster"}  # of which build
SERVICES = [
    *map(CONTAINERS.get, IMAGES),
    manifests.COMPOSE["scanline"],
    manifests.COMPOSE_CUDA["scanline"],
]
DEPLOY_PAGE = (manifests.ROOT / "docs/deploy.md").read_text()
(PORT,) = dockerfile(r"SCANLINE_PORT=(\d+)")
# only nginx reaches Serve in Kubernetes: there it trusts no proxy
TRUSTLESS = [
    {**one, "args": {**one["args"], "trusted_proxies": []}} for one in SERVE["applications"]
]


def test_variables_are_settings():
    check(dict(dockerfile(r"\b(SCANLINE_\w+)=(\S+)")), ())
    check(dict.fromkeys(manifests.COMPOSE["scanline"]["environment"], ""), ())
    for name in IMAGES:
        variables = dict.fromkeys((variable["name"] for variable in CONTAINERS[name]["env"]), "")
        assert variables
        variables.pop("HOME", None)
        check(variables, (), ClusterSettings if name in ("head", "workers") else Settings)


def default(name):
    return float(Settings.model_fields[name].default)


SAME = {
    "torch": (
        [torch in PROJECT["dependencies"] for torch in dockerfile(r'"(torch[^"]*)"')],
        [True],
    ),
    "image": (
        [service["image"] for service in SERVICES],
        [f"scanline:{PROJECT['version']}{kind}" for kind in (*IMAGES.values(), "", "-cuda")],
    ),
    "image of the page": (
        set(re.findall(r"scanline:(\d[\d.]*\d)", DEPLOY_PAGE)),
        {PROJECT["version"]},
    ),
    "port of Compose": (manifests.COMPOSE["scanline"]["ports"], [f"127.0.0.1:{PORT}:{PORT}"]),
    "port of the pod": (
        [str(port["containerPort"]) for port in CONTAINERS["cpu"]["ports"]],
        [PORT],
    ),
    "configuration of Serve": (
        manifests.documents("serve.yaml"),
        [{**SERVE, "applications": TRUSTLESS}],
    ),
    "address of Serve": (
        re.findall(r"server (\S+) max_fails", NGINX_CONF),
        [f"{RAY['metadata']['name']}-serve-svc:{HTTP['port']}"],
    ),
    "max_body_bytes": (int(nginx("client_max_body_size")), SETTINGS.max_body_bytes),
    "max_head_bytes": (
        numbers(nginx("large_client_header_buffers")),
        [4, SETTINGS.max_head_bytes // 4 // 1024],
    ),
    "send_timeout": (nginx("send_timeout"), f"{SETTINGS.send_timeout:g}s"),
    "max_connections": (
        re.findall(r"limit_conn connections (\d+);", NGINX_CONF),
        [str(SETTINGS.max_connections)],
    ),
    "time limit": (
        re.findall(r"proxy_read_timeout (\d+)s", NGINX_CONF)[0],
        str(HTTP["request_timeout_s"]),
    ),
}
VARIABLES = {variable["name"]: variable.get("value") for variable in CONTAINERS["cpu"]["env"]}
AFTER_DRAIN = ERROR_RESPONSE_SECONDS + CLOSING_SECONDS
EXIT_SECONDS = default("drain_seconds") + AFTER_DRAIN
POD_EXIT_SECONDS = (
    float(VARIABLES.get("SCANLINE_DRAIN_SECONDS", default("drain_seconds"))) + AFTER_DRAIN
)
SHUTDOWN_SECONDS = numbers(nginx("worker_shutdown_timeout"))[0]
PATIENCE = {  # seconds that Kubernetes waits for an exit after its signal
    name: PODS[name]["terminationGracePeriodSeconds"]
    - CONTAINERS[name]["lifecycle"]["preStop"]["sleep"]["seconds"]
    for name in ("cpu", "proxy")
}
ORDERED = {  # the first is less than the second
    "exit, Compose's patience": (
        EXIT_SECONDS,
        numbers(manifests.COMPOSE["scanline"]["stop_grace_period"])[0],
    ),
    "exit, of systemd": (EXIT_SECONDS, numbers(manifests.UNIT.split("StopSec=")[1])[0]),
    "exit, Kubernetes' patience": (POD_EXIT_SECONDS, PATIENCE["cpu"]),
    "exit of nginx, Kubernetes' patience": (SHUTDOWN_SECONDS, PATIENCE["proxy"]),
    "drain of an ingress, exit of nginx": (SETTINGS.drain_seconds, SHUTDOWN_SECONDS + 1),
    "drain of an ingress, end of a cluster": (
        SETTINGS.drain_seconds,
        RAY["spec"]["rayClusterDeletionDelaySeconds"],
    ),
    "loading of a model, deadline of a rollout": (
        default("load_timeout"),
        CPU["spec"]["progressDeadlineSeconds"],
    ),
    "time limit of the API, of Serve": (SETTINGS.request_timeout, HTTP["request_timeout_s"]),
    # nginx, whose default is 60 seconds, would else send a request into
    # a connection that Serve just closes
    "idle seconds of nginx, of Serve": (60, HTTP["keep_alive_timeout_s"]),
    "Python, of the image": (
        numbers(PROJECT["requires-python"]),
        numbers(dockerfile(r"^ARG PYTHON=(.*)$")[0]),
    ),
}


@pytest.mark.parametrize("fact", SAME)
def test_files_agree(fact):
    one, other = SAME[fact]
    assert other
    assert one == other


@pytest.mark.parametrize("fact", ORDERED)
def test_limits_are_in_order(fact):
    less, more = ORDERED[fact]
    assert less < more


def test_the_server_answers_the_paths_of_probes_and_prometheus(grey_directory):
    settings = Settings(models=(str(grey_directory),))
    client = TestClient(build(settings, served_models(settings)))
    probes = [
        CONTAINERS["cpu"][f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "readiness", "liveness")
    ]
    annotations = CPU["spec"]["template"]["metadata"]["annotations"]
    paths = [*probes, annotations["prometheus.io/path"]]
    # no engine has been started
    assert [client.get(path).status_code for path in paths] == [200, 503, 200, 200]
    assert annotations["prometheus.io/port"] == PORT


def test_refusals_of_nginx_have_the_shape_of_all_errors():
    refusals = re.findall(r"return (\d{3}) '(\{.*\})';", NGINX_CONF)
    assert len(refusals) == len(re.findall(r"error_page", NGINX_CONF)) > 0
    for status, body in refusals:
        error = json.loads(body)["error"]
        assert {"error": error} == ApiError(error["code"], error["message"]).body
        assert STATUSES[error["code"]] == int(status)
