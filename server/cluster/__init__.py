"""The same service on many machines, by Ray Serve.

    serve run scanline.server.cluster:app model=mnist-small replicas=2

Fronts have the API and no engine: they are what Serve's proxies send requests to. Behind them stand replicas, each
with one model's engine. A front keeps every request until it is answered and gives its images to replicas in pieces, so
that the death of a replica costs a pause and not a request, and one large request is painted by all of them. Which
replica paints an image makes no difference: an image's bytes follow from the seed and its index.
"""

from scanline.server.cluster.application import app

__all__ = ["app"]
