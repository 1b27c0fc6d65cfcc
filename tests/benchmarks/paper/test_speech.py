"""Speech recognition from samples to errors: mel bands, decoding, networks that do not read padding, training."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.paper.encoder import Sizes
from benchmarks.paper.results import Results
from benchmarks.paper.speech import corpus, part, training
from benchmarks.paper.speech.ctc import edit_distance, error_rate, greedy
from benchmarks.paper.speech.features import BANDS, mel_bands
from benchmarks.paper.speech.network import NetworkSizes, networks
from benchmarks.paper.speech.training import Data, Recipe, Recording

SMALL = NetworkSizes(Sizes(1, 2, 8, 32), 1, 8)
NAMES = tuple(networks(SMALL, 3))
RATE = 16000


def tone(hertz: float, seconds: float = 0.3) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE)


def test_a_higher_tone_is_in_a_higher_band_and_frames_are_10_ms_apart() -> None:
    chirp = np.concatenate([tone(hertz) for hertz in (300, 1000, 3000)])
    bands = mel_bands(chirp, RATE)
    assert bands.shape == (88, BANDS)  # (14,400 - 400) / 160 + 1 frames
    assert bands.dtype == torch.float32
    torch.testing.assert_close(bands.mean(dim=0), torch.zeros(BANDS), atol=1e-4, rtol=0)
    low, middle, high = (bands[at].argmax().item() for at in (15, 44, 75))
    assert low < middle < high
    with pytest.raises(ValueError, match="15200 Hz or more, not 8000"):
        mel_bands(chirp, 8000)
    with pytest.raises(ValueError, match="shorter than a window"):
        mel_bands(chirp[:100], RATE)


def test_greedy_merges_repeats_and_drops_blanks_and_padding() -> None:
    best = torch.tensor([[1, 1, 0, 1, 2, 2, 0, 0], [0, 2, 2, 1, 1, 1, 2, 2]])
    scores = torch.nn.functional.one_hot(best, 3).float()
    assert greedy(scores, torch.tensor([8, 3])) == [[1, 1, 2], [2]]


def test_errors_are_edits_by_phonemes() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance([], [1, 2]) == 2
    assert edit_distance([1, 2, 3], [1, 3]) == 1
    assert error_rate([[1, 2, 3], [4]], [[1, 3], [4, 4]]) == 2 / 4


@pytest.mark.parametrize("name", NAMES)
def test_no_network_reads_the_padding(name: str) -> None:
    torch.manual_seed(0)
    network = networks(SMALL, 3)[name]()
    frames = torch.randn(2, 40, BANDS)
    padded = frames.clone()
    padded[0, 25:] = 100.0
    lengths = torch.tensor([25, 40])
    outputs = []
    for x in (frames, padded):
        torch.manual_seed(1)  # of LSH's planes
        outputs.append(network(x, lengths))
    assert outputs[0].shape == (2, 40, 3)
    torch.testing.assert_close(outputs[0].exp().sum(dim=-1), torch.ones(2, 40))
    if name != "LSH-4":  # it sorts the padding's queries into the same chunks
        torch.testing.assert_close(outputs[0][0, :25], outputs[1][0, :25])
    torch.testing.assert_close(outputs[0][1], outputs[1][1])


def tones(count: int, seed: int) -> list[Recording]:
    """Recordings of two or three tones, each a symbol."""
    random = np.random.default_rng(seed)
    recordings = []
    for _ in range(count):
        symbols = random.permutation([1, 2, 3])[: random.integers(2, 4)].tolist()
        samples = np.concatenate([tone(400 * 2 ** (symbol - 1), 0.12) for symbol in symbols])
        recordings.append(Recording(mel_bands(samples + 0.001 * random.normal(size=len(samples)), RATE), symbols))
    return recordings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "Bi-LSTM"])
def test_training_learns_to_name_tones(name: str) -> None:
    data = Data({"train": tones(60, 0), "dev": tones(10, 1), "test": tones(10, 2)}, ["", "low", "middle", "high"], 0)
    torch.manual_seed(0)
    sizes = NetworkSizes(Sizes(2, 2, 16, 64), 1, 24)
    point = training.train(networks(sizes, 4)[name](), data, Recipe(epochs=20, batch=4, rate=5e-3), name == "Bi-LSTM")
    assert point["loss"][-1] < point["loss"][0] / 2
    assert point["test_error"] < 0.4
    assert point["best_dev_error"] == min(point["dev_error"])
    assert all(seconds > 0 for seconds in point["seconds_of_epochs"])


def test_utterances_that_ctc_cannot_align_are_left_out(tmp_path: Path) -> None:
    for name in corpus.PARTS:
        at = tmp_path / name
        at.mkdir()
        for utterance, transcript in (("long", "a b"), ("short", "a a " * 20)):
            corpus.write_wav(at / f"{utterance}.wav", (20000 * tone(500)).astype(np.int16), RATE)
            (at / f"{utterance}.txt").write_text(transcript)
    data = training.read(tmp_path)
    assert data.phonemes == ["", "a", "b"]
    assert data.left_out == 3
    assert [recording.symbols for recording in data.parts["test"]] == [[1, 2]]


def test_a_given_corpus_is_read_and_results_of_another_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "QUICK", SMALL)
    monkeypatch.setattr(part, "QUICK_RECIPE", Recipe(epochs=1, batch=2, rate=1e-3))
    for name in corpus.PARTS:
        at = tmp_path / "data" / "speech" / name
        at.mkdir(parents=True)
        for index in range(2):
            corpus.write_wav(at / f"{index}.wav", (20000 * tone(500)).astype(np.int16), RATE)
            (at / f"{index}.txt").write_text("a b")
    results = Results(tmp_path / "out", "speech", quick=True, data=tmp_path / "data")
    assert "Not run" in part.section(results)
    part.run(results, quick=True)
    text = part.section(results)
    assert "synthetic" not in text
    assert "2 utterances" in text
    for name in NAMES:
        assert any(line.startswith(f"| {name} | ") and "%" in line.split("|")[2] for line in text.splitlines())
    (tmp_path / "data").rename(tmp_path / "moved")
    moved = Results(tmp_path / "out", "speech", quick=True, resume=True, data=tmp_path / "moved")
    with pytest.raises(ValueError, match="holds results of the corpus"):
        part.run(moved, quick=True)
