"""The files of deploy/, parsed: for tests that hold them against
schemas, the server and each other.
"""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "scanline.service").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def documents(path):
    return list(yaml.safe_load_all((DEPLOY / path).read_text()))


def nginx(name):
    """The value of a directive that stands once in nginx.conf, or the same each time."""
    (value,) = set(re.findall(rf"^\s*{re.escape(name)} (.+?);", NGINX_CONF, re.MULTILINE))
    return value


COMPOSE, COMPOSE_CUDA = (
    documents(name)[0]["services"] for name in ("compose.yaml", "compose.cuda.yaml")
)
(CPU,), (CUDA,) = (documents(f"kubernetes/{name}/deployment.yaml") for name in ("cpu", "cuda"))
PROXY = documents("kubernetes/ray/proxy.yaml")[0]
NGINX_CONF = (DEPLOY / "kubernetes/ray/nginx.conf").read_text()
(RAY,) = documents("kubernetes/ray/rayservice.yaml")
SERVE = yaml.safe_load(RAY["spec"]["serveConfigV2"])
CLUSTER = RAY["spec"]["rayClusterConfig"]
HEAD, (WORKERS,) = CLUSTER["headGroupSpec"], CLUSTER["workerGroupSpecs"]
WORKLOADS = {"cpu": CPU["spec"], "proxy": PROXY["spec"], "head": HEAD, "workers": WORKERS}
