"""What the fuzzer gives damaged files to: the readers of all formats, and the tasks of the commands."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.runtime.input_lines import InputLines

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "helpers"))

TABLE = b"""le ||| the ||| 0.5 0.25 1e-3 1 ||| 0-0 ||| 2 2 1 ||| |||
le chat ||| the cat ||| 0.7 0.3 0.2 0.1 ||| 0-0 1-1 ||| 10 12 8 ||| |||
la maison ||| the house 's ||| 1 1 1 1 ||| 0-0 1-1 1-2
R&amp;D &#124; ||| R&amp;D ||| 0.1 0.1 0.1 0.1 |||
l' \xc3\xa9t\xc3\xa9 ||| summer ||| 0.5 0.25 0.125 0.1 ||| 0-0 1-0 ||| 1 1 1
"""
TSV = b"le chat\tthe cat\t1\nla maison\tthe house\n\tsummer\n\xc3\xa9t\xc3\xa9\tcaf\xc3\xa9\t0.5\t2\nl' R&D\t<b> 's\n"
SOURCE = b"le chat\nla maison\nl' \xc3\xa9t\xc3\xa9\n"
TARGET = b"the cat\nthe house\nsummer 's\n"
LINKS = b"0-0 1-1\n0-0 1-1\n0-0 1-0\n"
NBEST = b"""0 ||| the cat ||| LM0= -4.5 TM0= -1 -2 -0.5 -3 WordPenalty0= -2 ||| -7.5 ||| 0-1=0-1 ||| 0-0 1-1
0 ||| cat the ||| LM0= -6.5 TM0= -1 -2 -1.5 -3 WordPenalty0= -2 ||| -9.25
1 ||| the house ||| LM0= -3 TM0= 0 0 0 0 WordPenalty0= -2 ||| -1 ||| 0-1=0-1
2 ||| summer ||| LM0= -1 TM0= -1 0 -2 0 WordPenalty0= -1 ||| -0.5
2 ||| 's ||| LM0= -7 TM0= -1 0 -2 -9 WordPenalty0= -1 ||| -10.5
"""
WEIGHTS = b"LM0= 0.5\nTM0= 0.2 0.1 0.3 -0.1\nWordPenalty0= -1\n"
MOSES_INI = b"""[input-factors]
0
[mapping]
0 T 0
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=4 path=/models/table.gz input-factor=0 output-factor=0
KENLM name=LM0 factor=0 path=/models/lm.arpa order=3
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
TM0= 0.2 0.2 0.2 0.2
LM0= 0.5
"""
DICTIONARY = b"le\tthe\nchat\tcat\t5\n\xc3\xa9t\xc3\xa9\tsummer\nR&amp;D\tR&amp;D\n"
VOCABULARY = b"the\ncat\nhouse\n's\nsummer\n\"\nR&D\ncaf\xe9\n"
SETTINGS = b"""architecture = "encdec"
[training]
batch_size = 16
learning_rate = 0.5
updates = 9
[data]
tsv = "pairs.tsv"
max_length = 20
[model]
units = 8
"""
ARPA = b"""\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1\t<unk>\t0
0\t<s>\t-0.30103
-0.7\t</s>\t0
-0.5\tthe\t-0.1

\\2-grams:
-0.2\t<s> the
-0.3\tthe </s>

\\end\\
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """A function that reads files.

    Attributes:
        files: dict from the name of a file to its good content. One of the files is damaged at a time.
        run: callable of the folder that contains the files.
        whole: names of the files that are not damaged.
    """

    files: Mapping[str, bytes]
    run: Callable[[pathlib.Path], object]
    whole: frozenset[str] = frozenset()


class LostLine(Exception):
    """Error: a line of the input is missing from the output."""


def _lines(path: pathlib.Path) -> list[bytes]:
    with InputLines(path) as lines:
        return list(lines)


