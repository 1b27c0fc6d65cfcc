"""The page without a server: one HTML file with its script, its styles, the kernel and a model."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

from scanline.model.base.extras import version
from scanline.model.base.sampling_options import limits_of
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import ModelInfo, model_name, read_info
from scanline.model.sampling.kernel_file import kernel_file

BUILT = Path(__file__).parents[2] / "web" / "dist"
OF_A_SERVER = re.compile(r"\s*<(script|link) [^>]*\./(?:assets/|manifest|icon)[^>]*>(</script>)?")


def offline_page(directory: Path, precision: str) -> str:
    """Return the page of the model in a directory."""
    network = load_model(directory)
    info = read_info(directory)
    weights = b64encode(kernel_file(network, precision, info)).decode()
    card = _card(directory, info, network.parameter_count)
    markup = OF_A_SERVER.sub("", (BUILT / "index.html").read_text())
    styles = (BUILT / "offline.css").read_text()
    # HTML has no character 0, which a string of the script has.
    script = (BUILT / "offline.js").read_text().replace("\0", "\\x00")
    # In a script element, no character of a name may begin a tag.
    described = json.dumps(card).replace("<", "\\u003c")
    parts = [
        f'<script id="offline-card" type="application/json">{described}</script>',
        f'<script id="offline-model" type="text/plain">{weights}</script>',
        f"<script>{script}</script>",
    ]
    page = markup.replace("</head>", f"<style>{styles}</style></head>")
    return page.replace("</body>", "\n".join(parts) + "</body>")


def _card(directory: Path, info: ModelInfo, parameters: int) -> dict[str, Any]:
    """Return the model's card, as GET /v1/models has it, as far as the page reads it."""
    config = info.config
    sizes = {name: getattr(config, name) for name in ("height", "width", "channels")}
    return {
        "id": model_name(directory.absolute()),
        **sizes,
        "layers": config.layers,
        "heads": config.heads,
        "classes": list(config.class_names),
        **limits_of(config),
        "has_class_head": info.has_class_head,
        "defaults": {**info.defaults.to_dict(), "best_of": 1},  # its kernel does not choose
        "state": "ready",
        "failure": None,
        "parameters": parameters,
        "state_bytes_per_image": config.state_bytes_per_image,
        "bits_per_dim": info.bits_per_dim,
        "typical_bits_per_dim": None,
        "aliases": [],
        "digest": None,  # is in the model's file
        "scanline": version(),
    }
