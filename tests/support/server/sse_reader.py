"""A reader of server-sent events that implements their rules and nothing else."""

import json
import socket
from contextlib import contextmanager

import httpx

from tests.support.pictures import painted
from tests.support.server.running_server import PATIENCE


def read(lines):
    """The data of all events, each one JSON line; an event's name must be its type."""
    events = []
    name = ""
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


def post_for_events(client, url, **fields):
    response = client.post(url, json={"stream": True, **fields})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    return read(response.iter_lines())


@contextmanager
def slow_stream(url, **fields):
    """A streamed response of which only the head has been read, on a
    connection with a small receive buffer.
    """
    transport = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)])
    with httpx.Client(base_url=url, timeout=PATIENCE, transport=transport) as client:
        request = {"stream": True, "partial_images": 3, **fields}
        with client.stream("POST", "/v1/images/generations", json=request) as response:
            yield response


def named(events, name):
    """The events of that name, of any operation, in order of their image and partial image."""
    found = [event for event in events if event["type"].endswith(f".{name}")]
    return sorted(found, key=lambda event: (event["index"], event.get("partial_image_index")))


def images(events, name="completed"):
    """The pictures [n, ...] of the events of that name."""
    return painted({"data": named(events, name)})
