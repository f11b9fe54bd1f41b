"""The functions of an experiment's stages. Each runs a task of the package on files."""

import pathlib
import shutil
from collections.abc import Mapping

from keras_encdec.errors import InputError
from keras_encdec.experiment.stage_runner import StageProgress
from keras_encdec.formats import InputLines, read_weights
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.phrase_table import number_of_scores
from keras_encdec.runtime.progress import Progress, counted
from keras_encdec.runtime.settings_files import Json, write_json
from keras_encdec.scoring.score_file import score_file
from keras_encdec.scoring.scoring_options import ScoringOptions
from keras_encdec.smt.decoder.decoding_options import MAX_SENTENCE_LENGTH
from keras_encdec.smt.decoder.phrase_decoder import decode_nbest
from keras_encdec.smt.evaluation.evaluate import EvaluationOptions, evaluate
from keras_encdec.smt.extraction.extract import extract_phrase_table
from keras_encdec.smt.nbest.phrase_features import add_phrase_features
from keras_encdec.smt.nbest.rerank import rerank
from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams
from keras_encdec.smt.tuning.decoder_tuning import tune_decoder
from keras_encdec.smt.tuning.tune import TuningOptions, tune
from keras_encdec.trainers.train import train
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

# Maximum share of hypotheses whose phrases are not in the table. There may be a few even with the right table,
# because Moses handles unknown words differently.
MAX_WITHOUT_PHRASES = 0.05
# An experiment has no setting for this limit, and a long sentence would stop it.
_DECODING = {"max_sentence_length": MAX_SENTENCE_LENGTH}


class TrainingStopped(Exception):
    """A signal stopped a training run. The next run of the experiment continues it."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"found signal {signal} during a training run; the same call continues it")
        self.signal = signal


def extract(
    source: pathlib.Path,
    target: pathlib.Path,
    phrase_table: pathlib.Path,
    progress: StageProgress = Progress,
    **settings: Json,
) -> dict[str, object]:
    """Makes a phrase table; see `extract_phrase_table`. Pairs that are empty on a side or too long are left out.

    Raises:
        InputError: if the text is not UTF-8. Leaving out such lines could leave out most of it.
    """
    for path in (source, target):
        with InputLines(path) as lines:
            for _ in FileEncoding().texts(lines):
                pass
    summary = extract_phrase_table(target, phrase_table, source=source, on_error="keep", progress=progress, **settings)
    return {"phrase_pairs": summary.lines, "sentence_pairs": summary.sentence_pairs, "left_out": summary.left_out}


def train_model(
    model_dir: pathlib.Path,
    config: Mapping[str, object],
    data: Mapping[str, object],
    initial_model: pathlib.Path | None = None,
    configured_model: pathlib.Path | None = None,
    **files: pathlib.Path,
) -> dict[str, object]:
    """Trains a model, or continues an interrupted training run.

    Args:
        model_dir: directory of the model.
        config: dict, `TrainingConfig.to_dict()`.
        data: dict, `TrainingData.to_dict()` without the files of the text.
        initial_model: model directory with whose weights the training begins. Defaults to `None`: that of the
            configuration, if it names one.
        configured_model: the initial model of the configuration, or a copy of it. It is not read here. It is an input
            so that a change of the initial model causes a new training. Defaults to `None`: it is not an input.
        **files: files of the text by the names of TrainingData, and `validation_source` and `validation_target`.

    Raises:
        TrainingStopped: after a signal.
    """
    paths = {name: str(path) for name, path in files.items()}
    names = ("validation", "validation_source", "validation_target")
    validation = tuple(paths.pop(name) for name in names if name in paths)
    text = TrainingData.from_dict({**data, **paths, "validation": validation})
    if initial_model:
        config = {**config, "initial_model": str(initial_model)}
    result = train(TrainingConfig.from_dict(config), text, model_dir, resume=True)
    if result.signal is not None:
        raise TrainingStopped(result.signal)
    assert result.best, "only a run that a signal stopped has no best round"
    best = {"updates": result.best.updates, "perplexity": result.best.val_perplexity or result.best.perplexity}
    return {"seconds": result.seconds, **best}


def estimate(text: pathlib.Path, arpa: pathlib.Path, order: int, progress: StageProgress = Progress) -> None:
    """Estimates an n-gram language model; see `estimate_ngrams`."""
    estimate_ngrams(text, arpa, order=order, progress=progress)


def tune_baseline(
    source: pathlib.Path,
    target: pathlib.Path,
    phrase_table: pathlib.Path,
    language_model: pathlib.Path,
    output: pathlib.Path,
    weights: pathlib.Path | None = None,
    progress: StageProgress = Progress,
    **settings: Json,
) -> dict[str, object]:
    """Tunes the decoder, see `tune_decoder`. Writes `weights` and `nbest.gz` into the directory `output`."""
    initial = read_weights(weights) if weights else None
    settings = {**_DECODING, **settings}
    tuning = tune_decoder(
        source, [target], phrase_table, language_model, output, initial, progress=progress, **settings
    )
    shutil.copyfile(tuning.nbest, output / "nbest.gz")
    return {"rounds": len(tuning.rounds), "score": tuning.best.score}


def decode(
    source: pathlib.Path,
    phrase_table: pathlib.Path,
    language_model: pathlib.Path,
    weights: pathlib.Path,
    nbest: pathlib.Path,
    progress: StageProgress = Progress,
    **settings: Json,
) -> dict[str, object]:
    """Translates sentences; see `decode_nbest`."""
    initial, settings = read_weights(weights), {**_DECODING, **settings}
    summary = decode_nbest(source, phrase_table, language_model, nbest, initial, progress=progress, **settings)
    return {"sentences": summary.sentences, "hypotheses": summary.lines, "unknown_words": summary.unknown_words}


def score_table(
    phrase_table: pathlib.Path, model_dir: pathlib.Path, scored: pathlib.Path, progress: StageProgress = Progress
) -> dict[str, object]:
    """Appends two scores to each line of a table: the model's, and exp(number of unknown target words)."""
    return {"lines": score_file(model_dir, phrase_table, scored, unknown_count=True, progress=progress).lines}


