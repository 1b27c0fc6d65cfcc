"""A run from its options to a finished model: plan, sizes, clock, state, loss curve, card."""
