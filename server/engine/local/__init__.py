"""The API's side of an engine on this machine: its process, restarts, replays,
and the files that it has loaded.
"""
