"""The arithmetic of a cluster: images/s of R replicas from measured costs, and the part that ends first.

A part is a kind of process: proxy, ingress, replica, controller, Ray's own on each node, clients. It costs processor
time for a request, a shard, an image and a byte, and some without any load. Python's lock gives a process one core.
"""

from dataclasses import dataclass
from math import ceil, inf

from scanline.server.engine.remote.over_ray import MAX_SHARD, MAX_SHARDS_PER_REPLICA, MIN_SHARD, SHARDS_PER_REPLICA

NETWORK, REPLICAS, MACHINE = "network", "slots of replicas", "this machine's cores"


@dataclass(frozen=True)
class Cost:
    """What a part costs: processor seconds; of the network, bytes."""

    request: float = 0.0
    shard: float = 0.0
    image: float = 0.0  # without its bytes
    byte: float = 0.0
    idle: float = 0.0  # a second, without load
    replica: float = 0.0  # a second, for each replica


@dataclass(frozen=True)
class Load:
    """Replicas, and clients that ask them for n images again and again."""

    replicas: int
    slots: int  # of each
    image_seconds: float  # that an image keeps its slot
    n: int
    image_bytes: int
    in_flight: float = inf  # images of all clients together

    @property
    def shards(self) -> int:
        """Shards of a request, as ReplicaPool cuts them."""
        share = min(ceil(self.n / self.replicas), self.slots // SHARDS_PER_REPLICA)
        return ceil(self.n / min(MAX_SHARD, max(MIN_SHARD, self.slots // MAX_SHARDS_PER_REPLICA, share)))


def predict(
    costs: dict[str, Cost], load: Load, processes: dict[str, int], cores: float = inf, bandwidth: float = inf
) -> tuple[dict[str, float], dict[str, float]]:
    """Return images/s at which each part ends, of which the least is the rate, and what an image costs each part.

    `processes` of the parts that have several; `cores` of all parts together, where they share a machine; bytes/s.
    """
    spent = {
        part: (cost.request + load.shards * cost.shard) / load.n + cost.image + load.image_bytes * cost.byte
        for part, cost in costs.items()
    }
    left = {part: processes.get(part, 1) - cost.idle - load.replicas * cost.replica for part, cost in costs.items()}
    left[NETWORK] += bandwidth - 1
    limits = {part: left[part] / max(spent[part], 1e-12) for part in costs}
    limits[REPLICAS] = min(load.replicas * load.slots, load.in_flight) / load.image_seconds
    parts = [part for part in costs if part != NETWORK]
    idle = sum(costs[part].idle + load.replicas * costs[part].replica for part in parts)
    limits[MACHINE] = (cores - idle) / sum(spent[part] for part in parts)
    return limits, spent
