"""Labels of training images beside what a trained model reads, before the first update: a
run whose labels are off by one would teach each class the pictures of another, and look
like any other run until its end."""

import numpy as np
import torch

from scanline.model import zoo
from scanline.model.datasets.source import ImageSet
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import load_config
from scanline.model.network.class_reading import features
from scanline.model.network.transformer import Transformer
from scanline.model.training.optimise.precision import product_dtype

# images: the class head reads each once, bits as often as there are classes
BY_HEAD = 100
BY_BITS = 20
TOGETHER = 4  # images of a product
SHIFTED = 0.5  # of the images that are read as the class at one distance from their label
DOUBTFUL = 0.2  # of the images: where fewer are read as their label, it may be wrong in another way


def check_labels(name: str | None, images: ImageSet, device: torch.device | str) -> str | None:
    """Return in a sentence how many training images a shipped model, or one in a directory, reads
    as their label says; None where it does not know all of their classes. ValueError where most are
    read as the class at one distance from it."""
    if name is None or images.labels is None:
        return None
    directory = zoo.find(name)
    names = images.labels.names
    known = load_config(directory).class_names
    if not {*names} <= {*known}:
        return None
    model = load_model(directory, device)
    most = BY_BITS if model.class_head is None else BY_HEAD
    chosen = np.random.default_rng(0).permutation(len(images.train))[:most]
    columns = [known.index(name) for name in names]
    read = _classes(model, torch.tensor(images.train[chosen], device=device), columns)
    stated = images.labels.train[chosen] - 1
    offsets = np.bincount((read - stated) % len(names), minlength=len(names))
    right = int(offsets[0])
    shift = int(offsets.argmax())
    count = len(chosen)
    # of two classes, pictures that show neither are read as either
    is_doubtful = right < DOUBTFUL * count
    if shift and is_doubtful and offsets[shift] >= SHIFTED * count:
        raise ValueError(
            f"the labels of the training pictures are shifted: {directory.name} reads {right} of"
            f" {count} as their class and {offsets[shift]} as the one {shift} after it,"
            f" {names[0]} as {names[shift]}"
        )
    doubt = "; are the labels right?" if is_doubtful else ""
    return f"{directory.name} reads {right} of {count} training pictures as their class{doubt}"


# not inference mode: tables that a network computes once are used again in training
@torch.no_grad()
def _classes(model: Transformer, images: torch.Tensor, columns: list[int]) -> np.ndarray:
    """Return which of the classes in `columns` [K] a model sees in images [n, N], [n] int64."""
    config = model.config
    head = model.class_head
    scores = []
    fast = product_dtype(images.device) == torch.bfloat16
    for part in images.split(TOGETHER):
        with torch.autocast(images.device.type, torch.bfloat16, enabled=fast and head is not None):
            if head is not None:
                scores.append(head.logits(features(model, part, head.shape).float())[:, columns])
                continue
            bits = []  # [n] under each class
            for column in columns:
                labels = torch.full((len(part),), 1 + column, device=images.device)
                parameters = model.parallel(part, labels=labels)
                of_bytes = model.bits(parameters, part, config.first, config.bytes)
                bits.append(of_bytes.sum(dim=1))
            scores.append(-torch.stack(bits, dim=1))
    return torch.cat(scores).argmax(dim=1).cpu().numpy()
