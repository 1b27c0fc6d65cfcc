"""Models on disk: our own directories, the authors' checkpoints, ONNX."""
