"""The engine: one process for each model, beside the API process; only the dataclasses of `messages` cross
between them. scheduler: whose turn; loop: the tick; process: birth and death; client: the API's side."""
