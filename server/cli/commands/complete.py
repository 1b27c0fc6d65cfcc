"""scanline complete: several completions of an occluded picture."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.class_names import label_of_class
from scanline.model.device import AUTO
from scanline.model.inputs import check_guidance, check_temperature, checked_particles, checked_seed
from scanline.model.precision import DEFAULT
from scanline.server.cli import options


def complete(
    picture: Annotated[Path, typer.Argument(help="A picture of the model's image size.")],
    keep_rows: options.KeepRows = None,
    mask: options.Mask = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of completions.")] = 8,
    out: Annotated[Path, typer.Option(help="Output: a .png or .webp sheet, a .npy array, or a folder.")] = Path(
        "completions.png"
    ),
    seed: options.Seed = None,
    temperature: options.Temperature = 1.0,
    class_name: options.Class = None,
    guidance: options.Guidance = 1.0,
    particles: options.Particles = None,
    clean: options.CleanOption = "off",
    model: options.Model = zoo.DEFAULT,
    device: options.Device = "auto",
    precision: options.Precision = DEFAULT,
    backend: options.Backend = AUTO,
    as_json: options.Json = False,
) -> None:
    """Complete an occluded picture. A sheet shows the occluded picture, the completions and the original."""
    from scanline.model.contact_sheet import UNPAINTED
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.pictures import SHEETS, check_out, save_images
    from scanline.model.sampling.messages import GenerateRequest
    from scanline.server.cli.sampling import check_one_mask, paint_with_bar, print_summary, read_picture

    check_one_mask(keep_rows, mask)
    check_temperature(temperature)
    particles = checked_particles(particles, guidance)
    check_out(out)
    seed = checked_seed(seed)
    on, backends = resolve_backend(device, backend)
    directory = zoo.find(model)
    network = load_model(directory, on)
    config = network.config
    label = label_of_class(config, class_name)
    check_guidance(guidance, bool(label), config)
    original, known = read_picture(picture, keep_rows, mask, config, directory, clean)
    request = GenerateRequest(
        0,
        n,
        seed,
        temperature,
        known=(original.tobytes(),),
        masks=(known.tobytes(),),
        label=label,
        particles=particles,
        guidance=guidance,
    )
    (painted,) = paint_with_bar(network, [request], precision=precision, backend=backends)

    # Sheets also show the picture, occluded and whole.
    images = painted.images
    if out.suffix.lower() in SHEETS:
        occluded = np.where(known, original, np.uint8(UNPAINTED))
        images = np.concatenate((occluded[None], images, original[None]))
    save_images(images.reshape(-1, *config.image_shape), out, columns=n + 2)

    # What the known pixels cost, and how many of the particles still count, is part of the summary.
    evidence, effective = painted.evidence_bits, painted.effective_particles
    assert evidence is not None
    assert effective is not None
    run = request.particles_of(0)
    words = f", {evidence.mean():.2f} bits for the known pixels"
    words += f", at least {effective.min():.1f} of {run} particles effective" if run > 1 else ""
    more: dict[str, object] = {"class": config.class_names[label - 1], "guidance": guidance} if label else {}
    more |= {"particles": run, "evidence_bits": evidence.tolist(), "effective_particles": effective.tolist()}
    print_summary(painted.bits_per_dim, "completions", out, seed, as_json, more, words)
