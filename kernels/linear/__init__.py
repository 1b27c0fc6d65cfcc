"""Products with a weight matrix whose arithmetic for one row never depends on how many rows there are."""
