"""The HTTP and websocket API: sockets, waiters, and the words of an answer. Knows no tensor."""
