"""Corpora of both layouts are read as they are written, and what cannot be read is named in one sentence."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper.speech import corpus, synthetic
from benchmarks.paper.speech.corpus import CorpusError
from benchmarks.paper.speech.espeak import Espeak, missing

TONE = (8000 * np.sin(np.arange(8000) / 5)).astype(np.int16)

needs_espeak = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def kaldi(folder: Path) -> Path:
    """A part `train` in Kaldi's layout, as its WSJ recipe writes it, with a lexicon."""
    at = folder / "train"
    at.mkdir(parents=True)
    for name in ("a1", "a2", "a3", "a4"):
        corpus.write_wav(at / f"{name}.wav", TONE, 16000)
    command = shlex.join(["cat", str(at / "a2.wav")])  # the recipe's is sph2pipe
    (at / "wav.scp").write_text(f"a2 {command} |\na1 a1.wav\na3 {at / 'a3.wav'}\na4 a4.wav\n")
    (at / "text").write_text("a1 THE CAT\na2 cat the\na3 the UNKNOWN\nb9 the\n")
    (folder / "lexicon.txt").write_text("THE DH AH0\nTHE DH IY1\nCAT K AE1 T\n<UNK> SPN\n")
    return folder


def test_kaldi_layout_with_a_lexicon(tmp_path: Path) -> None:
    part = corpus.load(kaldi(tmp_path), "train")
    found = {utterance.name: " ".join(utterance.phonemes) for utterance in part.utterances}
    assert found == {"a1": "DH AH K AE T", "a2": "K AE T DH AH"}
    assert part.left_out == ["a3"]
    for utterance in part.utterances:  # a path, and a command
        samples, rate = utterance.samples()
        assert rate == 16000
        np.testing.assert_allclose(samples, TONE / 32768, atol=1e-7)


def test_pairs_of_wav_and_transcript(tmp_path: Path) -> None:
    at = tmp_path / "test" / "speaker 1"
    at.mkdir(parents=True)
    corpus.write_wav(at / "y.wav", TONE, 22050)
    with corpus.wave.open(str(at / "x.wav"), "wb") as file:  # of two channels, the first of which is read
        file.setparams((2, 2, 22050, len(TONE), "NONE", ""))
        file.writeframes(np.stack((TONE, -TONE), axis=1).tobytes())
    (at / "x.txt").write_text("h @ l oU\n")
    (utterance,) = corpus.load(tmp_path, "test").utterances
    assert (utterance.name, utterance.phonemes) == ("speaker 1/x.wav", ("h", "@", "l", "oU"))
    samples, rate = utterance.samples()
    assert rate == 22050
    np.testing.assert_allclose(samples, TONE / 32768, atol=1e-7)


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="has no folder train"):
        corpus.load(tmp_path, "train")
    at = tmp_path / "train"
    at.mkdir()
    with pytest.raises(CorpusError, match="has no utterances: it holds no recordings"):
        corpus.load(tmp_path, "train")
    (at / "wav.scp").write_text("a missing.wav\nb false |\nc text\n")
    with pytest.raises(CorpusError, match=r"has wav\.scp, but no text"):
        corpus.load(tmp_path, "train")
    (at / "text").write_text("a x\nb y\nc z\n")
    absent, failing, no_wav = corpus.load(tmp_path, "train").utterances
    for utterance, message in ((absent, "No such file"), (failing, "non-zero exit status"), (no_wav, "RIFF")):
        with pytest.raises(CorpusError, match=message):
            utterance.samples()
    (tmp_path / "lexicon.txt").write_text("other AH\n")
    with pytest.raises(CorpusError, match="none of its 3 transcripts can be pronounced"):
        corpus.load(tmp_path, "train")


@needs_espeak
def test_every_voice_is_another_and_phonemes_have_no_stress() -> None:
    espeak = Espeak.instance()
    for part in synthetic.VOICES.values():
        spoken = {voice: espeak.speak("measure", f"en-us+{voice}") for voice in part}
        assert len({samples.tobytes() for samples in spoken.values()}) == len(part)
        assert all(0.2 < len(samples) / espeak.sample_rate < 3 for samples in spoken.values())
    assert espeak.phonemes("measure, a book", "en-us") == ["m", "E", "Z", "3", "a#", "b", "U", "k"]
    with pytest.raises(ValueError, match="has no voice 'nowhere'"):
        espeak.speak("measure", "nowhere")


@needs_espeak
def test_the_synthetic_corpus_is_read_as_any_other_and_written_once(tmp_path: Path) -> None:
    recipe = synthetic.Recipe((4, 2, 2), words=(1, 2))
    synthetic.write(tmp_path, recipe)
    speakers = {}
    for name, sentences in zip(corpus.PARTS, recipe.sentences, strict=True):
        part = corpus.load(tmp_path, name)
        assert (len(part.utterances), part.left_out) == (sentences, [])
        assert all(len(utterance.samples()[0]) > 2000 for utterance in part.utterances)
        lines = (tmp_path / name / "utt2spk").read_text().splitlines()
        speakers[name] = {line.split()[1] for line in lines}
    assert not speakers["train"] & (speakers["dev"] | speakers["test"])
    first = tmp_path / "train" / "text"
    written = first.read_text()
    first.write_text("changed")
    synthetic.write(tmp_path, recipe)
    assert first.read_text() == "changed"
    synthetic.write(tmp_path, synthetic.Recipe((4, 2, 2), words=(1, 2), seed=1))
    assert first.read_text() not in ("changed", written)
