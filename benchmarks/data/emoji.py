"""Make emoji, 32 x 32 on white, from three sets of npm packages: python -m
benchmarks.data.emoji NODE_MODULES FOLDER

npm install emoji-datasource-google@16 emoji-datasource-twitter@16 @lobehub/fluent-emoji-3d@1.1.0

The sets are Noto Emoji (Google, Apache 2.0), Twemoji (Twitter and others, CC BY 4.0) and
Fluent Emoji (Microsoft, MIT). FOLDER/train and FOLDER/test get a subfolder for each of
Unicode's nine groups. An emoji of test is in no set in train. FOLDER/README.md, emoji.md, is
what the card of a model says of them.
"""

import json
import random
import sys
import zlib
from collections import Counter
from operator import itemgetter
from pathlib import Path
from shutil import copyfile
from typing import Any

from PIL import Image

SETS = (
    "emoji-datasource-google/img/google/64",
    "emoji-datasource-twitter/img/twitter/64",
    "@lobehub/fluent-emoji-3d/assets",
)
SKIN = "Component"  # the group of the five hues of skin alone
# pixels of a picture, and of the one that is turned before it is reduced
SIZE = 32
DRAWN = 128
VARIATIONS = 4  # of each emoji of each set; with a hue of skin each where there are several
HELD_OUT = 20  # of so many emoji one
ABOUT = Path(__file__).with_suffix(".md")


def pictures_of(emoji: dict[str, Any], modules: Path) -> list[list[Path]]:
    """Return the pictures of an emoji in each set that has it: in yellow or as it is, then with
    each hue of skin."""
    names = [emoji["image"]]
    for tones, variation in emoji.get("skin_variations", {}).items():
        if "-" not in tones:
            names.append(variation["image"])
    pictures: list[list[Path]] = []
    for folder in SETS:
        files: list[Path] = []
        for name in names:
            file = modules / folder / name
            files += [path for path in (file, file.with_suffix(".webp")) if path.is_file()]
        if files:
            pictures.append(files)
    return pictures


def varied(file: Path, chance: random.Random) -> Image.Image:
    """Return an emoji on white, slightly varied in size, angle and place."""
    side = round(DRAWN * chance.uniform(0.86, 0.97))
    emoji = Image.open(file).convert("RGBA").resize((side, side), Image.Resampling.BICUBIC)
    left = round((DRAWN - side) / 2 + chance.uniform(-4, 4))
    top = round((DRAWN - side) / 2 + chance.uniform(-4, 4))
    picture = Image.new("RGBA", (DRAWN, DRAWN), "white")
    picture.alpha_composite(emoji, (max(left, 0), max(top, 0)))
    angle = chance.uniform(-4, 4)
    turned = picture.convert("RGB").rotate(angle, Image.Resampling.BICUBIC, fillcolor="white")
    return turned.resize((SIZE, SIZE), Image.Resampling.BOX)


def main(modules: Path, folder: Path) -> None:
    """Write VARIATIONS pictures of each emoji of each set to train, or one to test."""
    listed = json.loads((modules / "emoji-datasource-google/emoji.json").read_text())
    chance = random.Random(0)
    written = Counter[str]()
    for emoji in sorted(listed, key=itemgetter("sort_order")):
        if emoji["category"] == SKIN:
            continue
        is_test = zlib.crc32(emoji["unified"].encode()) % HELD_OUT == 0
        part = "test" if is_test else "train"
        place = folder / part / emoji["category"].split()[0].lower()
        place.mkdir(parents=True, exist_ok=True)
        for number, files in enumerate(pictures_of(emoji, modules)):
            for variation in range(1 if is_test else VARIATIONS):
                file = files[0]
                if variation and len(files) > 1:
                    file = chance.choice(files[1:])
                name = f"{emoji['unified'].lower()}-{number}-{variation}.png"
                varied(file, chance).save(place / name)
                written[part] += 1
    copyfile(ABOUT, folder / "README.md")
    print(dict(written))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
