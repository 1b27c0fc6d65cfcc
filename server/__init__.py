"""The server: engine processes, the HTTP and websocket API with its
page, the command line, the cluster.
"""
