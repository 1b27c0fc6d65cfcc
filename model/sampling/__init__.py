"""Many images at once: the generator's slots, the scheduler, the engine loop
and its messages. Knows no HTTP.
"""
