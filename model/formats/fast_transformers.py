"""Checkpoints of the authors' published code: a torch file with `model_state`, read strictly
and written back. Other trainers save the same tensors under another key or none, and wrap
modules, which prefixes the tensors' names.

Their model reads bytes 0 .. N-2 and predicts bytes 1 .. N-1: no start token, value and sine
position concatenated, post-norm layers with ReLU, one last norm. Their loss trains exp(log-scale),
floored at e^-7.
"""

import re
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import torch

from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import MAX_INPUT, FileError, check_file, write_output
from scanline.model.network.embedding import waves
from scanline.model.network.transformer import Transformer

SIZES = {784: (28, 28, 1), 3072: (32, 32, 3)}  # N -> height, width, channels
DATASETS = {784: "mnist", 3072: "cifar10"}
HEAD = 32  # key and value width of a head in all their published models; no tensor implies it
EXPRESSIBLE = {
    "step": "byte",
    "predicts": "logistics",
    "norm": "post",
    "activation": "relu",
    "embedding_join": "concat",
    "position": "sincos",
    "feature_map": "elu",
    "start_token": False,
}
PARTS = {
    "attention.out_projection": "attention_out",
    "linear1": "feed_forward_in",
    "linear2": "feed_forward_out",
    "norm1": "attention_norm",
    "norm2": "feed_forward_norm",
}
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PROJECTIONS = ("query", "key", "value")
EMBEDDING = "value_embedding.weight"  # by which their tensors are found
# Names that torch's DataParallel, torch.compile, FSDP and checkpointing of activations put between
# those of modules
WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")

State = dict[str, torch.Tensor]


class ForeignCheckpointError(FileError):
    """The file is not such a checkpoint; the message says what it holds."""


def read_checkpoint(path: Path) -> State:
    """Return the tensors of a checkpoint, float32."""
    if not path.exists():
        raise ForeignCheckpointError(f"{path} is missing")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about files that are refused
            return _checked_tensors(path)
    except ForeignCheckpointError:
        raise
    except Exception:  # a stranger's file, in which torch may find anything
        raise ForeignCheckpointError(f"{path} is not a torch checkpoint of plain tensors") from None


def _checked_tensors(path: Path) -> State:
    """Return what is in the file, of which nothing is computed before the file's size bounds it."""
    check_file(path, MAX_INPUT)
    size = path.stat().st_size
    if is_zipfile(path):
        with ZipFile(path) as archive:
            # torch compresses nothing
            if sum(part.file_size for part in archive.infolist()) > size:
                raise ForeignCheckpointError(
                    f"{path} is compressed, which torch's checkpoints are not"
                )
    content = torch.load(path, map_location="cpu", weights_only=True)
    state = _state_in(content)
    if state is None:
        if not isinstance(content, dict) or "model_state" not in content:
            kind = f"a {type(content).__name__}"
            if isinstance(content, dict):
                kind = f"keys {_some(content)}"
            raise ForeignCheckpointError(
                f"{path} holds {kind}, not a checkpoint with 'model_state'"
            )
        state = content["model_state"]
    if not isinstance(state, dict) or not all(map(_is_named_tensor, state.items())):
        raise ForeignCheckpointError(f"{path}: 'model_state' is not a dict of float tensors")
    for name, tensor in state.items():
        if not _is_plain(tensor):
            raise ForeignCheckpointError(
                f"{path}: tensor {name!r} is not stored whole, as numbers of 16 to 64 bits"
            )
    if sum(tensor.nbytes for tensor in state.values()) > size:
        raise ForeignCheckpointError(f"{path}: its tensors are larger than the file")
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise ForeignCheckpointError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return {name: tensor.float() for name, tensor in state.items()}


def _is_named_tensor(item: tuple[Any, Any]) -> bool:
    name, tensor = item
    return isinstance(name, str) and isinstance(tensor, torch.Tensor) and tensor.is_floating_point()


