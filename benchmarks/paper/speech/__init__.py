"""Speech recognition by CTC (section 4.3, Table 3), from files of speech to phoneme errors.

`corpus.py` reads a folder of recordings and transcripts, `synthetic.py` makes one by `espeak.py`, a synthesiser.
`features.py` turns samples into mel bands, `network.py` mel bands into phonemes, `training.py` trains and `ctc.py` has
the loss, decodes and counts errors. `part.py` is the part of the page.
"""

from benchmarks.paper.speech.part import NAME, run, section, summary

__all__ = ["NAME", "run", "section", "summary"]
