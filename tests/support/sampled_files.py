"""The files that `scanline sample` runs with the eager backend, in which the network is plain torch,
and how many functions of each. The model is a small one of categorical bytes.

    python -m tests.support.sampled_files
"""

import sys
import tempfile
from collections import Counter
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLOORS = ("kernels", "model", "server")
COMMAND = ["sample", "-n", "2", "--device", "cpu", "--backend", "eager"]


@cache
def file_of(code):
    """The path of a file of the product, from the repository's root."""
    path = Path(code.co_filename).resolve()
    if not path.is_relative_to(ROOT):
        return None
    inner = path.relative_to(ROOT)
    return str(inner) if inner.parts[0] in FLOORS else None


def main():
    from scanline.model.formats.checkpoint import save_model
    from scanline.server.cli.app import app
    from tests.support import small_models

    called = set()

    def trace(frame, event, _):
        called.add(frame.f_code)

    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        config = small_models.config_of("strokes")
        save_model(small_models.model(config), Path(model))
        sys.settrace(trace)
        app([*COMMAND, "--model", model, "--out", f"{folder}/a.png"], standalone_mode=False)
        sys.settrace(None)
    # without bodies of modules and classes, lambdas and generators
    functions = [
        code for code in called if code.co_flags & CO_OPTIMIZED and code.co_name.isidentifier()
    ]
    for file, count in Counter(map(file_of, functions)).most_common():
        if file is not None:
            print(count, file)


if __name__ == "__main__":
    main()
