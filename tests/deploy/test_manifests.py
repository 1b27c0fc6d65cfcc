"""deploy/, .github/: files are valid by their schemas, pods have no rights, alerts fire and use exported metrics."""

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema
from starlette.testclient import TestClient

from scanline.model.inputs import InvalidInput
from scanline.server.api.errors import ApiError
from scanline.server.cluster import app
from scanline.server.cluster.arguments import cluster_settings
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.manifests import CLUSTER, DEPLOY, HEAD, NGINX_CONF, RAY, SERVE, WORKERS, WORKLOADS, documents

ROOT = DEPLOY.parent
SERVICE = DEPLOY / "scanline.service"
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
VERSIONS = ("1.30", kubernetes_validate.latest_version())  # the first with preStop.sleep, and the newest


def validate(*documents: dict[str, Any]) -> None:
    for document in documents:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


SCHEMAS = {"compose-spec": sorted(DEPLOY.glob("compose*.yaml")), "github-workflows": WORKFLOWS}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_compose_files_and_workflows_are_valid(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *SCHEMAS[schema]]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("command", [["actionlint", *WORKFLOWS], ["systemd-analyze", "verify", SERVICE]])
def test_tools_find_nothing_but_that_the_server_is_not_installed(command: list[str | Path]) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert [line for line in result.stdout.splitlines() if "/scanline is not executable" not in line] == []


@pytest.mark.parametrize("path", ["cpu/deployment", "cpu/service", "cpu/budget", "ray/proxy", "ray/network"])
def test_kubernetes_manifests_are_valid(path: str) -> None:
    validate(*documents(f"kubernetes/{path}.yaml"))


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", ["cpu", "cuda", "ray"])
def test_rendered_overlays_are_valid(overlay: str) -> None:
    """Patched and with the configuration of nginx, as `kubectl apply -k` would apply them."""
    result = subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes" / overlay], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    rendered = {document["kind"]: document for document in yaml.safe_load_all(result.stdout)}
    if overlay == "ray":
        assert rendered.pop("RayService") == RAY
        assert rendered["ConfigMap"]["data"] == {"nginx.conf": NGINX_CONF}
        (volume, _) = rendered["Deployment"]["spec"]["template"]["spec"]["volumes"]
        assert volume["configMap"] == {"name": rendered["ConfigMap"]["metadata"]["name"]}  # with a hash of the data
    validate(*rendered.values())
    assert rendered.keys() >= {"Deployment", "Service", "PodDisruptionBudget"}


# Fields of ray.io/v1 in KubeRay 1.5.1, whose schema no package has
FIELDS = {
    "spec": "rayClusterDeletionDelaySeconds:int serveService:dict upgradeStrategy:dict rayClusterConfig:dict"
    " serveConfigV2:str excludeHeadPodFromServeSvc:bool",
    "cluster": "rayVersion:str managedBy:str enableInTreeAutoscaling:bool suspend:bool authOptions:dict"
    " autoscalerOptions:dict gcsFaultToleranceOptions:dict headServiceAnnotations:dict headGroupSpec:dict"
    " workerGroupSpecs:list",
    "head": "rayStartParams:dict template:dict headService:dict serviceType:str enableIngress:bool",
    "workers": "groupName:str replicas:int minReplicas:int maxReplicas:int numOfHosts:int idleTimeoutSeconds:int"
    " suspend:bool rayStartParams:dict scaleStrategy:dict template:dict",
}


def test_the_ray_service_has_fields_of_kuberay_and_valid_pods() -> None:
    assert RAY.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert (RAY["apiVersion"], RAY["kind"]) == ("ray.io/v1", "RayService")
    for part, fields in zip((RAY["spec"], CLUSTER, HEAD, WORKERS), FIELDS.values(), strict=True):
        assert {f"{name}:{type(value).__name__}" for name, value in part.items()} <= set(fields.split())
    assert CLUSTER["authOptions"] == {"mode": "token"}  # Ray wants it of everybody, from 2.52 on
    for group in (HEAD, WORKERS):
        assert all(type(value) is str for value in group["rayStartParams"].values())
        validate({"apiVersion": "v1", "kind": "Pod", **group["template"]})


