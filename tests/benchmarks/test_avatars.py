"""What the data of avatars-small say of themselves."""

from pathlib import Path
from shutil import copyfile

from scanline.model.datasets.folder import about

FACES = Path(__file__).parents[2] / "benchmarks/data/avatars.md"


def test_the_data_of_avatars_name_their_designer_and_licence(tmp_path):
    copyfile(FACES, tmp_path / "README.md")
    name, text = about(tmp_path)
    assert name == "Faces in pixel art"
    assert "DiceBear" in text
    assert "CC0 1.0" in text
