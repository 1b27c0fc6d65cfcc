"""`scanline bench` without its command line, so that it also runs on a
machine with torch and nothing of the web.

`run.bench` first checks the model (`correctness`), then measures the machine's ceilings and
Scanline (`measure`). `result` documents the JSON object and shows it as tables; `machine` has the
facts that go with every number.
"""
