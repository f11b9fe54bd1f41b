"""Builds the packaged phrase table from Debian's LibreOffice packages.

    python -m keras_encdec.cli.build_dataset --debs=DIR --output=DIR

On Debian 12, this fetches what goes into DIR:

    apt-get download libreoffice-help-en-us libreoffice-help-fr libreoffice-l10n-fr
"""

import gzip
import os
import random
import sys
from pathlib import Path
from typing import Any

from absl import logging
from tqdm import tqdm

from keras_encdec.data.alignment import align
from keras_encdec.datasets import corpus
from keras_encdec.datasets.debian import find_package, package_version, read_package
from keras_encdec.datasets.libreoffice import clean_message, read_catalog, read_help_page
from keras_encdec.datasets.selection import select
from keras_encdec.errors import InputError
from keras_encdec.formats.tokens import split_tokens
from keras_encdec.smt.phrase_scoring import score_phrases

PACKAGES = ("libreoffice-help-en-us", "libreoffice-help-fr", "libreoffice-l10n-fr")


def read_texts(directory: str | os.PathLike) -> dict[str, Any]:
    """Reads English texts and their French translations out of the packages.

    Args:
        directory: path with the .deb files.

    Returns:
        list of `(english, french)`: str, paragraphs and messages, as they come.

    Raises:
        InputError: when a package is missing or the packages are of different versions.
    """
    paths = [find_package(directory, name) for name in PACKAGES]
    versions = {package_version(path) for path in paths}
    if len(versions) > 1:
        raise InputError(
            f"found versions {', '.join(sorted(versions))}", "expected one", "download all", path=directory
        )
    logging.info("LibreOffice packages of version %s", *versions)
    pages = []
    for path, language in zip(paths, ("en-US", "fr"), strict=False):
        folder = f"usr/share/libreoffice/help/{language}/"
        pages.append(
            {
                name.removeprefix(folder): read_help_page(content.decode("utf-8"))
                for name, content in _progress(read_package(path), f"help, {language}")
                if name.startswith(folder) and name.endswith(".html")
            }
        )
    texts = [
        (text, pages[1][page][identifier])
        for page, paragraphs in sorted(pages[0].items())
        for identifier, text in paragraphs.items()
        if identifier in pages[1].get(page, {})
    ]
    logging.info("help: %d paragraph pairs", len(texts))
    messages = [
        tuple(map(clean_message, message))
        for name, content in sorted(read_package(paths[2]))
        if name.endswith(".mo")
        for message in read_catalog(content)
    ]
    plain = [message for message in messages if all(message)]
    logging.info("messages: %d, %d of them plain", len(messages), len(plain))
    return texts + plain


def make_corpus(texts: dict[str, Any]) -> Any:
    """Makes distinct pairs of tokenized, lowercased, clean sentences of pairs of texts.

    Args:
        texts: list of `(english, french)`.

    Returns:
        list of `(source_words, target_words)`.
    """
    from keras_encdec.text.tokenizer import Tokenizer

    sentences = [pair for text in texts for pair in corpus.split_sentences(*text)]
    tokenizer = Tokenizer(lowercase=True)
    sides = [
        [line.decode("utf-8") for line in tokenizer([corpus.normalize(text) for text in side]).numpy()]
        for side in zip(*sentences, strict=True)
    ]
    distinct = [tuple(split_tokens(line) for line in pair) for pair in dict.fromkeys(zip(*sides, strict=True))]
    clean = [pair for pair in distinct if corpus.is_clean(*pair)]
    logging.info("sentence pairs: %d, distinct: %d, clean: %d", len(sentences), len(distinct), len(clean))
    logging.info("up to 10 words on both sides: %d", sum(max(map(len, pair)) <= 10 for pair in clean))
    return clean


def build(
    debs: str | os.PathLike, output: str | os.PathLike, held_out: int = 1000, seed: int = 1, sentences: int = 20_000
) -> None:
    """Writes `phrase-table.gz`, `train.en.gz`, `train.fr.gz`, `dev.en`, `dev.fr`, `test.en` and `test.fr`.

    Args:
        debs: path of the directory with the .deb files.
        output: path of the directory to write to; made if it is not there.
        held_out: int. Sentence pairs in each of dev and test. Defaults to 1000.
        seed: int. Seed of the draws. Defaults to 1.
        sentences: int. Sentence pairs in train, drawn from those that the table is made of; all of them if there are
            no more. Defaults to 20,000.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    training, *held_out_sets = corpus.hold_out(make_corpus(read_texts(debs)), held_out, seed)
    logging.info("training: %d sentence pairs", len(training))
    alignments = align(*map(list, zip(*training, strict=True)))
    table = list(_progress(score_phrases(training, alignments), "scoring"))
    logging.info("phrase pairs: %d", len(table))
    chosen = select(table)
    logging.info("phrase pairs chosen: %d", len(chosen))

    drawn = sorted(random.Random(seed).sample(range(len(training)), min(sentences, len(training))))
    sets = {"train": [training[index] for index in drawn], **dict(zip(("dev", "test"), held_out_sets, strict=True))}
    for name, pairs in sets.items():
        for side, language in enumerate(("en", "fr")):
            path = output / f"{name}.{language}{'.gz' if name == 'train' else ''}"
            _write(path, [" ".join(pair[side]) for pair in pairs])
    _write(output / "phrase-table.gz", chosen)


def _write(path, lines):
    content = "".join(f"{line}\n" for line in lines).encode("utf-8")
    if path.suffix == ".gz":
        # No time stamp: the same input gives the same bytes.
        content = gzip.compress(content, compresslevel=9, mtime=0)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def _progress(items, description):
    return tqdm(items, desc=description, disable=not sys.stderr.isatty())
