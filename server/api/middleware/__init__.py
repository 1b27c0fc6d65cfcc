"""ASGI middleware, one concern a file; `app.py` says in which order."""