def _state_in(content: Any) -> dict[str, Any] | None:
    """Return the dict of their tensors, by the names of their code, in what a checkpoint holds;
    None where none is."""
    if not isinstance(content, dict):
        return None
    names: dict[Any, str] = {}  # without wrappers
    prefix = None
    for name in content:
        parts = [part for part in str(name).split(".") if part not in WRAPPERS]
        names[name] = ".".join(parts)
        if prefix is None and names[name].endswith(EMBEDDING):
            prefix = names[name].removesuffix(EMBEDDING)
    if prefix is None:
        for part in content.values():
            state = _state_in(part)
            if state:
                return state
        return None
    state = {}
    for name, tensor in content.items():
        plain = names[name].removeprefix(prefix)
        if plain in state:
            raise ForeignCheckpointError(f"it holds the tensor {plain!r} twice")
        if plain != "n_averaged":  # a counter of torch's AveragedModel
            state[plain] = tensor
    return state


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether each number of a tensor has bytes of its own in the storage."""
    return (
        tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype in DTYPES
        and tensor.is_contiguous()
        and tensor.nbytes <= tensor.untyped_storage().nbytes()
    )


def from_state(
    state: State,
    histogram: tuple[float, ...] | None = None,
    heads: int | None = None,
    scale: str = "exp",
) -> Transformer:
    """Return their model as ours, in evaluation mode; ForeignCheckpointError where a tensor is
    missing, unknown or misshapen.

    histogram: probabilities of the first byte, which their network does not predict; MNIST's is
    always 0. heads: where a head is not 32 wide. scale: "exp" as their loss trains, "elu" as
    their sampler reads the same numbers.
    """
    config = _config(state, histogram, heads, scale)
    with torch.device("meta"):  # shapes only: no memory is taken before the tensors have them
        expected = Transformer(config).state_dict()
    left = dict(state)
    half = config.model_width // 2
    positions = _take(left, "pos_embedding.pe", (1, config.bytes - 1, half))
    if (positions[0] - waves(config.bytes - 1, half)).abs().max() > 1e-3:
        raise ForeignCheckpointError(
            "tensor 'pos_embedding.pe' is not the sine and cosine table of their code"
        )
    converted = {"embedding.value": _take(left, EMBEDDING, (256, half))}
    for theirs, ours in _names(config.layers).items():
        converted[ours] = _take(left, theirs, tuple(expected[ours].shape))
    for names, ours in _projections(config.layers):
        inputs = expected[ours].shape[1:]
        tensors = []
        for name, width in zip(names, _widths(config), strict=True):
            tensors.append(_take(left, name, (width, *inputs)))
        converted[ours] = torch.cat(tensors)
    if left:
        raise ForeignCheckpointError(f"unexpected tensor {min(left)!r}")
    model = Transformer(config).eval().requires_grad_(False)
    model.load_state_dict(converted)
    return model


def dataset_of(state: State) -> str:
    """Return the data set that a checkpoint was trained on, as its image size implies."""
    return DATASETS[_image_bytes(state)]


def to_state(model: Transformer) -> State:
    """Return our model as theirs; ValueError with one sentence where their code cannot express
    it."""
    config = model.config
    for name, only in EXPRESSIBLE.items():
        if getattr(config, name) != only:
            raise ValueError(
                f"the authors' code has no {name} of {getattr(config, name)!r}, only {only!r}"
            )
    if SIZES.get(config.bytes) != (config.height, config.width, config.channels):
        raise ValueError(
            f"the authors' code reads MNIST's and CIFAR-10's images, not {config.size}"
        )
    tensors = model.state_dict()
    positions = waves(config.bytes - 1, config.model_width // 2)
    state = {
        "pos_embedding.pe": positions.unsqueeze(0),
        EMBEDDING: tensors["embedding.value"],
    }
    for theirs, ours in _names(config.layers).items():
        state[theirs] = tensors[ours]
    for names, ours in _projections(config.layers):
        state |= zip(names, tensors[ours].split(_widths(config)), strict=True)
    return {name: tensor.cpu().clone() for name, tensor in state.items()}


def write_checkpoint(model: Transformer, path: Path) -> None:
    """Write `to_state` to a file as their training code does."""
    content = {"model_state": to_state(model), "optimizer_state": {}, "iteration": 0}
    file = BytesIO()  # torch.save to a file hides the reason of a failure
    torch.save(content, file)
    write_output(path, file.getvalue())


def _config(
    state: State, histogram: tuple[float, ...] | None, heads: int | None, scale: str
) -> ModelConfig:
    length = _image_bytes(state)
    outputs, width = _shape(state, "predictor.weight", 2)
    keys = _shape(state, "transformer.layers.0.attention.query_projection.weight", 2)[0]
    hidden = _shape(state, "transformer.layers.0.linear1.weight", 2)[0]
    if heads is None and (width % HEAD or keys % (width // HEAD)):
        raise ForeignCheckpointError(
            f"a width of {width} is not a number of heads of {HEAD}; give --heads"
        )
    heads = width // HEAD if heads is None else heads
    if heads < 1 or width % heads or keys % heads:
        raise ForeignCheckpointError(
            f"{heads} heads do not divide a width of {width} and keys of {keys}"
        )
    if outputs % 3:
        raise ForeignCheckpointError(
            f"tensor 'predictor.weight' has {outputs} rows, no multiple of three"
        )
    layers = set()
    for name in state:
        layer = re.match(r"transformer\.layers\.(\d+)\.", name)
        if layer:
            layers.add(int(layer[1]))
    height, image_width, channels = SIZES[length]
    if histogram is None:
        if channels != 1:
            raise ForeignCheckpointError(
                "it does not predict the first byte; give --data to count its histogram"
            )
        histogram = (1.0,) + (0.0,) * 255
    return ModelConfig(
        height,
        image_width,
        channels,
        layers=1 + max(layers),
        heads=heads,
        key_width=keys // heads,
        value_width=width // heads,
        feed_forward=hidden,
        components=outputs // 3,
        scale=scale,  # type: ignore[arg-type]
        first_byte_histogram=histogram,
        **EXPRESSIBLE,  # type: ignore[arg-type]
    )


def _image_bytes(state: State) -> int:
    length = _shape(state, "pos_embedding.pe", 3)[1] + 1
    if length not in SIZES:
        raise ForeignCheckpointError(
            f"its images have {length} bytes, neither MNIST's 784 nor CIFAR-10's 3072"
        )
    return length


def _names(layers: int) -> dict[str, str]:
    """Return our name for each of their tensors that are the same in both."""
    names: dict[str, str] = {}
    for kind in ("weight", "bias"):
        names[f"predictor.{kind}"] = f"head.{kind}"
        names[f"transformer.norm.{kind}"] = f"norm.{kind}"
        for layer in range(layers):
            for theirs, ours in PARTS.items():
                name = f"transformer.layers.{layer}.{theirs}.{kind}"
                names[name] = f"layers.{layer}.{ours}.{kind}"
    return names


def _projections(layers: int) -> Iterator[tuple[list[str], str]]:
    """Yield the names of their query, key and value, and our name of all three together."""
    for layer in range(layers):
        attention = f"transformer.layers.{layer}.attention"
        for kind in ("weight", "bias"):
            theirs = [f"{attention}.{part}_projection.{kind}" for part in PROJECTIONS]
            yield theirs, f"layers.{layer}.query_key_value.{kind}"


def _widths(config: ModelConfig) -> list[int]:
    """Return the outputs of query, key and value."""
    keys = config.heads * config.key_width
    return [keys, keys, config.model_width]


def _shape(state: State, name: str, dimensions: int) -> tuple[int, ...]:
    if name not in state:
        raise ForeignCheckpointError(f"tensor {name!r} is missing; it holds {_some(state)}")
    shape = tuple(state[name].shape)
    if len(shape) != dimensions or 0 in shape:
        raise ForeignCheckpointError(
            f"tensor {name!r} has shape {list(shape)}, not {dimensions} dimensions"
        )
    return shape


def _take(state: State, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Remove a tensor of that shape from `state` and return it."""
    if name not in state:
        raise ForeignCheckpointError(f"tensor {name!r} is missing")
    tensor = state.pop(name)
    if tuple(tensor.shape) != shape:
        raise ForeignCheckpointError(
            f"tensor {name!r} has shape {list(tensor.shape)}, not {list(shape)}"
        )
    return tensor


def _some(names: Any) -> str:
    listed = [repr(name) for name in sorted(map(str, names))]
    if len(listed) > 3:
        listed[3:] = ["..."]
    return ", ".join(listed) or "nothing"
