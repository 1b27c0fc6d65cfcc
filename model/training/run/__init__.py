"""A run from its options to a finished model: plan, sizes, budget, state, loss curve, card."""
