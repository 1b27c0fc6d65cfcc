"""The network: embedding, layers and head; one set of weights with a parallel and a recurrent view."""
