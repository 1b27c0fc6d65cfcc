"""uvicorn's protocols with our limits, and the options it is started with."""
