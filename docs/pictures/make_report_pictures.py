"""Makes the pictures of the guide to reports from trained models, by the report itself.

    python docs/pictures/make_report_pictures.py PHRASE_MODEL PHRASE_TABLE SENTENCE_MODEL SENTENCES

The pictures in the repository are of a phrase model of 512 units, trained on a phrase table of Multi30k for 4,300
updates of 256 pairs, and of a model of sentences with attention, trained on Multi30k.
"""

import pathlib
import shutil
import sys
import tempfile

from keras_encdec.analysis import report
from keras_encdec.backend.startup import import_keras

FOLDER = pathlib.Path(__file__).parent
PHRASES = {
    "scores.png": "report-scores.png",
    "words.svg": "report-words.svg",
    "phrases.svg": "report-phrases.svg",
    "gates_1.svg": "report-gates.svg",
}
SENTENCES = {"attention_1.svg": "report-attention.svg"}


def main(phrase_model: str, phrase_table: str, sentence_model: str, sentences: str) -> None:
    """Writes both reports and keeps the pictures that the guide shows."""
    import_keras()
    with tempfile.TemporaryDirectory() as folder:
        phrases, text = pathlib.Path(folder, "phrases"), pathlib.Path(folder, "sentences")
        print(report(phrase_model, phrases, phrase_table, say=print))
        print(report(sentence_model, text, source=sentences, say=print))
        for place, names in ((phrases, PHRASES), (text, SENTENCES)):
            for name, kept in names.items():
                shutil.copy(place / "figures" / name, FOLDER / kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
