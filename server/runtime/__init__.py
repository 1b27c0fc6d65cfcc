"""What any process of a server needs, whatever it serves: signals, logs,
memory, children, files that change.
"""
