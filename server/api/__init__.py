"""The HTTP and websocket API: routes, middleware and uvicorn's transport. Knows no tensor."""
