"""Several processes that speak HTTP and share the engines of one main process (`--api-processes`).

The main process has the sockets, the engines and the signals, and relays requests and events; it speaks no HTTP. Each
API process runs the whole application. Requests are admitted there, against its part of the server's limits, so that
none costs the main process more than two messages.
"""