def add_table_feature(
    nbest: pathlib.Path,
    source: pathlib.Path,
    phrase_table: pathlib.Path,
    output: pathlib.Path,
    feature: str,
    column: int,
    progress: StageProgress = Progress,
) -> dict[str, object]:
    """Adds the sums of a table's scores over the phrases of each hypothesis; see `add_phrase_features`.

    Args:
        nbest: the list.
        source: the sentences of the list.
        phrase_table: a table with added scores.
        output: the list to write.
        feature: str. Name of the feature.
        column: int. Index of the score in the table, from the end: -1 is the last score.
        progress: see `run_stages`. Defaults to `Progress`.

    Raises:
        InputError: if the phrases of more than `MAX_WITHOUT_PHRASES` of the hypotheses are not in the table.
    """
    number = number_of_scores(phrase_table) + 1 + column
    summary = add_phrase_features(
        nbest, source, phrase_table, output, {feature: [number]}, on_error="keep", progress=progress
    )
    without_phrases = summary.unsegmented + summary.lowest
    if without_phrases + summary.malformed > MAX_WITHOUT_PHRASES * summary.lines:
        output.unlink()
        raise InputError(
            f"found no phrases of {phrase_table} in {without_phrases:,} of {summary.lines:,} hypotheses, and "
            f"{counted(summary.malformed, 'malformed lines')}",
            "expected the table that the list was made with",
            "name that table as phrase_table in [baseline]",
            nbest,
        )
    counts = {"recovered": summary.recovered, "without_phrases": without_phrases, "malformed": summary.malformed}
    return {"lines": summary.lines, **counts}


def score_nbest(
    nbest: pathlib.Path,
    source: pathlib.Path,
    model_dir: pathlib.Path,
    output: pathlib.Path,
    feature: str,
    counts: bool,
    progress: StageProgress = Progress,
) -> dict[str, object]:
    """Adds ln p of each hypothesis to an n-best list, and with `counts` also Unknown0 and Length0."""
    options = ScoringOptions(
        format="nbest", source=str(source), feature_name=feature, unknown_count=counts, length=counts
    )
    summary = score_file(model_dir, nbest, output, options, progress=progress)
    return {"lines": summary.lines, "ngrams": list(map(str, summary.ngrams))}


def tune_row(
    dev_nbest: pathlib.Path,
    dev_target: pathlib.Path,
    test_nbest: pathlib.Path,
    test_target: pathlib.Path,
    weights: pathlib.Path,
    output: pathlib.Path,
    **settings: Json,
) -> dict[str, object]:
    """Tunes the weights with several seeds, and writes the best hypotheses of both lists with each.

    The directory `output` gets `weights.1`, `dev.1`, `test.1` and so on. The first row needs no model, so a test list
    that does not match its references raises an error before any model is trained.

    Returns:
        dict: "dev", the metric on the development set with each seed's weights; "metric", its name; "dev_missing" and
        "test_missing", the numbers of sentences without hypotheses, unless they are 0; and "notices", the warnings of
        the tuning, if there are any.
    """
    options = TuningOptions(all_weights_out=str(output), **settings)
    tuning = tune([dev_nbest], [dev_target], weights, options, test_nbest=[test_nbest], test_references=[test_target])
    warnings: dict[str, object] = {"notices": tuning.notices} if tuning.notices else {}
    for seed in range(1, options.seeds + 1):
        for name, nbest in (("dev", dev_nbest), ("test", test_nbest)):
            reranked = rerank(nbest, output / f"{name}.{seed}", output / f"weights.{seed}", format="text")
            if reranked.missing:
                warnings[f"{name}_missing"] = reranked.missing
    return {"dev": [tuned.score for tuned in tuning.tuned], "metric": tuning.metric, **warnings}


def evaluate_rows(
    dev_target: pathlib.Path,
    test_target: pathlib.Path,
    output: pathlib.Path,
    metric: str,
    seeds: int,
    **rows: pathlib.Path,
) -> None:
    """Writes the scores of all rows, and their differences from the first one, as JSON.

    Args:
        dev_target, test_target: reference translations.
        output: file to write: a dict of "dev" and "test", each `Evaluation.to_dict()`.
        metric: str. Metric of `evaluate`.
        seeds: int. Translations of each row.
        **rows: outputs of `tune_row`, the baseline's first.
    """
    options, evaluations = EvaluationOptions(tokenize="none", unescape=True), {}
    for part, reference in (("dev", dev_target), ("test", test_target)):
        texts = {row: [folder / f"{part}.{seed}" for seed in range(1, seeds + 1)] for row, folder in rows.items()}
        baseline = texts.pop(next(iter(texts)))
        (evaluation,) = evaluate([reference], texts, baseline, [metric], options)
        evaluations[part] = evaluation.to_dict()
    write_json(output, evaluations)
