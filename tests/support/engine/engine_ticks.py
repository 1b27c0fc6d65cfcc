"""Runs the engine loop in this process, without the engine's own process."""

from scanline.model.sampling.base.messages import (
    Cancel,
    Event,
    Finished,
    GenerateRequest,
    Scheduled,
    ScoreRequest,
)
from scanline.model.sampling.engine import Engine


def run_until_idle(
    engine: Engine, *commands: GenerateRequest | ScoreRequest | Cancel
) -> list[Event]:
    """Sends the commands, ticks until the engine is idle, and
    returns all events except `Scheduled`.
    """
    for command in commands:
        engine.accept(command)
    events: list[Event] = []
    while not engine.idle:
        events += [event for event in engine.tick() if not isinstance(event, Scheduled)]
    return events


def ended(events: list[Event], kind: type[Event]) -> list[int]:
    return [event.request for event in events if isinstance(event, kind)]


def images_of(events: list[Event], request: int = 0) -> bytes:
    found = {
        event.index: event.image
        for event in events
        if isinstance(event, Finished) and event.request == request
    }
    return b"".join(found[index] for index in sorted(found))
