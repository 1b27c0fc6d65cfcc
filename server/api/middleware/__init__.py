"""Pure ASGI middleware, one concern per file; `server/process/app.py` lists them in order."""
