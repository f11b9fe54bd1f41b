"""An n-best list of the packaged dataset, as the phrase-based decoder writes it."""

import itertools
import pathlib

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import InputLines
from keras_encdec.smt.decoder.phrase_decoder import decode_nbest
from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams

WEIGHTS = {
    "LM0": [0.5],
    "WordPenalty0": [-1.0],
    "PhrasePenalty0": [0.2],
    "TranslationModel0": [0.2] * 4,
    "Distortion0": [0.3],
}
SENTENCES, HYPOTHESES = 20, 50


def decoded_list(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Decodes the first sentences of the dataset's development set.

    Returns:
        the n-best list, gzipped, and the file of the weights.
    """
    dataset = libreoffice_en_fr()
    with InputLines(dataset.train_target) as lines:
        (folder / "train").write_bytes(b"\n".join(itertools.islice(lines, 2000)) + b"\n")
    estimate_ngrams(folder / "train", folder / "lm.arpa", order=3)
    (folder / "source").write_text("".join(dataset.dev_source.open().readlines()[:SENTENCES]))
    (folder / "weights").write_text("".join(f"{name}= {' '.join(map(str, w))}\n" for name, w in WEIGHTS.items()))
    decode_nbest(
        folder / "source",
        dataset.phrase_table,
        folder / "lm.arpa",
        folder / "nbest.gz",
        WEIGHTS,
        nbest_size=HYPOTHESES,
        pop_limit=50,
        number_of_processes=1,
    )
    return folder / "nbest.gz", folder / "weights"
