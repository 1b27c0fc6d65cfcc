"""The network: what a step reads, its layers, its head; one set of weights, a parallel and a recurrent view."""
