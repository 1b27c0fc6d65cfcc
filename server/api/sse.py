"""A server-sent event as it goes over the wire."""

import json
from typing import Any


def server_sent(name: str, data: dict[str, Any]) -> bytes:
    """One whole event: its name, and its data as one line of JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
