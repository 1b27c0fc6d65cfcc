"""The API's side of an engine: starts its process, sends it requests, collects its events."""
