"""The routes, one file each; `server/process/app.py` includes them."""
