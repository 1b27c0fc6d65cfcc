"""A corpus of read speech on disk: utterances, each a WAV file and its phonemes, in the parts train, dev and test.

Two layouts of a part's folder are read, by what is there:

- Kaldi's, as its WSJ recipe writes it: `wav.scp` (utterance, then a path, or a command ending in | that writes WAV),
  `text` (utterance, then its words). Paths are relative to the working directory, or to the part's folder.
- pairs of files NAME.wav and NAME.txt anywhere below it, the latter a line of words.

`lexicon.txt` of the corpus (word, then its phonemes; the first pronunciation of a word counts) turns words into
phonemes; without it, transcripts are phonemes already. Stress digits (AH0) are dropped. An utterance with a word that
the lexicon lacks is left out, and counted.
"""

import io
import shlex
import subprocess
import wave
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PARTS = ("train", "dev", "test")
FULL_SCALE = 32768.0  # of 16-bit samples


class CorpusError(ValueError):
    """The corpus is not one that can be read."""


@dataclass(frozen=True)
class Utterance:
    name: str
    source: str  # a path, or a command ending in |
    phonemes: tuple[str, ...]

    def samples(self) -> tuple[np.ndarray, int]:
        """Return the samples [n] float32 in [-1, 1] of the first channel, and their rate in Hz. CorpusError where they
        cannot be read; a command that ends with an error is one."""
        try:
            if self.source.endswith("|"):
                run = subprocess.run(shlex.split(self.source[:-1]), capture_output=True, check=True)
                return read_wav(run.stdout)
            return read_wav(Path(self.source).read_bytes())
        except (OSError, EOFError, wave.Error, subprocess.CalledProcessError) as error:
            raise CorpusError(f"utterance {self.name}, {self.source}: {error}") from None


@dataclass(frozen=True)
class Part:
    utterances: list[Utterance]
    left_out: list[str] = field(default_factory=list)  # names of utterances with words that the lexicon lacks


def read_wav(data: bytes) -> tuple[np.ndarray, int]:
    """Return the first channel [n] float32 in [-1, 1] of a 16-bit WAV file, and its rate in Hz."""
    with wave.open(io.BytesIO(data)) as file:
        if file.getsampwidth() != 2:
            raise wave.Error(f"samples of {8 * file.getsampwidth()} bits, not 16")
        frames = file.readframes(file.getnframes())
        samples = np.frombuffer(frames, "<i2").reshape(-1, file.getnchannels())[:, 0]
        return samples.astype(np.float32) / FULL_SCALE, file.getframerate()


def write_wav(path: Path, samples: np.ndarray, rate: int) -> None:
    """Write samples [n] int16 at a rate in Hz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


def load(folder: Path, part: str) -> Part:
    """Return the utterances of a part of the corpus in `folder`, by name. CorpusError with one sentence where there
    are none."""
    at = folder / part
    if not at.is_dir():
        raise CorpusError(f"{folder} has no folder {part}; a corpus has {', '.join(PARTS)}")
    lexicon = read_lexicon(folder / "lexicon.txt") if (folder / "lexicon.txt").exists() else None
    found = _kaldi(at) if (at / "wav.scp").exists() else _pairs(at)
    utterances, left_out = [], []
    for name, (source, words) in sorted(found.items()):
        phonemes = words if lexicon is None else _pronounce(words, lexicon)
        if phonemes:
            utterances.append(Utterance(name, source, tuple(phonemes)))
        else:
            left_out.append(name)
    if not utterances:
        reason = f"none of its {len(left_out)} transcripts can be pronounced" if left_out else "it holds no recordings"
        raise CorpusError(f"{at} has no utterances: {reason}")
    return Part(utterances, left_out)


def read_lexicon(path: Path) -> dict[str, list[str]]:
    """Return the phonemes of each word in lower case, by the first line of it."""
    lexicon: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        word, *phonemes = line.split() or [""]
        if phonemes:
            lexicon.setdefault(word.lower(), [phoneme.rstrip("012") or phoneme for phoneme in phonemes])
    return lexicon


def _pronounce(words: list[str], lexicon: dict[str, list[str]]) -> list[str]:
    """Return the phonemes of words; nothing where the lexicon lacks one."""
    if any(word.lower() not in lexicon for word in words):
        return []
    return [phoneme for word in words for phoneme in lexicon[word.lower()]]


def _kaldi(at: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the source and words of each utterance that has both."""
    sources = {}
    for line in (at / "wav.scp").read_text().splitlines():
        name, _, source = line.strip().partition(" ")
        inside = at / source.strip()
        sources[name] = str(inside) if inside.is_file() else source.strip()
    if not (at / "text").exists():
        raise CorpusError(f"{at} has wav.scp, but no text")
    transcripts = (line.split() for line in (at / "text").read_text().splitlines())
    return {name: (sources[name], words) for name, *words in filter(None, transcripts) if name in sources}


def _pairs(at: Path) -> dict[str, tuple[str, list[str]]]:
    pairs = ((wav, wav.with_suffix(".txt")) for wav in at.rglob("*.wav"))
    return {str(wav.relative_to(at)): (str(wav), txt.read_text().split()) for wav, txt in pairs if txt.exists()}