def _read(format_name: str, name: str, source: str | None = None, encoding: str | None = None) -> Callable:
    """Makes a function that reads all records, and checks that each line has one and can get columns."""
    from keras_encdec.formats import Column, ColumnKind, pair_format

    def run(folder: pathlib.Path) -> None:
        known = pair_format(format_name)
        columns = [Column(ColumnKind.LOG_PROB, "new")] if known.column_texts else []
        for on_error in ("keep", "stop"):
            arguments = folder / name, source and folder / source, encoding, on_error
            with known.open_reader(*arguments) as reader:
                records = list(known.check_columns(reader, columns))
            if columns:
                values = [[-1.0] * sum(record.problem is None for record in records)]
                written = known.with_columns(records, columns, values)
                if any(b"\n" in line for line in written):
                    raise LostLine(f"{format_name} wrote two lines for one")
            if len(records) != len(_lines(folder / name)):
                raise LostLine(f"{len(records)} records of {len(_lines(folder / name))} lines")

    return run


def _links(folder: pathlib.Path) -> None:
    from keras_encdec.formats import pair_format
    from keras_encdec.formats.alignments import links_from_file

    with pair_format("parallel").open_reader(folder / "target", folder / "source") as reader:
        for _ in links_from_file(reader, folder / "links"):
            pass


