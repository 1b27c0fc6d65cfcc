"""Runs the engine loop in this process, without the engine's own process."""

from scanline.model.sampling.base.messages import (
    Finished,
    Scheduled,
)


def run_until_idle(engine, *commands):
    """Sends the commands, ticks until the engine is idle, and
    returns all events except `Scheduled`.
    """
    for command in commands:
        engine.accept(command)
    events = []
    while not engine.idle:
        events += [event for event in engine.tick() if not isinstance(event, Scheduled)]
    return events


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def ended(events, kind):
    return [event.request for event in of_kind(events, kind)]


def images_of(events, request=0):
    found = {
        event.index: event.image for event in of_kind(events, Finished) if event.request == request
    }
    return b"".join(found[index] for index in sorted(found))
