"""Addresses of the page and of its files, which need no API key."""

INSTALLED = ("manifest.webmanifest", "icon.png")  # for a home screen
PATHS = frozenset({"/", "/docs", *(f"/{name}" for name in INSTALLED)})
PREVIEW = "/preview.png"
LINKED = frozenset({"/", PREVIEW})  # what is read of their query, up to so many bytes
MAX_QUERY = 1024
DOCUMENT = "/openapi.json"
ASSETS = "/assets"


def is_page(path: str) -> bool:
    """Return whether this is the address of the page, of the API documentation, or of a file of
    theirs.
    """
    return path in PATHS or path.startswith(f"{ASSETS}/")
