"""The routes, one file each; `server/app.py` includes them."""
