"""Ticks of an engine without its process."""

from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Cancel, Event, GenerateRequest, Scheduled, ScoreRequest


def run(engine: Engine, *commands: GenerateRequest | ScoreRequest | Cancel) -> list[Event]:
    """All events until nothing is left to do, but for seats."""
    for command in commands:
        engine.accept(command)
    events: list[Event] = []
    while not engine.idle:
        events += [event for event in engine.tick() if not isinstance(event, Scheduled)]
    return events
