"""Engines: one process for each model, next to the API process.

A handle (`handle.py`) is what the API calls. `local/` starts and watches an engine's process,
`worker/` runs in it, and `remote/` reaches an engine that another process or machine has.
"""
