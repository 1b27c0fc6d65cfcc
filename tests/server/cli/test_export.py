"""scanline export --onnx: the name or the option asks for it, and what cannot be written is one sentence."""

from pathlib import Path

import onnx
import pytest

from scanline.model.extras import MissingExtraError
from tests.support.commands import done, refused, without_onnx


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
