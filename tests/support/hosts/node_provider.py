"""What Ray's autoscaler asks for hosts, as it asks a cloud elsewhere; a test starts and stops them.

Each host that is to be in the cluster is a file with the tags that Ray gave it.
"""

import json
import socket
from pathlib import Path
from typing import Any

from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import NODE_KIND_HEAD, TAG_RAY_NODE_KIND, TAG_RAY_USER_NODE_TYPE

from scanline.model.atomic import write_atomically

ASKED_FOR = Path("/tmp/hosts")  # on the head
HEAD_TYPE, WORKER_TYPE = "first", "other"


class Hosts(NodeProvider):
    """The hosts of a cluster: `head`, and as many of `workers` as are needed."""

    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        ASKED_FOR.mkdir(exist_ok=True)
        _write(provider_config["head"], {TAG_RAY_NODE_KIND: NODE_KIND_HEAD, TAG_RAY_USER_NODE_TYPE: HEAD_TYPE})

    def create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> None:
        """Ask for so many more hosts."""
        free = [name for name in self.provider_config["workers"] if self.is_terminated(name)]
        for name in free[:count]:
            _write(name, tags)

    def terminate_node(self, node_id: str) -> None:
        """Ask for a host no longer."""
        (ASKED_FOR / node_id).unlink()

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        """Return the names of the hosts that were asked for and have such tags."""
        names = [path.name for path in ASKED_FOR.glob("[!.]*")]
        return [name for name in names if tag_filters.items() <= self.node_tags(name).items()]

    def is_running(self, node_id: str) -> bool:
        """Whether a host was asked for."""
        return (ASKED_FOR / node_id).exists()

    def is_terminated(self, node_id: str) -> bool:
        """Whether it was not."""
        return not self.is_running(node_id)

    def node_tags(self, node_id: str) -> dict[str, str]:
        """Return the tags of a host that was asked for."""
        tags: dict[str, str] = json.loads((ASKED_FOR / node_id).read_text())
        return tags

    def internal_ip(self, node_id: str) -> str:
        """Return the address of a host."""
        return socket.gethostbyname(node_id)

    external_ip = internal_ip


def _write(name: str, tags: dict[str, str]) -> None:
    write_atomically(ASKED_FOR / name, lambda temporary: temporary.write_text(json.dumps(tags)))
