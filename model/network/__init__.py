"""The network: embedding, layers and head; one set of weights with a parallel and a recurrent view.

Read layer.py first (eq. 20), then transformer.py, which is the whole of a step.
"""
