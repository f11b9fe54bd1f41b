"""Makes the pictures of the guide to reports from trained models, by the report itself.

    python docs/pictures/make_report_pictures.py PHRASE_MODEL PHRASE_TABLE SENTENCE_MODEL SENTENCES

The pictures in the repository are of the model and the phrase table that come with the package
(`libreoffice_en_fr keras_encdec/datasets/libreoffice_en_fr/phrase-table.gz`), and of a model with the preset
`small_sentences`, trained on Multi30k, with 200 sentences of its test set of 2016.
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
