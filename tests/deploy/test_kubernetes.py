"""deploy/kubernetes: the rendered overlays are valid by Kubernetes' schemas and agree with the server's settings."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from starlette.testclient import TestClient

from scanline.server.environment import check
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.process.running import CLOSING_SECONDS
from scanline.server.runtime.lifecycle import ERROR_RESPONSE_SECONDS
from scanline.server.settings import Settings
from tests.support.cluster.kustomize import render

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
VERSIONS = ("1.30", kubernetes_validate.latest_version())  # the first with preStop.sleep, and the newest

OVERLAYS = ["cpu", "cuda"]


@pytest.fixture(scope="module", params=OVERLAYS)
def rendered(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What `kubectl apply -k` would apply, by kind."""
    return render(ROOT / "deploy/kubernetes" / request.param)


if shutil.which("kubectl"):  # the other tests do not need it

    @pytest.mark.parametrize("overlay", OVERLAYS)
    def test_kubectl_renders_the_same(overlay: str) -> None:
        folder = ROOT / "deploy/kubernetes" / overlay
        result = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        documents = {document["kind"]: document for document in yaml.safe_load_all(result.stdout)}
        assert render(folder) == documents


@pytest.fixture
def pod(rendered: dict[str, Any]) -> dict[str, Any]:
    return rendered["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    return container


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_valid_by_kubernetes_schemas(rendered: dict[str, Any], version: str) -> None:
    assert rendered.keys() == {"Deployment", "Service", "PodDisruptionBudget"}
    for document in rendered.values():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_grace_period_exceeds_the_drain_and_a_rollouts_deadline_the_loading_of_a_model(
    rendered: dict[str, Any], pod: dict[str, Any], container: dict[str, Any]
) -> None:
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    drain = float(variables.get("SCANLINE_DRAIN_SECONDS", Settings.model_fields["drain_seconds"].default))
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > before + drain + ERROR_RESPONSE_SECONDS + CLOSING_SECONDS
    deadline = rendered["Deployment"]["spec"]["progressDeadlineSeconds"]
    assert deadline > Settings.model_fields["load_timeout"].default


def test_probes_and_prometheus_use_paths_that_the_server_answers(
    rendered: dict[str, Any], container: dict[str, Any], grey_directory: Path
) -> None:
    settings = Settings(models=(str(grey_directory),))
    client = TestClient(build(settings, served_models(settings)))
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    notes = rendered["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    statuses = [client.get(path).status_code for path in (*(p["path"] for p in probes), notes["prometheus.io/path"])]
    assert statuses == [200, 503, 200, 200]  # no engine has been started


def test_service_probes_and_image_use_one_port_and_service_and_budget_select_the_pods(
    rendered: dict[str, Any], container: dict[str, Any]
) -> None:
    (port,) = container["ports"]
    (service,) = rendered["Service"]["spec"]["ports"]
    probes = [container[f"{name}Probe"]["httpGet"]["port"] for name in ("startup", "readiness", "liveness")]
    assert {service["targetPort"], *probes} == {port["name"]}
    metadata = rendered["Deployment"]["spec"]["template"]["metadata"]
    (listening,) = re.findall(r"SCANLINE_PORT=(\d+)", DOCKERFILE)
    assert {str(port["containerPort"]), metadata["annotations"]["prometheus.io/port"]} == {listening}
    assert metadata["labels"]
    assert rendered["Service"]["spec"]["selector"] == metadata["labels"]
    assert rendered["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == metadata["labels"]


def test_its_variables_are_settings_and_its_image_has_the_version_of_the_project(container: dict[str, Any]) -> None:
    check({variable["name"]: variable.get("value", "") for variable in container["env"]}, ())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
    assert container["image"] == f"scanline:{version}{'-cuda' if with_gpu else ''}"


def test_it_runs_as_the_images_user_and_only_tmp_is_writable(pod: dict[str, Any], container: dict[str, Any]) -> None:
    (user,) = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (mount,) = container["volumeMounts"]
    assert mount == {"name": pod["volumes"][0]["name"], "mountPath": "/tmp"}
