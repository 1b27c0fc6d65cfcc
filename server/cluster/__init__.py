"""The server on many machines, by Ray Serve.

    serve run scanline.server.cluster:app model=mnist-small replicas=2

Ingress replicas have the API and no engine; Serve's proxies send requests to them. Each model is a
deployment of replicas with one engine each. An ingress keeps a request until it is answered and
distributes its images over replicas in shards: losing a replica delays the request but does not
fail it, and one large request is painted by all replicas. An image depends on model, seed and
index only, so any replica may paint it.
"""

from scanline.server.cluster.application import app

__all__ = ["app"]
