"""Runs the engine loop in this process, without the engine's own process."""

from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Cancel, Event, GenerateRequest, Scheduled, ScoreRequest


def run_until_idle(engine: Engine, *commands: GenerateRequest | ScoreRequest | Cancel) -> list[Event]:
    """Sends the commands, ticks until the engine is idle, and returns all events except `Scheduled`."""
    for command in commands:
        engine.accept(command)
    events: list[Event] = []
    while not engine.idle:
        events += [event for event in engine.tick() if not isinstance(event, Scheduled)]
    return events
