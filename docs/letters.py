"""Draw letters from the fonts at hand, 28 x 28, light on dark:
python docs/letters.py FOLDER COUNT
"""

import random
import shutil
import string
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZE, SCALE = 28, 4  # pixels of a picture; each is drawn larger and reduced, for smooth edges


def font_files() -> list[str]:
    """Fonts for English that fontconfig knows; none on a machine without fontconfig."""
    if not shutil.which("fc-list"):
        return []
    listed = subprocess.run(
        ["fc-list", ":lang=en", "file"], capture_output=True, text=True, check=True
    ).stdout
    names = sorted(line.strip().rstrip(":") for line in listed.splitlines())
    return [name for name in names if name.lower().endswith((".ttf", ".otf"))]


def letter(chance: random.Random, files: list[str]) -> Image.Image:
    size = SCALE * chance.randint(18, 24)
    file = chance.choice([*files, None])
    # without a file, the font that is part of Pillow
    font = ImageFont.truetype(file, size) if file else ImageFont.load_default(size)
    picture = Image.new("L", (SCALE * SIZE, SCALE * SIZE))
    middle = SCALE * SIZE / 2
    ImageDraw.Draw(picture).text(
        (middle, middle), chance.choice(string.ascii_uppercase), 255, font, anchor="mm"
    )
    slant = chance.uniform(-0.25, 0.25)
    picture = picture.transform(
        picture.size, Image.Transform.AFFINE, (1, slant, -slant * middle, 0, 1, 0)
    )
    picture = picture.rotate(chance.uniform(-12, 12), Image.Resampling.BICUBIC)
    return picture.resize((SIZE, SIZE), Image.Resampling.BOX)


folder, count = Path(sys.argv[1]), int(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
chance, files = random.Random(0), font_files()
for i in range(count):
    letter(chance, files).save(folder / f"{i:05d}.png")
print(f"{count} letters of {len(files) + 1} fonts in {folder}")
