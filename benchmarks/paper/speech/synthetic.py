"""A synthetic corpus: eSpeak NG reads random sentences in many voices, and voices of the test read nothing else.

It is written in Kaldi's layout, so that it is read as any other corpus is. It is no substitute for recorded speech: its
voices are variants of one synthesiser, every phoneme sounds nearly alike in each of its places, and there is no noise.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.paper.speech.corpus import PARTS, write_wav
from benchmarks.paper.speech.espeak import Espeak
from scanline.model.atomic import write_atomically

LANGUAGE = "en-us"
VOICES = {  # variants of eSpeak NG; no voice is in two parts
    "train": ("m1", "m2", "m3", "m4", "m7", "f1", "f2", "f3", "Andy", "Annie", "klatt", "klatt3", "steph", "edward"),
    "dev": ("m5", "f4", "klatt2"),
    "test": ("m6", "m8", "f5", "klatt4", "linda", "max"),
}
# frequent words and some more, so that every phoneme of the language is in several
TEXT = """
the of and to in that is was he for it with as his on be at by had not are but from or have they which one you were
all her she there would their we him been has when who will no more if out so up said what its about than into them
can only other time new some could these two may first then do any like my now over such our man me even most made
after also did many off before must well back through years much where your way down should because long each just
state people those too good little world very still see men work between year while last might great old house day
same since again both against never small another every own under used here right thought went place point hand three
high school church water number thing voice boy joy coin noise choose bridge judge measure vision treasure usual beige
path bath father mother teeth think cheese watch picture orange language sing song young finger hungry box fox quick
zoo zero rose prize yes yellow cube few view cow brown town loud fire tire hour power near chair care door floor poor
tour sure bird nurse word fast hat bed pen sit bit hot got book cook look put moon food
"""
WORDS = TEXT.split()


@dataclass(frozen=True)
class Recipe:
    """How much is read: sentences of each part, and words of each, from the first to the last number."""

    sentences: tuple[int, int, int]  # of train, dev and test
    words: tuple[int, int]
    seed: int = 0


def write(folder: Path, recipe: Recipe) -> None:
    """Write the corpus, unless `folder` holds that of this recipe already.

    RuntimeError or ImportError without eSpeak NG.
    """
    written = json.dumps({**asdict(recipe), "voices": VOICES, "text": TEXT}, indent=1) + "\n"
    mark = folder / "recipe.json"  # written last
    if mark.exists() and mark.read_text() == written:
        return
    mark.unlink(missing_ok=True)
    espeak = Espeak.instance()
    random = np.random.default_rng(recipe.seed)
    for part, sentences in zip(PARTS, recipe.sentences, strict=True):
        at = folder / part
        at.mkdir(parents=True, exist_ok=True)
        paths, transcripts, speakers = [], [], []
        for index in range(sentences):
            variant = VOICES[part][index % len(VOICES[part])]
            name, voice = f"{variant}-{index:05d}", f"{LANGUAGE}+{variant}"
            text = " ".join(random.choice(WORDS, random.integers(recipe.words[0], recipe.words[1] + 1)))
            speed, pitch = int(random.integers(150, 211)), int(random.integers(35, 66))
            write_wav(at / f"{name}.wav", espeak.speak(text, voice, speed, pitch), espeak.sample_rate)
            paths.append(f"{name} {name}.wav")
            transcripts.append(f"{name} {' '.join(espeak.phonemes(text, voice))}")
            speakers.append(f"{name} {variant}")
        for file, lines in (("wav.scp", paths), ("text", transcripts), ("utt2spk", speakers)):
            (at / file).write_text("\n".join(lines) + "\n")
    write_atomically(mark, lambda path: path.write_text(written))
