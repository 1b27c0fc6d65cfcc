"""Known bytes: read at once, without slots, and the prefixes from which images start."""
