"""A package, for pytest to end its package-scoped browser, which runs an event
loop, before other tests run theirs.
"""
