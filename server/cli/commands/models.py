"""scanline models: the models that ship with Scanline."""

import json
from typing import Any

from scanline.server.cli.base.options import Json


def list_models(as_json: Json = False) -> None:
    """List the shipped models: size, network, weights and test bits/dim."""
    from rich.console import Console
    from rich.table import Column, Table

    from scanline.model import zoo
    from scanline.model.formats.model_dir import load_config, tested_bits_per_dim, weight_bytes

    # From the files beside the weights: no model is loaded, and torch is not imported.
    rows: list[dict[str, Any]] = []
    for name in zoo.names():
        directory = zoo.find(name)
        config = load_config(directory)
        rows.append(
            {
                "id": name,
                "size": config.size,
                "channels": config.channels,
                "layers": config.layers,
                "width": config.model_width,
                "classes": config.class_names,
                "weight_bytes": weight_bytes(directory),
                "state_bytes_per_image": config.state_bytes_per_image,
                "bits_per_dim": tested_bits_per_dim(directory),
                "directory": str(directory),
            }
        )
    if as_json:
        print(json.dumps({"data": rows}))
        return
    headings = ("model", "image", "network", "weights", "state/image", "test bits/dim")
    table = Table(
        *(Column(heading, no_wrap=True) for heading in headings), caption=f"in {zoo.HERE}"
    )
    for row in rows:
        bits = row["bits_per_dim"]
        table.add_row(
            str(row["id"]),
            f"{row['size']} {'grey' if row['channels'] == 1 else 'RGB'}",
            f"{row['layers']} x {row['width']}",
            f"{row['weight_bytes'] / 1e6:.1f} MB",
            f"{row['state_bytes_per_image']:,} B",
            "not measured" if bits is None else f"{bits:.3f}",
        )
    Console().print(table)
