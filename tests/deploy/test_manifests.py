"""deploy/, .github/: each file is valid by its schema, pods have no rights, and Ray wants a token."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from scanline.server.cluster import app
from scanline.server.cluster.arguments import cluster_settings
from tests.support.manifests import (
    CLUSTER,
    DEPLOY,
    HEAD,
    NGINX_CONF,
    RAY,
    SERVE,
    WORKERS,
    WORKLOADS,
    documents,
)

SERVICE = DEPLOY / "scanline.service"
WORKFLOWS = sorted(DEPLOY.parent.glob(".github/workflows/*.yml"))
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
