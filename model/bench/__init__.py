"""What this machine does with Scanline: `scanline bench` without its command line, so that it runs on a bare machine.

`run.bench` is the whole of it: `check` comes before any number, `ceilings` are what the machine could do; `ours`,
`authors` and `softmax` are three programs for the same work, timed in turns (`contender`); `reading` and
`over_position` measure the rest. `result` says what comes out; `report` and `plot` show it to people.
"""
