"""Who may ask, how the work is shared, how it is told: engine, HTTP and websocket API, command line."""
