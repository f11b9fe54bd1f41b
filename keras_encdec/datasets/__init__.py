"""The phrase table and the parallel text that come with the package."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path


@dataclass(frozen=True)
class PhraseTableDataset:
    """Paths of a phrase table and of parallel text that goes with it.

    Attributes:
        phrase_table: path of the gzipped Moses phrase table, tokens escaped as Moses escapes them.
        moses_ini: path of a baseline configuration that names the table by its file name.
        train_source, train_target: paths of gzipped training sentences and their translations, drawn from those that
            the table was extracted from; one tokenized sentence per line, not escaped.
        dev_source, dev_target: paths of the development sentences and their translations, in the same form.
        test_source, test_target: paths of the test sentences and their translations, in the same form.
    """

    phrase_table: Path
    moses_ini: Path
    train_source: Path
    train_target: Path
    dev_source: Path
    dev_target: Path
    test_source: Path
    test_target: Path


def libreoffice_en_fr() -> PhraseTableDataset:
    """Returns the packaged dataset: English to French, from LibreOffice's help and user interface.

    Its NOTICE file says how it was made. It is under the Mozilla Public License 2.0.

    Example:

    >>> libreoffice_en_fr().phrase_table.name
    'phrase-table.gz'
    """
    folder = Path(str(resources.files("keras_encdec.datasets"))) / "libreoffice_en_fr"
    return PhraseTableDataset(
        phrase_table=folder / "phrase-table.gz",
        moses_ini=folder / "moses.ini",
        train_source=folder / "train.en.gz",
        train_target=folder / "train.fr.gz",
        dev_source=folder / "dev.en",
        dev_target=folder / "dev.fr",
        test_source=folder / "test.en",
        test_target=folder / "test.fr",
    )
