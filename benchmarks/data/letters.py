"""Draw digits and letters, 28 x 28, light on dark, from the fonts of Debian's packages below:
python -m benchmarks.data.letters FOLDER [COUNT]

FOLDER/train and FOLDER/test get a subfolder for each of 62 characters. The fonts of TEST are never
drawn in train. FOLDER/README.md, letters.md, is what the card of a model says of them: the packages
and their licences. All characters of a font stand on one baseline at one size, so that pictures in
a row are a word, and o differs from O.
"""

import random
import string
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from shutil import copyfile

import numpy as np
from PIL import Image, ImageDraw, ImageFont

CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
TRAIN = """agave allerta anonymous-pro averia-gwf averia-sans-gwf averia-serif-gwf b612 cabin cantarell cardo cmu
comfortaa courier-prime croscore crosextra-carlito dancingscript dejavu-core dejavu-extra dosis ebgaramond elstob
essays1743 fantasque-sans fanwood georgewilliams go hack hermit inconsolata inter junction junicode jura kaushanscript
lato league-mono league-spartan lindenhill linuxlibertine lobstertwo manrope mononoki national-park oldstandard
open-sans opendyslexic paratype play prociono quattrocento roboto-slab roboto-unhinted routed-gothic sil-andika
sil-gentiumplus sora stix texgyre vollkorn yanone-kaffeesatz"""
TEST = """clear-sans comic-neue crosextra-caladea firacode goudybookletter karla quicksand sil-charis tuffy
yrsa-rasa"""
# pixels of a picture; each is drawn larger and reduced, for smooth edges
SIZE = 28
SCALE = 4
SIDE = SIZE * SCALE
# pixels
BASELINE = 21
MAX_WIDTH = 25
CAPITAL = 16.0  # pixels, the height of H
FAINT = 0.2  # of the pixels that H spans: the ink of a hairline
# of the ink of two of these: the difference below which they read the same
CONFUSED = ("0Oo", "1Il")
ALIKE = 0.3
# parts of the names of files: small capitals, initials, keys of a keyboard
SPECIAL = ("smallcaps", "_i.", "_k.")
ABOUT = Path(__file__).with_suffix(".md")


@cache
def font(file: str, height: int) -> ImageFont.FreeTypeFont:
    """Return a font in the size at which its H has this height."""
    top, bottom = ImageFont.truetype(file, 200).getbbox("H")[1::2]
    return ImageFont.truetype(file, max(1, round(200 * height / (bottom - top))))


def drawn(file: str, character: str, chance: random.Random | None = None) -> Image.Image:
    """Return a character of a font, slightly varied in size, slant, angle and place where there is
    a `chance`."""
    vary = chance.uniform if chance else lambda low, high: (low + high) / 2
    height = SCALE * CAPITAL * vary(0.93, 1.07)
    face = font(file, round(height))
    left, _, right, _ = face.getbbox(character, anchor="ls")
    if right - left > SCALE * MAX_WIDTH:
        face = font(file, int(height * SCALE * MAX_WIDTH / (right - left)))
        left, _, right, _ = face.getbbox(character, anchor="ls")
    picture = Image.new("L", (SIDE, SIDE))
    x = SIDE / 2 - (left + right) / 2 + SCALE * vary(-1, 1)
    y = SCALE * (BASELINE + vary(-1, 1))
    ImageDraw.Draw(picture).text((x, y), character, 255, face, anchor="ls")
    if chance:
        slant = vary(-0.12, 0.12)
        around_middle = (1, slant, -slant * SIDE / 2, 0, 1, 0)
        picture = picture.transform(picture.size, Image.Transform.AFFINE, around_middle)
        picture = picture.rotate(vary(-4, 4), Image.Resampling.BICUBIC)
    return picture.resize((SIZE, SIZE), Image.Resampling.BOX)


def readable(file: str) -> str:
    """Return the characters of a font that look unlike its others; "" for a font of hairlines."""
    face = ImageFont.truetype(file, 40)
    missing = bytes(face.getmask("\uffff"))
    if any(bytes(face.getmask(character)) in (missing, b"") for character in CHARACTERS):
        return ""
    pictures = {character: drawn(file, character) for character in CHARACTERS}
    stem = pictures["H"].crop(pictures["H"].getbbox())
    if np.asarray(stem).mean() < 255 * FAINT:
        return ""
    ink = {character: np.asarray(picture, float) for character, picture in pictures.items()}
    return "".join(character for character in CHARACTERS if not _is_confused(character, ink))


def _is_confused(character: str, ink: dict[str, np.ndarray]) -> bool:
    """Return whether a character looks like another one of this font, as l does like I in many."""
    own_ink = ink[character]
    for group in CONFUSED:
        if character not in group:
            continue
        for other in group.replace(character, ""):
            least = min(own_ink.sum(), ink[other].sum())
            if np.abs(own_ink - ink[other]).sum() < ALIKE * least:
                return True
    return False


def fonts_of(packages: str) -> dict[str, dict[str, list[str]]]:
    """Return for each character, and each package that draws it readably, the files of its
    fonts."""
    fonts: dict[str, dict[str, list[str]]] = {}
    for character in CHARACTERS:
        fonts[character] = defaultdict(list)
    for package in packages.split():
        name = f"fonts-{package}"
        listed = subprocess.run(["dpkg", "-L", name], capture_output=True, text=True)
        if listed.returncode:
            names = " ".join(f"fonts-{package}" for package in f"{TRAIN} {TEST}".split())
            sys.exit(f"install the fonts: apt-get install {names}")
        for file in sorted({str(Path(line).resolve()) for line in listed.stdout.splitlines()}):
            lower = file.lower()
            is_special = any(part in lower for part in SPECIAL)
            if is_special or not lower.endswith((".ttf", ".otf")):
                continue
            for character in readable(file):
                fonts[character][name].append(file)
    return fonts


def main(folder: Path, count: int) -> None:
    """Draw `count` characters for training and a twentieth of that for testing, as many of each."""
    for part, packages, number in (("train", TRAIN, count), ("test", TEST, count // 20)):
        chance = random.Random(part)
        of_each = number // len(CHARACTERS)
        used: set[str] = set()
        for character, files_of in fonts_of(packages).items():
            into = folder / part / character
            into.mkdir(parents=True)
            used.update(*files_of.values())
            for index in range(of_each):
                package = chance.choice(sorted(files_of))
                file = chance.choice(files_of[package])
                drawn(file, character, chance).save(into / f"{index:05d}.png")
        print(f"{part}: {of_each} of each of {len(CHARACTERS)} characters, {len(used)} fonts")
    copyfile(ABOUT, folder / "README.md")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60_000)
