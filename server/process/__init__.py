"""Processes of a server: application, sockets, and the supervisor of several processes."""
