"""Models on disk: model directories, checkpoints of the authors' code, ONNX."""


class OnnxNotInstalledError(ValueError):
    """The extra `onnx` is missing; the message is one sentence for the user."""

    def __init__(self) -> None:
        super().__init__("ONNX export needs the extra onnx: pip install 'scanline[onnx]'")
