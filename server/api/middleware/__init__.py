"""Pure ASGI middleware, one concern per file; `server/app.py` lists them in order."""
