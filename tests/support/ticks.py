"""Ticks of an engine without its process."""

from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Cancel, Event, Paint, Score, Seated


def run(engine: Engine, *commands: Paint | Score | Cancel) -> list[Event]:
    """All events until nothing is left to do, but for seats."""
    for command in commands:
        engine.accept(command)
    events: list[Event] = []
    while not engine.idle:
        events += [event for event in engine.tick() if not isinstance(event, Seated)]
    return events
