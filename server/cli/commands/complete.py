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
from scanline.server.cli.progress import model_bar


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
    from scanline.model.images.contact_sheet import UNPAINTED
    from scanline.model.images.saving import FILMS, check_out, check_sheet, save_images
    from scanline.model.inference import load
    from scanline.model.tasks import paint
    from scanline.model.tasks.paint import CompleteValues
    from scanline.server.cli.sampling import check_one_mask, print_summary, read_picture

    check_one_mask(keep_rows, mask)
    if temperature is not None:
        check_temperature(temperature)
    checked_particles(particles, guidance or 1.0)
    shown_film = check_out(out, requested(film, frames, seconds, scale))
    seed = checked_seed(seed)
    loaded = load(model, device=device, precision=precision, backend=backend)
    config = loaded.config
    task = paint.plan(loaded.info, CompleteValues(n, seed, class_name, None, temperature, guidance, particles))
    original, known = read_picture(picture, keep_rows, mask, loaded.info, clean)
    task.fill([original.tobytes()], [known.tobytes()])
    check_sheet(out, shown_film, n + 2, config, n + 2)
    with model_bar("painting") as progress:
        loaded.run([task], "painting", progress)
    painted = task.result()

    # Sheets and films also show the picture, occluded and whole.
    images, kept = painted.images, painted.known
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
    run = task.request.particles_of(0)
    words = f", {evidence.mean():.2f} bits for the known pixels"
    words += f", at least {effective.min():.1f} of {run} particles effective" if run > 1 else ""
    more: dict[str, object] = {**task.used}
    more |= {"class": painted.class_names(config)[0]} if task.label(0) else {}
    more |= {"particles": run, "evidence_bits": evidence.tolist(), "effective_particles": effective.tolist()}
    print_summary(painted.bits_per_dim, "completions", out, seed, as_json, more, words)