def _text(path: pathlib.Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _weights(folder: pathlib.Path) -> None:
    from keras_encdec.formats.feature_weights import read_weights
    from keras_encdec.formats.moses_ini import replace_moses_weights

    weights = read_weights(folder / "moses.ini")
    text = _text(folder / "moses.ini")
    replace_moses_weights(text, weights, folder / "moses.ini")


def _moses_ini(folder: pathlib.Path) -> None:
    from keras_encdec.formats.moses_ini import rewrite_moses_ini

    text = _text(folder / "moses.ini")
    rewrite_moses_ini(text, "scored.gz", 1, path=folder / "moses.ini")


def _segmentations(folder: pathlib.Path) -> None:
    from keras_encdec.formats.nbest_line import feature_names, parse_segmentation
    from keras_encdec.formats.record_reader import MalformedLine

    for line in _lines(folder / "nbest"):
        with contextlib.suppress(MalformedLine):
            feature_names(line)
        with contextlib.suppress(MalformedLine):
            parse_segmentation(line, 2, 2)


def _dictionary(folder: pathlib.Path) -> None:
    from keras_encdec.text.lexical_shortlist import read_dictionary

    read_dictionary(folder / "dictionary")


def _vocabulary(folder: pathlib.Path) -> None:
    from keras_encdec.text import Vocabulary

    vocabulary = Vocabulary.load(folder / "vocabulary")
    if len(vocabulary) != len(_lines(folder / "vocabulary")):
        raise LostLine("a word of the vocabulary")


def _sentences(folder: pathlib.Path) -> None:
    from keras_encdec.formats import read_sentences

    if len(read_sentences(folder / "source")) != len(_lines(folder / "source")):
        raise LostLine("a sentence")


def _settings(folder: pathlib.Path) -> None:
    from keras_encdec.trainers.training_config import TrainingConfig
    from keras_encdec.trainers.training_data import TrainingData

    TrainingConfig.from_preset(folder / "settings.toml")
    TrainingData.from_preset(folder / "settings.toml")


def _experiment(folder: pathlib.Path) -> None:
    from keras_encdec.experiment.experiment_file import load_experiment

    load_experiment(folder / "experiment.toml")


def _nbest_sentences(folder: pathlib.Path) -> None:
    from keras_encdec.formats.nbest import hypotheses_by_sentence

    with InputLines(folder / "nbest") as lines:
        number = sum(len(sentence.hypotheses) for sentence in hypotheses_by_sentence(lines))
    if number != len(_lines(folder / "nbest")):
        raise LostLine("a hypothesis")


def _phrase_scores(folder: pathlib.Path) -> None:
    from keras_encdec.smt.nbest.phrase_scores import read_phrase_scores

    read_phrase_scores(folder / "table", [["le", "chat"], ["la", "maison"]], on_error="keep")


def _model_config(folder: pathlib.Path) -> None:
    from keras_encdec.model_config import check_model_directory, read_model_config

    check_model_directory(folder)
    read_model_config(folder)


def _language_model(folder: pathlib.Path) -> None:
    from keras_encdec.smt.ngrams.ngram_model import NgramModel

    NgramModel(folder / "arpa").score(["the", "cat"])


def readers() -> dict[str, Target]:
    """The readers, which need no model: thousands of inputs a second."""
    from keras_encdec.datasets import libreoffice  # noqa: F401

    experiment = next((pathlib.Path(__file__).parents[2] / "keras_encdec").rglob("experiments/*.toml")).read_bytes()
    config = b'{"format": 1, "made_by": "keras-encdec 0.1", "name": "encdec", "direction": "forward", "model": {'
    config += b'"source_words": 2, "units": 8}, "tokenization": null, "training": {}, "sha256": {}}'
    return {
        "phrase table": Target({"table": TABLE}, _read("phrase_table", "table")),
        "phrase table, latin-1": Target({"table": TABLE}, _read("phrase_table", "table", encoding="latin-1")),
        "tsv": Target({"tsv": TSV}, _read("tsv", "tsv")),
        "parallel text": Target({"source": SOURCE, "target": TARGET}, _read("parallel", "target", "source")),
        "n-best list": Target({"nbest": NBEST, "source": SOURCE}, _read("nbest", "nbest", "source")),
        "n-best fields": Target({"nbest": NBEST}, _segmentations),
        "n-best sentences": Target({"nbest": NBEST}, _nbest_sentences),
        "sentences": Target({"source": SOURCE}, _sentences),
        "links": Target({"source": SOURCE, "target": TARGET, "links": LINKS}, _links),
        "weights": Target({"moses.ini": MOSES_INI}, _weights),
        "moses.ini": Target({"moses.ini": MOSES_INI}, _moses_ini),
        "dictionary": Target({"dictionary": DICTIONARY}, _dictionary),
        "vocabulary": Target({"vocabulary": VOCABULARY}, _vocabulary),
        "settings": Target({"settings.toml": SETTINGS}, _settings),
        "experiment": Target({"experiment.toml": experiment}, _experiment),
        "phrases of a table": Target({"table": TABLE}, _phrase_scores),
        "config.json": Target({"config.json": config, "best.keras": b"x"}, _model_config, frozenset({"best.keras"})),
        "language model": Target({"arpa": ARPA}, _language_model),
    }


def _keeps_lines(folder: pathlib.Path, name: str, output: str = "output") -> None:
    """Checks that the output has a line for each line of the input."""
    before, after = _lines(folder / name), _lines(folder / output)
    if len(before) != len(after):
        raise LostLine(f"{len(after)} lines of {len(before)}")


def _scoring(scorer: Any, name: str, **options: Any) -> Callable[[pathlib.Path], None]:
    from keras_encdec.scoring import score_file

    def run(folder: pathlib.Path) -> None:
        source = {"source": str(folder / "source")} if (folder / "source").exists() else {}
        for on_error in ("keep", "stop"):
            with _quiet():
                score_file(scorer, folder / name, folder / "output", on_error=on_error, **options, **source)
            _keeps_lines(folder, name)

    return run


def _quiet() -> Any:
    """Hides the output of tasks."""
    return contextlib.redirect_stderr(open(os.devnull, "w"))


def tasks(folder: pathlib.Path) -> dict[str, Target]:
    """The tasks of the commands.

    Args:
        folder: path of a folder for the model directories that the tasks use.
    """
    from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

    from keras_encdec.decoding.generate_file import generate_file
    from keras_encdec.scoring import TextScorer
    from keras_encdec.selection.select_pairs import select_pairs
    from keras_encdec.smt.decoder.phrase_decoder import decode_nbest
    from keras_encdec.smt.evaluation.evaluate import evaluate
    from keras_encdec.smt.extraction.dictionary import write_dictionary
    from keras_encdec.smt.extraction.extract import extract_phrase_table
    from keras_encdec.smt.nbest.ngram_posteriors import add_ngram_posteriors
    from keras_encdec.smt.nbest.phrase_features import add_phrase_features
    from keras_encdec.smt.nbest.rerank import rerank
    from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams
    from keras_encdec.smt.tuning.tune import tune

    model = save_model(folder / "model", SOURCE_WORDS, TARGET_WORDS)
    scorer = TextScorer(model)
    reverse = TextScorer(save_model(folder / "reverse", TARGET_WORDS, SOURCE_WORDS, reverse=True))
    parts = {path.name: path.read_bytes() for path in model.iterdir()}
    pairs = {"source": SOURCE, "target": TARGET}

    def keeping(task: Callable[[pathlib.Path], object], name: str) -> Callable[[pathlib.Path], None]:
        def run(path: pathlib.Path) -> None:
            task(path)
            _keeps_lines(path, name)

        return run

    return {
        "score a table": Target({"table": TABLE}, _scoring(scorer, "table", length=True)),
        "score a TSV file": Target({"tsv": TSV}, _scoring(scorer, "tsv", format="tsv", token_scores=True)),
        "score an n-best list": Target(
            {"nbest": NBEST, "source": SOURCE}, _scoring(scorer, "nbest", format="nbest", unknown_count=True)
        ),
        "score parallel text": Target(pairs, _scoring(scorer, "target", format="parallel")),
        "score in shards": Target({"table": TABLE}, _scoring(scorer, "table", shard_lines=2)),
        "generate": Target(
            {"source": SOURCE},
            keeping(lambda path: generate_file(scorer.directory, path / "source", path / "output", "greedy"), "source"),
        ),
        "select": Target(
            pairs,
            lambda path: select_pairs(
                path / "target",
                path / "output",
                {"model_dir": scorer, "reverse_model_dir": reverse},
                source=path / "source",
                source_output=path / "source_output",
                on_error="keep",
                top=2,
            ),
        ),
        "rerank": Target(
            {"nbest": NBEST, "weights": WEIGHTS},
            lambda path: rerank(path / "nbest", path / "output", path / "weights"),
        ),
        "tune": Target(
            {"nbest": NBEST, "reference": TARGET, "weights": WEIGHTS},
            lambda path: tune([path / "nbest"], [path / "reference"], path / "weights", seeds=1),
        ),
        "evaluate": Target(
            {"reference": TARGET, "system": SOURCE},
            lambda path: evaluate([path / "reference"], {"system": [path / "system"]}),
        ),
        "extract": Target(
            {**pairs, "links": LINKS},
            lambda path: extract_phrase_table(
                path / "target",
                path / "output",
                source=path / "source",
                alignment=path / "links",
                number_of_processes=1,
            ),
        ),
        "dictionary of a corpus": Target(
            {**pairs, "links": LINKS},
            lambda path: write_dictionary(
                path / "target", path / "output", format="parallel", source=path / "source", alignment=path / "links"
            ),
        ),
        "phrase features": Target(
            {"nbest": NBEST, "source": SOURCE, "table": TABLE},
            keeping(
                lambda path: add_phrase_features(
                    path / "nbest", path / "source", path / "table", path / "output", {"RNN0": [4]}, on_error="keep"
                ),
                "nbest",
            ),
        ),
        "n-gram posteriors": Target(
            {"nbest": NBEST, "translations": NBEST},
            keeping(lambda path: add_ngram_posteriors(path / "nbest", path / "translations", path / "output"), "nbest"),
        ),
        "estimate n-grams": Target(
            {"target": TARGET * 9}, lambda path: estimate_ngrams(path / "target", path / "output", order=2)
        ),
        "decode": Target(
            {"source": SOURCE, "table": TABLE, "arpa": ARPA},
            lambda path: decode_nbest(
                path / "source", path / "table", path / "arpa", path / "output", number_of_processes=1
            ),
        ),
        "model directory": Target(parts, _load),
    }


def _load(path: pathlib.Path) -> None:
    from keras_encdec.model_directory import ModelDirectory

    try:
        ModelDirectory.load(path)
    finally:
        if "tensorflow" in sys.modules:  # which keeps a kernel for each variable of each model, for ever
            from tensorflow.python.eager import context

            context.context().clear_kernel_cache()


def expected(error: BaseException) -> bool:
    """Whether an error is one that a command shows as a sentence, and its sentence is fit to be shown."""
    from keras_encdec.configuration import ConfigurationError

    text = str(error)
    sentence = isinstance(error, InputError | ConfigurationError)
    return sentence and len(text) < 2000 and text.isprintable()


def all_targets(folder: pathlib.Path, with_tasks: bool) -> dict[str, Target]:
    """The readers, and after them the tasks if they are wanted."""
    return dict(itertools.chain(readers().items(), (tasks(folder) if with_tasks else {}).items()))
