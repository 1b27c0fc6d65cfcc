"""scanline complete: several completions of an occluded picture."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.device import AUTO
from scanline.model.images.film import requested
from scanline.model.inputs import check_temperature, checked_particles, checked_seed
from scanline.model.precision import DEFAULT
from scanline.server.cli import options


def complete(
    picture: Annotated[Path, typer.Argument(help="A picture of the model's image size.")],
    keep_rows: options.KeepRows = None,
    mask: options.Mask = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of completions.")] = 8,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Output: a .png or .webp sheet, a .gif film, a .npy array, or a folder."),
    ] = Path("completions.png"),
    film: options.Film = False,
    frames: options.Frames = None,
    seconds: options.Seconds = None,
    scale: options.Scale = None,
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    class_name: options.Class = None,
    guidance: options.Guidance = None,
    particles: options.Particles = None,
    clean: options.CleanOption = "off",
    model: options.Model = zoo.DEFAULT,
    device: options.Device = "auto",
    precision: options.Precision = DEFAULT,
    backend: options.Backend = AUTO,
    as_json: options.Json = False,
) -> None:
    """Complete an occluded picture. A sheet or a film shows the occluded picture, the completions and the original."""
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.model_dir import read_defaults
    from scanline.model.images.contact_sheet import UNPAINTED
    from scanline.model.images.saving import FILMS, check_film, check_out, save_images
    from scanline.model.sampling.messages import GenerateRequest
    from scanline.server.cli.sampling import check_one_mask, paint_with_bar, print_summary, read_picture

    check_one_mask(keep_rows, mask)
    if temperature is not None:
        check_temperature(temperature)
    checked_particles(particles, guidance or 1.0)
    shown_film = check_out(out, requested(film, frames, seconds, scale))
    seed = checked_seed(seed)
    on, backends = resolve_backend(device, backend)
    directory = zoo.find(model)
    network = load_model(directory, on)
    config = network.config
    choice = read_defaults(directory, config).to_complete(config, class_name, guidance, temperature, particles)
    original, known = read_picture(picture, keep_rows, mask, config, directory, clean)
    request = GenerateRequest(
        0,
        n,
        seed,
        known=(original.tobytes(),),
        masks=(known.tobytes(),),
        **choice.to_dict(),
    )
    check_film(shown_film, n + 2, config, n + 2)
    (painted,) = paint_with_bar(network, [request], precision=precision, backend=backends)

    # Sheets and films also show the picture, occluded and whole.
    images, kept = painted.images, request.known_pixels(config)
    assert kept is not None
    if out.suffix.lower() in FILMS:
        occluded = np.where(known, original, np.uint8(UNPAINTED))
        images = np.concatenate((occluded[None], images, original[None]))
        kept = np.pad(kept, ((1, 1), (0, 0), (0, 0)), constant_values=True)
    save_images(images.reshape(-1, *config.image_shape), out, n + 2, shown_film, kept)

    # What the known pixels cost, and how many of the particles still count, is part of the summary.
    evidence, effective = painted.evidence_bits, painted.effective_particles
    assert evidence is not None
    assert effective is not None
    run = request.particles_of(0)
    words = f", {evidence.mean():.2f} bits for the known pixels"
    words += f", at least {effective.min():.1f} of {run} particles effective" if run > 1 else ""
    more: dict[str, object] = {"temperature": choice.temperature, "guidance": choice.guidance}
    more |= {"class": config.class_names[choice.label - 1]} if choice.label else {}
    more |= {"particles": run, "evidence_bits": evidence.tolist(), "effective_particles": effective.tolist()}
    print_summary(painted.bits_per_dim, "completions", out, seed, as_json, more, words)
