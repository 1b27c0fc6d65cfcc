"""The engine: one process for each model, next to the API process.

`worker/` runs in the engine's process, `client/` in the API's; only the dataclasses of `model/sampling/messages` cross
between them.
"""
