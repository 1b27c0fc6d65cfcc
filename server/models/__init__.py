"""The models that a server serves, each with its engine, and how they are reloaded."""
