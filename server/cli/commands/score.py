"""scanline score: likelihoods of given pictures, or of their known pixels alone."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.class_names import label_of_class
from scanline.model.inputs import checked_particles, checked_seed
from scanline.model.likelihood.marginal_likelihood import (
    DEFAULT_REPEATS,
    MAX_REPEATS,
    check_known,
    check_repeats,
    estimate,
)
from scanline.model.likelihood.typicality import TYPICAL, Typicality
from scanline.server.cli.options import Class, CleanOption, Device, Json, KeepRows, Mask, Model, Particles, Seed
from scanline.server.cli.progress import add_stage, progress_bar

if TYPE_CHECKING:
    from scanline.model.network.transformer import Transformer
    from scanline.model.sampling.messages import GenerateRequest


def score(
    pictures: Annotated[list[Path], typer.Argument(help="Pictures of the model's image size.")],
    keep_rows: KeepRows = None,
    mask: Mask = None,
    class_name: Class = None,
    particles: Particles = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            help=f"Completions of each picture for its estimate, 2 to {MAX_REPEATS}.",
            show_default=str(DEFAULT_REPEATS),
        ),
    ] = None,
    seed: Seed = None,
    clean: CleanOption = "off",
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print the bits per dimension of each picture, or with --keep-rows or --mask an estimate for its known pixels
    alone, with its standard error."""
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.model_dir import read_defaults, read_typicality
    from scanline.model.sampling.messages import GenerateRequest
    from scanline.server.cli.sampling import check_one_mask, doubt, read_picture, read_pictures

    check_one_mask(keep_rows, mask)
    is_estimate = keep_rows is not None or mask is not None
    options = {"--particles": particles, "--repeats": repeats, "--seed": seed}
    if not is_estimate and (given := [name for name, value in options.items() if value is not None]):
        raise ValueError(f"{given[0]} is for estimates; give --keep-rows or --mask as well")
    checked_particles(particles)
    seed = checked_seed(seed)
    repeats = check_repeats(DEFAULT_REPEATS if repeats is None else repeats)
    on, backend = resolve_backend(device)
    directory = zoo.find(model)
    network = load_model(directory, on)
    label = label_of_class(network.config, class_name)
    if is_estimate:
        particles = checked_particles(particles, default=read_defaults(directory, network.config).particles)
        requests = []
        for number, path in enumerate(pictures):
            known, kept = read_picture(path, keep_rows, mask, network.config, directory, clean)
            check_known(int(kept.sum()), "keep_rows" if mask is None else str(mask))
            completed = (known.tobytes(),), (kept.tobytes(),)
            requests.append(GenerateRequest(number, repeats, seed, 1.0, *completed, label=label, particles=particles))
        rows = _estimates(network, requests, backend)
    else:
        read = read_pictures(pictures, directory, clean)
        rows = _scores(network, read.images, read.noisy, read_typicality(directory), label, backend)
    rows = [{"picture": str(path)} | row for path, row in zip(pictures, rows, strict=True)]
    if as_json:
        print(json.dumps({"data": rows} | ({"seed": seed} if is_estimate else {})))
        return
    for row in rows:
        error = f" +/- {row['standard_error']:.4f}" if is_estimate else ""
        print(f"{row['bits_per_dim']:.4f}{error}  {row['picture']}{doubt(row.get('tail_probability'))}")


def _scores(
    network: "Transformer",
    images: np.ndarray,
    noisy: np.ndarray,
    typicality: Typicality | None,
    label: int,
    backend: str | None,
) -> list[dict[str, Any]]:
    """Read whole pictures, and compare them with the model's test images."""
    from scanline.model.sampling.generator import Generator

    generator = Generator(network, 1, backend=backend)
    with progress_bar() as bar:
        report = add_stage(bar, "reading", images.size, "bytes")
        bits = generator.score(images, [label] * len(images), progress=report).sum(axis=1)
    generator.close()
    figures = zip((bits / network.config.bytes).tolist(), noisy.tolist(), strict=True)
    rows: list[dict[str, Any]] = [{"bits_per_dim": value, "noisy": has_noise} for value, has_noise in figures]
    if typicality is not None:
        for row, tail in zip(rows, typicality.tail_probabilities(bits, images, noisy).tolist(), strict=True):
            row |= {"tail_probability": tail, "typical": tail >= TYPICAL}
    return rows


def _estimates(network: "Transformer", requests: list["GenerateRequest"], backend: str | None) -> list[dict[str, Any]]:
    """Complete pictures, and estimate from the completions what their known pixels cost."""
    from scanline.server.cli.sampling import paint_with_bar

    rows = []
    for request, painted in zip(requests, paint_with_bar(network, requests, backend=backend), strict=True):
        assert painted.evidence_bits is not None
        estimated = estimate(painted.evidence_bits, request.known_bytes_of(0))
        rows.append({
            "bits_per_dim": estimated.bits_per_dim,
            "standard_error": estimated.standard_error_per_dim,
            "known_bytes": estimated.known_bytes,
            "particles": request.particles_of(0),
        })  # fmt: skip
    return rows