def test_serve_builds_the_application_that_its_configuration_describes() -> None:
    (application,) = ServeDeploySchema.model_validate(SERVE).applications
    settings = cluster_settings(application.args)
    assert application.import_path == f"{app.__module__.removesuffix('.application')}:{app.__name__}"
    assert settings.model_fields_set >= application.args.keys() - {"model"}
    ingress = app(application.args)._bound_deployment
    (model,) = (bound._bound_deployment for bound in ingress.init_args)
    scaling = model._deployment_config.autoscaling_config
    assert (ingress.name, ingress.num_replicas) == ("Ingress", settings.ingress_replicas)
    assert model.name == settings.models[0]
    assert (scaling.min_replicas, scaling.max_replicas) == (settings.min_replicas, settings.max_replicas)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_has_no_rights_bounded_memory_and_writes_to_tmp_alone(name: str) -> None:
    pod = WORKLOADS[name]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["enableServiceLinks"] is False  # variables of a service named scanline would be read as settings
    # Ray's autoscaler beside the head asks Kubernetes for workers; nothing else has a token.
    assert pod.get("automountServiceAccountToken", True) == (name == "head")
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"].keys() == {"memory"}
        writable = {mount["mountPath"] for mount in container.get("volumeMounts", []) if not mount.get("readOnly")}
        assert writable <= {"/tmp"}
    assert [volume["emptyDir"].keys() for volume in pod["volumes"] if "emptyDir" in volume] == [{"sizeLimit"}]


ERRORS = {"ApiError": ApiError, "InvalidInput": InvalidInput}
# 503 of a server that is loading, draining or full, and 501 of one without an extra
NOT_ALERTED = {"not_ready", "shutting_down", "onnx_not_installed", "too_many_connections", "too_many_websockets"}
# clients cause these, and are told by the refusal
NOT_ALERTED |= {"unknown_transfer_coding", "too_much_arriving", "too_much_unread"}
ALERTS = (DEPLOY / "alerts.yml").read_text()


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is in Debian's package prometheus")
@pytest.mark.parametrize("command", ["check config deploy/prometheus.yml", "test rules tests/deploy/alerts.yaml"])
def test_prometheus_accepts_its_configuration_and_the_tests_of_the_rules_pass(command: str) -> None:
    result = subprocess.run(["promtool", *command.split()], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_is_tested() -> None:
    names = set(re.findall(r"- alert: (\w+)", ALERTS))
    assert names
    assert names == set(re.findall(r"alertname: (\w+)", (ROOT / "tests/deploy/alerts.yaml").read_text()))


def api_errors() -> dict[str, int]:
    """The status of every error code that the server's sources give to ApiError or InvalidInput."""
    found: dict[str, int] = {}
    for path in (ROOT / "server").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ERRORS:
                error = ERRORS[call.func.id]
                given = inspect.signature(error).bind(*call.args, **{word.arg: word.value for word in call.keywords})
                given.apply_defaults()
                code, status = given.arguments["code"], given.arguments.get("status", ast.Constant(400))
                code = code.value if isinstance(code, ast.Constant) else code
                if isinstance(code, str) and isinstance(status, ast.Constant):
                    found[code] = status.value
    return found


def test_every_server_error_is_alerted() -> None:
    errors = api_errors()
    found = {"engine_failed": 500, "stream_not_supported": 400, "invalid_value": 400}  # by keyword, position, default
    assert errors.items() >= found.items()
    expected = {code for code, status in errors.items() if status >= 500} - NOT_ALERTED
    assert expected
    for codes in re.findall(r'code=~"([\w|]+)"', ALERTS):
        assert set(codes.split("|")) == expected


@pytest.mark.parametrize("name", ["grafana/scanline.json", "alerts.yml"])
def test_queries_use_metrics_that_the_server_exports(grey_directory: Path, name: str) -> None:
    settings = Settings(models=(str(grey_directory),))
    metrics = TestClient(build(settings, served_models(settings))).get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (scanline_\w+) (\w+)", metrics, re.MULTILINE))
    known = {f"{metric}_bucket" if kind == "histogram" else metric for metric, kind in kinds.items()}
    used = set(re.findall(r"scanline_\w+", (DEPLOY / name).read_text()))
    assert used
    assert used <= known


def test_panels_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "grafana/scanline.json").read_text())["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [(p["x"] + x, p["y"] + y) for p in places for x in range(p["w"]) for y in range(p["h"])]
    assert len(cells) == len(set(cells)) > 0
