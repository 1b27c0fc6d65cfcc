"""Models on disk: model directories, checkpoints of the authors' code."""
