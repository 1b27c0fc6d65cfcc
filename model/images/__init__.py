"""Pictures: read, cleaned, enlarged, saved, and films of their painting."""
