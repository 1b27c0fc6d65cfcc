"""A reader of server-sent events, with nothing in it but their rules."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np

from tests.support.pictures import painted

Event = dict[str, Any]


def read(lines: Iterator[str]) -> list[Event]:
    """The data of all events, each one JSON line under the name that is its type."""
    events, name = [], ""
    for line in lines:
        kind, _, value = line.partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            events.append(json.loads(value))
            assert name == events[-1].get("type", "error")
        else:
            assert line in ("", ": ping")
    return events


def hear(client: httpx.Client, url: str, **fields: object) -> list[Event]:
    """All events of a streamed request."""
    response = client.post(url, json={"stream": True, **fields})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    return read(response.iter_lines())


def named(events: list[Event], name: str) -> list[Event]:
    """Those of a name, whatever was painted, in order of their images and numbers."""
    found = [event for event in events if event["type"].endswith(f".{name}")]
    return sorted(found, key=lambda event: (event["index"], event.get("partial_image_index")))


def images(events: list[Event], name: str = "completed") -> np.ndarray:
    """The pictures [n, ...] of the events of a name."""
    return painted({"data": named(events, name)})
