"""What users ask of a model, planned and collected once for every face: Python, HTTP, command line.

`plan(model, values)` checks the values and returns a task. A face gives it the pictures that it has
read (`fill`); a runner sends its `request` to an engine and passes the events to `receive`;
`result()` is what the face then writes. Knows no web, no file of a user and no engine.
"""
