"""scanline import and export: the authors' checkpoints come in and go out; ONNX by the name or the option."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from scanline.model.extras import MissingExtraError
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.fast_transformers import EXPRESSIBLE, State, to_state
from tests.support import small_models
from tests.support.commands import done, refused, without_onnx

SIZES = {"height": 28, "width": 28, "layers": 1, "key_width": 32, "value_width": 32}


def theirs() -> State:
    """The tensors of a model that the authors' code can express."""
    config = small_models.config(**SIZES, **EXPRESSIBLE, first_byte_histogram=small_models.HISTOGRAM)
    return to_state(small_models.model(config))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    file = tmp_path / "weights.pth"
    torch.save({"model_state": theirs(), "optimizer_state": {}, "iteration": 7}, file)
    return file


def test_an_imported_model_paints_and_goes_back(checkpoint: Path, tmp_path: Path) -> None:
    result = done("import", checkpoint, tmp_path / "theirs")
    assert "28x28, 1 layers of 2 heads of 32, 3 components, scales read as exp" in result
    done("sample", "--model", tmp_path / "theirs", "-n", "2", "--out", tmp_path / "two.npy")
    painted = np.load(tmp_path / "two.npy")
    assert painted.shape == (2, 28, 28)
    assert not painted[:, 0, 0].any()
    done("export", tmp_path / "theirs", tmp_path / "again.pth")
    first, again = (torch.load(file, weights_only=True)["model_state"] for file in (checkpoint, tmp_path / "again.pth"))
    assert all(torch.equal(first[name], again[name]) for name in first if name != "pos_embedding.pe")


def test_a_file_of_another_kind_is_refused_in_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    torch.save({"model_state": theirs() | {"predictor.weight": torch.zeros(4, 64)}}, checkpoint)
    assert "weights.pth: tensor 'predictor.weight' has 4 rows" in refused("import", checkpoint, tmp_path / "out")
    (tmp_path / "weights.pth").write_bytes(b"PK nothing")
    assert "is not a torch checkpoint of plain tensors" in refused("import", tmp_path / "weights.pth", tmp_path / "out")
    assert "is missing" in refused("import", tmp_path / "nothing.pth", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_the_authors_code_cannot_express_is_not_exported(tmp_path: Path) -> None:
    said = refused("export", "mnist-small", tmp_path / "weights.pth")
    assert "the authors' code has no step of 'pixel', only 'byte'" in said
    config = small_models.config(
        **SIZES, **(EXPRESSIBLE | {"norm": "pre"}), first_byte_histogram=small_models.HISTOGRAM
    )
    save_model(small_models.model(config), tmp_path)
    said = refused("export", tmp_path, tmp_path / "weights.pth")
    assert "the authors' code has no norm of 'pre'" in said
    assert not (tmp_path / "weights.pth").exists()


def test_the_option_or_the_name_of_the_file_asks_for_onnx(grey_directory: Path, tmp_path: Path) -> None:
    done("export", grey_directory, tmp_path / "grey", "--onnx", "--weights", "int8")
    done("export", grey_directory, tmp_path / "grey.onnx", "--weights", "float32")
    sizes = [(tmp_path / name).stat().st_size for name in ("grey", "grey.onnx")]
    assert sizes[0] < sizes[1]
    onnx.checker.check_model(tmp_path / "grey", full_check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("out.onnx", "--weights", "int4"), "unknown weights 'int4'; known: float32, float16, int8"),
        (("out.pth", "--weights", "int8"), "--weights is for ONNX: add --onnx"),
    ],
)
def test_a_wrong_choice_of_weights_is_refused(
    arguments: tuple[str, ...], said: str, grey_directory: Path, tmp_path: Path
) -> None:
    assert refused("export", grey_directory, tmp_path / arguments[0], *arguments[1:]) == said
    assert not (tmp_path / arguments[0]).exists()


def test_without_the_extra_onnx_it_says_what_to_install(
    grey_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_onnx(monkeypatch)
    assert refused("export", grey_directory, tmp_path / "step.onnx") == str(MissingExtraError("ONNX export", "onnx"))
    done("export", "--help")
