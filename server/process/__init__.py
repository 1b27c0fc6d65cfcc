"""Processes of a server: application, sockets, signals, logs, models, and the supervisor of several processes."""
