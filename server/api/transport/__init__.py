"""uvicorn's protocols with our limits, and the options that uvicorn is started with."""
