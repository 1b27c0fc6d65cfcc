"""Ticks of an engine without its process."""

from server.engine.loop import Engine
from server.engine.messages import Cancel, Event, Paint, Score


def run(engine: Engine, *commands: Paint | Score | Cancel) -> list[Event]:
    """All events until nothing is left to do."""
    for command in commands:
        engine.accept(command)
    events: list[Event] = []
    while not engine.idle:
        events += engine.tick()
    return events
