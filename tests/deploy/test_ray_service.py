"""deploy/kubernetes/ray/rayservice.yaml. No package has KubeRay's schema, so its fields are listed here."""

import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scanline.server.cluster.arguments import ClusterSettings, cluster_settings
from scanline.server.environment import check

ROOT = Path(__file__).parents[2]
SERVICE = yaml.safe_load((ROOT / "deploy/kubernetes/ray/rayservice.yaml").read_text())
SPEC = SERVICE["spec"]
SERVE = yaml.safe_load(SPEC["serveConfigV2"])
CLUSTER = SPEC["rayClusterConfig"]
HEAD = CLUSTER["headGroupSpec"]
(WORKERS,) = CLUSTER["workerGroupSpecs"]
SETTINGS = cluster_settings(SERVE["applications"][0]["args"])

# fields of RayServiceSpec, RayClusterSpec, HeadGroupSpec and WorkerGroupSpec of ray.io/v1 in KubeRay 1.5.1
FIELDS: dict[str, dict[type, str]] = {
    "service": {
        int: "rayClusterDeletionDelaySeconds",
        dict: "serveService upgradeStrategy rayClusterConfig",
        str: "serveConfigV2",
        bool: "excludeHeadPodFromServeSvc",
    },
    "cluster": {
        str: "rayVersion managedBy",
        bool: "enableInTreeAutoscaling suspend",
        dict: "authOptions autoscalerOptions gcsFaultToleranceOptions headServiceAnnotations headGroupSpec",
        list: "workerGroupSpecs",
    },
    "head": {dict: "rayStartParams template headService", str: "serviceType", bool: "enableIngress"},
    "workers": {
        str: "groupName",
        int: "replicas minReplicas maxReplicas numOfHosts idleTimeoutSeconds",
        bool: "suspend",
        dict: "rayStartParams scaleStrategy template",
    },
}
PARTS = {"service": SPEC, "cluster": CLUSTER, "head": HEAD, "workers": WORKERS}
GROUPS = [HEAD, WORKERS]


def container(group: dict[str, Any]) -> dict[str, Any]:
    (container,) = group["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("part", FIELDS)
def test_its_fields_are_kuberays(part: str) -> None:
    assert SERVICE.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert (SERVICE["apiVersion"], SERVICE["kind"]) == ("ray.io/v1", "RayService")
    for name, value in PARTS[part].items():
        assert name in FIELDS[part].get(type(value), "").split(), f"{name}: {value!r}"


@pytest.mark.parametrize("group", GROUPS, ids=["head", "workers"])
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_its_pods_are_valid_by_kubernetes_schemas(group: dict[str, Any], version: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **group["template"]}
    kubernetes_validate.validate(pod, version, strict=True)
    assert all(type(value) is str for value in group["rayStartParams"].values())


def test_its_serve_config_is_deploy_serve_yaml() -> None:
    assert yaml.safe_load((ROOT / "deploy/serve.yaml").read_text()) == SERVE


def test_workers_have_room_for_all_replicas_and_ingresses() -> None:
    cpus = int(WORKERS["rayStartParams"]["num-cpus"])
    sizes = {WORKERS["minReplicas"]: SETTINGS.min_replicas, WORKERS["maxReplicas"]: SETTINGS.max_replicas}
    for workers, replicas in sizes.items():
        assert workers * (cpus // SETTINGS.cpus) >= replicas
        assert workers * cpus >= replicas * SETTINGS.cpus + SETTINGS.ingress_replicas * SETTINGS.ingress_cpus


def test_ray_uses_no_more_processors_than_the_pods_request() -> None:
    assert WORKERS["minReplicas"] <= WORKERS["replicas"] <= WORKERS["maxReplicas"]
    for group in GROUPS:
        assert int(group["rayStartParams"]["num-cpus"]) <= int(container(group)["resources"]["requests"]["cpu"])


def test_a_replaced_cluster_may_drain() -> None:
    assert SPEC["rayClusterDeletionDelaySeconds"] > SETTINGS.drain_seconds


def test_head_and_workers_run_one_image_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {container(group)["image"] for group in GROUPS} == {f"scanline:{project['version']}-cluster"}
    (least,) = re.findall(r"ray\[serve\]>=([\d.]+)", str(project["optional-dependencies"]["cluster"]))
    assert [int(part) for part in CLUSTER["rayVersion"].split(".")] >= [int(part) for part in least.split(".")]


@pytest.mark.parametrize("group", GROUPS, ids=["head", "workers"])
def test_their_variables_are_settings_and_their_user_is_the_images(group: dict[str, Any]) -> None:
    ours = {variable["name"]: "" for variable in container(group)["env"] if variable["name"] != "HOME"}
    check(ours, (), ClusterSettings)
    (user,) = re.findall(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert group["template"]["spec"]["securityContext"]["runAsUser"] == int(user)


def test_ray_wants_a_token_of_everybody() -> None:
    assert CLUSTER["authOptions"] == {"mode": "token"}  # from Ray 2.52 on
    assert CLUSTER["rayVersion"] >= "2.52"


@pytest.mark.parametrize("group", GROUPS, ids=["head", "workers"])
def test_its_pods_have_a_memory_limit_and_only_tmp_is_writable(group: dict[str, Any]) -> None:
    pod, limits = group["template"]["spec"], container(group)["resources"]["limits"]
    assert limits.keys() == {"memory"}
    assert container(group)["securityContext"]["readOnlyRootFilesystem"]
    (mount,) = container(group)["volumeMounts"]
    (volume,) = pod["volumes"]
    assert mount == {"name": volume["name"], "mountPath": "/tmp"}
    assert volume["emptyDir"]["sizeLimit"]
    assert {variable["name"]: variable.get("value") for variable in container(group)["env"]}["HOME"] == "/tmp"


def test_only_the_head_has_a_service_account() -> None:
    assert WORKERS["template"]["spec"]["automountServiceAccountToken"] is False
    assert CLUSTER["enableInTreeAutoscaling"]  # whose container in the head's pod asks Kubernetes for workers


def test_serve_ends_what_the_api_has_not_answered_in_time() -> None:
    assert SERVE["http_options"]["request_timeout_s"] > SETTINGS.request_timeout
