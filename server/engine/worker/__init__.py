"""The engine's own process."""
