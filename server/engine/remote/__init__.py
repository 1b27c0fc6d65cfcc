"""Engines of other processes: an API process's view of its main
process's, an ingress's of its replicas'.

A `RemoteEngine` is the handle, an `EngineStatus` what it knows of each engine, a `RelayJob` its
request where the engine is. `over_pipe` carries these between the processes of one machine
(`--api-processes`), `over_ray` between those of a cluster. Requests are admitted on this side;
crashes are replayed on the other, by the engine's own client.
"""
