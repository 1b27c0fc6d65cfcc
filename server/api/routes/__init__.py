"""The routes, one file each; `app.py` puts them together."""
