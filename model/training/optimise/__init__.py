"""An update: loss, optimisers, precision, and the processes that share it."""
