"""Table 3: phoneme error rate and seconds an epoch of four acoustic networks, trained by CTC.

The corpus is the folder `speech` of the data, in one of the layouts of corpus.py, or else a synthetic one
(synthetic.py, by espeak.py) that is made beside the results. features.py turns samples into mel bands, network.py these
into phonemes, training.py trains, ctc.py has the loss, decodes and counts errors. Each network is one point of the
results.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.encoder import Sizes, reset
from benchmarks.paper.markdown import number, plot, table
from benchmarks.paper.results import Results
from benchmarks.paper.speech import synthetic
from benchmarks.paper.speech.espeak import missing
from benchmarks.paper.speech.network import PAPER, NetworkSizes, networks
from benchmarks.paper.speech.training import Data, Recipe, read, train
from scanline.model.bench.baselines import missing_library

TABLE_3 = {"Bi-LSTM": (10.94, 1047), "softmax": (5.12, 2711), "LSH-4": (9.33, 2250), "linear": (8.08, 824)}
ADAM_RATE = 1e-3  # of the Bi-LSTM, as in the paper

FULL = NetworkSizes(Sizes(4, 4, 32, 512), 3, 128)
QUICK = NetworkSizes(Sizes(1, 2, 16, 64), 1, 16)
FULL_RECIPE = Recipe(epochs=20, batch=8, rate=1e-3)  # the paper's rate is 1e-4, for far more updates
QUICK_RECIPE = Recipe(epochs=2, batch=8, rate=1e-3)
FULL_CORPUS = synthetic.Recipe((1000, 100, 200), words=(3, 6))
QUICK_CORPUS = synthetic.Recipe((28, 6, 6), words=(2, 3))


def run(results: Results, quick: bool) -> None:
    """Train each network; nothing where there is neither a corpus nor a synthesiser.

    CorpusError where there is a corpus and it cannot be read, ValueError where results are of another one.
    """
    sizes, recipe, made = (QUICK, QUICK_RECIPE, QUICK_CORPUS) if quick else (FULL, FULL_RECIPE, FULL_CORPUS)
    folder = results.data / "speech"
    synthesised = not folder.is_dir()
    if synthesised:
        if reason := missing():
            print(f"{results.part}: {folder} does not exist, and {reason}")
            return
        folder = results.path.parent / ("speech-quick" if quick else "speech")
        synthetic.write(folder, made)
    data = read(folder)
    corpus = results.measure("corpus", lambda: _facts(data, folder, synthesised))
    if corpus and corpus["folder"] != str(folder.resolve()):
        raise ValueError(f"{results.path} holds results of the corpus {corpus['folder']}, not of {folder}")
    for name, build in networks(sizes, len(data.phonemes)).items():
        adam = name == "Bi-LSTM"
        own = replace(recipe, rate=ADAM_RATE) if adam else recipe
        results.measure(
            name, lambda build=build, own=own, adam=adam: _train(build, data, own, adam) | {"sizes": asdict(sizes)}
        )


def _train(build: Any, data: Data, recipe: Recipe, adam: bool) -> dict[str, Any]:
    return {**train(reset(0, build), data, recipe, adam), "recipe": asdict(recipe)}


def _facts(data: Data, folder: Path, synthesised: bool) -> dict[str, Any]:
    frames = [len(recording.frames) for recordings in data.parts.values() for recording in recordings]
    return {
        "folder": str(folder.resolve()),
        "synthetic": synthesised,
        "utterances": {part: len(recordings) for part, recordings in data.parts.items()},
        "speech_seconds": data.seconds,
        "voices": {part: len(voices) for part, voices in synthetic.VOICES.items()} if synthesised else None,
        "phonemes": len(data.phonemes) - 1,
        "mean_frames": float(np.mean(frames)),
        "left_out": data.left_out,
    }


HEADER = ("network", "phoneme error", "seconds/epoch", "weights", "paper: error, WSJ", "paper: seconds/epoch, GPU")


def summary(results: Results) -> str:
    """Return the order of the networks beside the paper's; empty for a quick run."""
    found = {name: point["test_error"] for name in TABLE_3 if (point := results.get(name))}
    corpus = results.get("corpus")
    if results.quick or len(found) < 2 or corpus is None:
        return ""
    ours = ", ".join(sorted(found, key=found.__getitem__))
    paper = ", ".join(sorted(found, key=lambda name: TABLE_3[name][0]))
    speech = "synthetic speech" if corpus["synthetic"] else "the given speech"
    return f"By phoneme errors on {speech} the order is {ours}; in the paper, on recorded speech, {paper}."


def section(results: Results) -> str:
    corpus = results.get("corpus")
    if corpus is None:
        reason = missing()
        return f"Not run: {reason}.\n" if reason else "Not run yet.\n"
    label = "synthetic, " if corpus["synthetic"] else ""
    rows, curves = [], {}
    for name, (error, seconds) in TABLE_3.items():
        point, cells = results.get(name), ["", "", ""]
        if point:
            cells = [f"{point['test_error']:.1%}", number(min(point["seconds_of_epochs"])), f"{point['parameters']:,}"]
            curves[name] = [list(enumerate((100 * e for e in point["dev_error"]), 1))]
        rows.append([f"{name}{f' ({label[:-2]})' if label else ''}", *cells, f"{error} %", f"{seconds:,}"])
    y = f"{label}phoneme error of the dev part, %"
    picture = plot(results, results.part, f"Speech ({label}CTC)", curves, "epochs", y, ("linear", "linear"))
    return "\n".join((_words(corpus, results), table(HEADER, rows), picture))


def _words(corpus: dict[str, Any], results: Results) -> str:
    """What was read and trained, what may be compared with the paper, and what is missing."""
    hours = corpus["speech_seconds"]["train"] / 3600
    known = f"{corpus['utterances']['train']:,} utterances, {number(hours)} hours, {corpus['mean_frames']:.0f} frames "
    known += f"on average, {corpus['phonemes']} phonemes"
    if corpus["synthetic"]:
        voices = corpus["voices"]
        text = f"**The speech is synthetic**: eSpeak NG reads random sentences ({known}) in {voices['train']} voices; "
        text += f"the {voices['test']} voices of the test are in no other part. The paper's corpus, the Wall Street "
        text += (
            "Journal, needs a licence; a corpus in `<data>/speech` is used instead. Only the order of the networks and "
        )
        text += "their times can be compared with the paper, not the error rates."
    else:
        text = (
            f"The corpus is that of the folder `<data>/speech`: {known}; {corpus['left_out']} utterances were left out."
        )
    trained = [point for name in TABLE_3 if (point := results.get(name))]
    if trained:
        ours, paper = trained[0]["sizes"]["transformer"], asdict(PAPER)["transformer"]
        text += f" Layers x heads of the transformers: {ours['layers']} x {ours['heads']}, in the paper "
        text += (
            f"{paper['layers']} x {paper['heads']}; {trained[0]['recipe']['epochs']} epochs. The paper's errors are "
        )
        text += "those of its validation part, ours those of the test part."
    if not results.get("LSH-4") and (reason := missing_library()):
        text += f" LSH-4 is empty: {reason}."
    return text + "\n"
