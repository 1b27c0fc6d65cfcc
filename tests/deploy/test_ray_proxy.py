"""nginx in front of the RayService: valid manifests, the limits of the server, and who may connect to whom."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scanline.server.api.errors import ApiError
from scanline.server.cluster.arguments import cluster_settings

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes/ray"
CONF = (FOLDER / "nginx.conf").read_text()


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


DEPLOYMENT, SERVICE, BUDGET = documents("proxy.yaml")
POLICIES = {policy["metadata"]["name"]: policy["spec"] for policy in documents("network.yaml")}
(RAY,) = documents("rayservice.yaml")
CLUSTER = RAY["spec"]["rayClusterConfig"]
SERVE = yaml.safe_load(RAY["spec"]["serveConfigV2"])
POD = DEPLOYMENT["spec"]["template"]["spec"]
(NGINX,) = POD["containers"]
PROXY = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
HEAD = CLUSTER["headGroupSpec"]["template"]["metadata"]["labels"]
WORKER = CLUSTER["workerGroupSpecs"][0]["template"]["metadata"]["labels"] | {"ray.io/node-type": "worker"}  # by KubeRay
OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
STRANGER = {"app.kubernetes.io/name": "another"}


def directive(name: str) -> str:
    """The value of a directive that stands once in nginx.conf, or the same each time."""
    (value,) = set(re.findall(rf"^\s*{re.escape(name)} (.+?);", CONF, re.MULTILINE))
    return value


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return labels.items() >= selector["matchLabels"].items()


def accepts(pod: dict[str, str], port: int, client: dict[str, str]) -> bool:
    """Whether the policies let `client` connect to `port` of `pod`, by what NetworkPolicy says of ingress."""
    rules = [
        rule
        for policy in POLICIES.values()
        if "Ingress" in policy["policyTypes"] and selects(policy["podSelector"], pod)
        for rule in policy["ingress"]
    ]
    return any(
        (not rule.get("from") or any(selects(source["podSelector"], client) for source in rule["from"]))
        and (not rule.get("ports") or any(one["port"] == port for one in rule["ports"]))
        for rule in rules
    )


def test_all_documents_are_valid_by_kubernetes_schemas() -> None:
    for document in [*documents("proxy.yaml"), *documents("network.yaml")]:
        for version in ("1.30", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)


if shutil.which("kubectl"):  # the other tests do not need it

    def test_kubectl_renders_the_files_and_the_configuration() -> None:
        result = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        rendered = list(yaml.safe_load_all(result.stdout))
        (configuration,) = (one for one in rendered if one["kind"] == "ConfigMap")
        assert configuration["data"] == {"nginx.conf": CONF}
        (deployment,) = (one for one in rendered if one["kind"] == "Deployment")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        assert volumes[0]["configMap"]["name"] == configuration["metadata"]["name"]  # with a hash: a change rolls out
        ray = [one for one in rendered if one["kind"] == "RayService"]
        assert ray == [RAY]


def test_names_ports_and_files_agree() -> None:
    kustomization = documents("kustomization.yaml")[0]
    (generated,) = kustomization["configMapGenerator"]
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in NGINX["volumeMounts"]}
    assert volumes["configuration"]["configMap"]["name"] == generated["name"]
    assert f"{mounts['configuration']}/{generated['files'][0]}" in NGINX["command"]
    assert re.findall(r"listen (\d+);", CONF) == [str(port["containerPort"]) for port in NGINX["ports"]]
    assert selects({"matchLabels": SERVICE["spec"]["selector"]}, PROXY)
    assert selects(DEPLOYMENT["spec"]["selector"], PROXY)
    assert selects(BUDGET["spec"]["selector"], PROXY)
    upstream = f"{RAY['metadata']['name']}-serve-svc"
    assert f"server {upstream}:{SERVE['http_options']['port']} " in CONF
    assert upstream in POD["initContainers"][0]["command"][-1]


def test_the_proxy_writes_to_tmp_only_and_has_no_rights() -> None:
    for container in [NGINX, *POD["initContainers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"].keys() == {"memory"}
    assert POD["automountServiceAccountToken"] is False
    written = re.findall(r"^\s*(?:pid|\w+_temp_path) (\S+);", CONF, re.MULTILINE)
    assert len(written) == 6
    assert all(path.startswith("/tmp/") for path in written)


def test_limits_are_the_servers() -> None:
    settings = cluster_settings(SERVE["applications"][0]["args"])
    assert int(directive("client_max_body_size")) == settings.max_body_bytes
    number, kilobytes = re.findall(r"\d+", directive("large_client_header_buffers"))
    assert int(number) * int(kilobytes) * 1024 == settings.max_head_bytes
    assert directive("send_timeout") == f"{settings.send_timeout:g}s"
    assert f"limit_conn connections {settings.max_connections};" in CONF
    assert f"proxy_read_timeout {SERVE['http_options']['request_timeout_s']}s;" in CONF
    assert SERVE["http_options"]["request_timeout_s"] > settings.request_timeout
    shutdown = int(directive("worker_shutdown_timeout").removesuffix("s"))
    assert shutdown >= settings.drain_seconds
    assert POD["terminationGracePeriodSeconds"] > shutdown + NGINX["lifecycle"]["preStop"]["sleep"]["seconds"]
    # Serve keeps idle connections longer than nginx, which would otherwise send a request into one that just closes.
    assert SERVE["http_options"]["keep_alive_timeout_s"] > 60


def test_refusals_have_the_shape_of_all_errors() -> None:
    refusals = re.findall(r"return (\d{3}) '(\{.*\})';", CONF)
    assert len(refusals) == len(re.findall(r"error_page", CONF))
    for status, body in refusals:
        error = json.loads(body)["error"]
        assert {"error": error} == ApiError(int(status), error["message"], code=error["code"]).body


@pytest.mark.parametrize("pod", [HEAD | {"ray.io/node-type": "head"}, WORKER], ids=["head", "worker"])
def test_only_the_cluster_itself_reaches_rays_ports(pod: dict[str, str]) -> None:
    for port in (6379, 8265, 10001, 12345):
        assert accepts(pod, port, WORKER)
        assert not accepts(pod, port, PROXY)
        assert not accepts(pod, port, STRANGER)
        assert accepts(pod, port, OPERATOR) == (port == 8265)
    assert accepts(pod, 8000, PROXY)
    assert not accepts(pod, 8000, STRANGER)


def test_everybody_reaches_the_proxy_and_the_proxy_reaches_serve_alone() -> None:
    assert accepts(PROXY, 8080, STRANGER)
    assert not accepts(PROXY, 8081, STRANGER)
    to_serve, to_names = POLICIES["scanline-proxy"]["egress"]
    assert selects(to_serve["to"][0]["podSelector"], WORKER)
    assert to_serve["ports"] == [{"port": 8000}]
    assert {port["port"] for port in to_names["ports"]} == {53}


def test_workers_connect_to_nothing_but_the_cluster() -> None:
    policy = POLICIES["scanline-ray-workers"]
    assert selects(policy["podSelector"], WORKER)
    assert not selects(policy["podSelector"], HEAD | {"ray.io/node-type": "head"})
    to_cluster, to_names = policy["egress"]
    assert selects(to_cluster["to"][0]["podSelector"], HEAD)
    assert {port["port"] for port in to_names["ports"]} == {53}
