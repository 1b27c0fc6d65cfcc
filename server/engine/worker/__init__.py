"""What runs in the engine's own process."""
