"""Sequence-level knowledge distillation: a small model learns the translations of a large one or of an ensemble."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_encdec.decoding import BeamSampler, GreedySampler, generate_file
from keras_encdec.decoding.generation_options import GenerationOptions
from keras_encdec.errors import FilePath, InputError
from keras_encdec.experiment import stage_functions
from keras_encdec.experiment.distillation_options import (
    TEXTS,
    DistillationOptions,
    check_bleu,
    check_student,
    check_teachers,
    check_test_sets,
)
from keras_encdec.experiment.stage_runner import (
    RECORDS,
    Stage,
    StageProgress,
    StageResult,
    check_outputs,
    made_before,
    result_folder,
    run_stages,
)
from keras_encdec.formats import escape
from keras_encdec.formats.encodings import FileEncoding, without_mark
from keras_encdec.formats.fields import split_tokens
from keras_encdec.formats.nbest import SentenceHypotheses, hypotheses_by_sentence
from keras_encdec.model_average import average_models
from keras_encdec.model_config import model_path
from keras_encdec.runtime.files import as_result, check_can_be_read_again, check_lists, joined, remove
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_output, open_outputs, write_file
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.remote_folders import LocalFiles
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric, check_lines, read_text
from keras_encdec.smt.evaluation.evaluate import BASELINE, EvaluationOptions, evaluate
from keras_encdec.text.lexical_shortlist import read_dictionary
from keras_encdec.text.vocabulary import UNKNOWN_WORD
from keras_encdec.trained_model import TrainedModel, can_replace_unknown
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

# Sentences in a shard of the translation, so that a killed translation can continue.
SHARD_LINES = 2048
# The unknown word as n-best lists have it.
_UNKNOWN = escape(UNKNOWN_WORD).encode()


@dataclasses.dataclass(frozen=True)
class DistillationResult:
    """The result of `distill`.

    Attributes:
        student: pathlib.Path of the student's model directory; if it is remote, its URL, a str.
        text: path or URL of the translations that the student learned from, one per line. If these are several of each
            sentence, the file `train.source` next to it has the sentence of each line.
        stages: list of StageResult.
        scores: dict from "teacher" (beam) and "student" (greedy) to BLEU on the test set; empty without one.
    """

    student: FilePath
    text: FilePath
    stages: Sequence[StageResult]
    scores: Mapping[str, float]


def distill(
    model_dirs: Sequence[FilePath],
    source: FilePath,
    target: FilePath,
    output: FilePath,
    options: DistillationOptions | None = None,
    *,
    dev_source: FilePath | None = None,
    dev_target: FilePath | None = None,
    test_source: FilePath | None = None,
    test_target: FilePath | None = None,
    begun: Callable[[Stage, int], object] = lambda stage, number_of_stages: None,
    ended: Callable[[StageResult], object] = lambda result: None,
    progress: StageProgress = Progress,
    training: Mapping[str, object] | None = None,
    model: Mapping[str, object] | None = None,
    **values: object,
) -> DistillationResult:
    """Trains a student on the teachers' translations of the training text.

    The teachers translate the source sentences by beam search. The student is trained on the source sentences and these
    translations, and translates by greedy search. Every stage leaves a record in `output`; a second call runs only the
    stages whose inputs or settings have changed since, and continues interrupted ones.

    Args:
        model_dirs: model directories of the teacher, or of an ensemble of teachers.
        source, target: sentences of the training text, and their reference translations, plain or gzipped.
        output: directory to write to, made if it is missing. It contains the n-best list `nbest.gz`, and the chosen
            translations `train.target`; with several of each sentence, also the source of each line, `train.source`. If
            the first student learns one translation of each sentence and the others several, `first.target` has the
            translations for the first. The model is `student`; of several students, it is the average of `student1`,
            `student2` and so on. With a test set, there are the translations `teacher.test` and `student.test`, and
            their BLEU, `evaluation.txt`. Models of an earlier run with other options are kept; texts that do not belong
            to this run are removed.
        options: DistillationOptions. Defaults to `None`: the defaults.
        dev_source, dev_target: sentences and references to validate the student on. Defaults to `None`: pairs are held
            out of the training text.
        test_source, test_target: sentences and references on which teachers and student are compared. Defaults to
            `None`: no comparison.
        begun: function that is called with a Stage and the number of all stages before each stage that runs. Defaults
            to one that does nothing.
        ended: function that is called with a StageResult after each stage. Defaults to one that does nothing.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        training, model: dicts. Hyper-parameters that override the preset's. Defaults to none.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError, InputError: if settings or files cannot be used.
        ImportError: if sacrebleu is missing where it is needed.
        TrainingStopped: if a signal stopped the training.

    Example:

        distill(["teacher"], "train.en", "train.fr", "distilled", keep="closest")

    Reference:
        - Kim and Rush, 2016, "Sequence-Level Knowledge Distillation" (arXiv 1606.07947)
        - Wortsman et al., 2022, "Model soups" (arXiv 2203.05482): the average of several students
    """
    options = DistillationOptions.combined(options, values)
    check_lists(model_dirs=model_dirs)
    given = source, target, dev_source, dev_target, test_source, test_target
    files = dict(zip(TEXTS, given, strict=True))
    check_test_sets(files)
    for path in (*given, options.dictionary):
        if path is not None:
            check_can_be_read_again(path)
    with (
        result_folder(output, "distillation", ended) as (folder, ended_and_saved),
        LocalFiles({output: folder}) as local,
    ):
        texts = {name: pathlib.Path(local.path(path)) for name, path in files.items() if path is not None}
        _check_lines(texts)
        if options.dictionary:
            texts["dictionary"] = pathlib.Path(local.path(options.dictionary))
            read_dictionary(texts["dictionary"], can_declare=False)  # before the first stage, for its errors
        teachers = [model_path(local.in_staged(path)) for path in model_dirs]
        check_teachers(teachers, options)
        config = options.training_config(teachers, training, model)
        check_student(config, options.preset)
        check_bleu(config, options, files)
        stages = _stages(teachers, texts, folder, options, config)
        check_outputs(stages, folder / RECORDS)
        _remove_other_texts(folder, stages)
        results = run_stages(stages, folder / RECORDS, begun, ended_and_saved, progress)
    scores = dict(results[-1].result) if test_source is not None else {}
    student, text = (as_result(joined(output, name)) for name in ("student", "train.target"))
    return DistillationResult(student, text, results, scores)


def _check_lines(texts: Mapping[str, pathlib.Path]) -> None:
    """Raises InputError, before the first stage, unless each text is UTF-8 and has as many sources as targets."""
    encoding = FileEncoding(can_declare=False)
    for source, target in zip(TEXTS[::2], TEXTS[1::2], strict=True):
        if source in texts and target in texts:
            numbers = []
            for path in (texts[source], texts[target]):
                with InputLines(path) as lines:
                    numbers.append(sum(1 for _ in encoding.texts(lines)))
            check_lines(texts[target], numbers[1], texts[source], numbers[0])


def _stages(
    teachers: Sequence[pathlib.Path],
    texts: Mapping[str, pathlib.Path],
    folder: pathlib.Path,
    options: DistillationOptions,
    config: TrainingConfig,
) -> list[Stage]:
    """Plans the stages, each after those that it depends on."""
    models = {f"teacher_{number}": path for number, path in enumerate(teachers, start=1)}
    shared = {"dictionary": texts["dictionary"]} if "dictionary" in texts else {}
    # `None` for a former setting, so that translations made by earlier versions are still up to date.
    generation = {"replace_unknown": options.replace_unknown, "dictionary": None}
    search = {"num_beams": options.num_beams, "length_penalty": options.length_penalty, **generation}
    nbest, student = folder / "nbest.gz", folder / "student"
    choice = _choice(options, texts, nbest, folder)
    pairs = {"source": choice.outputs.get("train_source", texts["source"]), "target": choice.outputs["output"]}
    first_pairs = {"source": texts["source"], "target": choice.outputs["first"]} if options.first_learns_one else pairs
    validation = {f"validation_{side}": texts[f"dev_{side}"] for side in ("source", "target") if f"dev_{side}" in texts}
    num_best = options.num_beams if options.keep == "closest" else options.translations
    stages = [
        Stage(
            "translate",
            translate_nbest,
            {"source": texts["source"], **models, **shared},
            {"nbest": nbest},
            {**search, "num_best": num_best, "number_of_processes": None},
            {"number_of_processes": options.number_of_processes},
        ),
        choice,
        *_training_stages(options, config, {**first_pairs, **validation}, {**pairs, **validation}, student),
    ]
    if "test_source" in texts:
        translated = {name: folder / f"{name}.test" for name in ("teacher", "student")}
        test = {"source": texts["test_source"], **shared}
        stages += [
            Stage("translate-teacher", translate, {**test, **models}, {"output": translated["teacher"]}, search),
            Stage(
                "translate-student",
                translate,
                {**test, "student": student},
                {"output": translated["student"]},
                {"num_beams": 1, **generation},
            ),
            Stage(
                "evaluate",
                evaluate_translations,
                {"reference": texts["test_target"], **translated},
                {"output": folder / "evaluation.txt"},
            ),
        ]
    return stages


# Texts that only some options make: the stage and its output.
_OPTIONAL_TEXTS = {
    "train.source": ("choose", "train_source"),
    "first.target": ("choose", "first"),
    "teacher.test": ("translate-teacher", "output"),
    "student.test": ("translate-student", "output"),
    "evaluation.txt": ("evaluate", "output"),
}


def _remove_other_texts(folder: pathlib.Path, stages: Sequence[Stage]) -> None:
    """Removes texts of an earlier run with other options, which would contradict the results of these stages."""
    outputs = {path for stage in stages for path in stage.outputs.values()}
    inputs = {os.path.realpath(path) for stage in stages for path in stage.inputs.values()}
    optional = [(stage, output, folder / name) for name, (stage, output) in _OPTIONAL_TEXTS.items()]
    for path in made_before(optional, folder / RECORDS):
        if path not in outputs and os.path.realpath(path) not in inputs:
            remove(path)
    for stage in {"translate-teacher", "translate-student", "evaluate"} - {stage.name for stage in stages}:
        # Without its record, the stage no longer owns its output path: a file that the user puts there is kept.
        remove(folder / RECORDS / f"{stage}.json")


def _choice(
    options: DistillationOptions, texts: Mapping[str, pathlib.Path], nbest: pathlib.Path, folder: pathlib.Path
) -> Stage:
    """Plans the choice among the teachers' translations."""
    inputs, outputs = {"nbest": nbest, "target": texts["target"]}, {"output": folder / "train.target"}
    if options.translations == 1:
        # Leaves out what only several translations need, so that results of earlier versions are still up to date.
        return Stage("choose", choose, inputs, outputs, {"keep": options.keep})
    if options.first_learns_one:
        outputs["first"] = folder / "first.target"
    return Stage(
        "choose",
        choose,
        {**inputs, "source": texts["source"]},
        {**outputs, "train_source": folder / "train.source"},
        {"keep": options.keep, "translations": options.translations},
    )


def _training_stages(
    options: DistillationOptions,
    config: TrainingConfig,
    first_files: Mapping[str, pathlib.Path],
    files: Mapping[str, pathlib.Path],
    student: pathlib.Path,
) -> list[Stage]:
    """Plans the training of the student, or of several students and their average.

    The first student learns from `first_files`, by the arguments of `train_model`, the others from `files`.
    """
    data = TrainingData.from_preset(options.preset).without_files().to_dict()

    def training(
        name: str, model_dir: pathlib.Path, config: TrainingConfig, inputs: Mapping[str, pathlib.Path]
    ) -> Stage:
        if config.initial_model:
            # As an input, so that its content counts and not its path: each run copies a remote model to a new path.
            inputs = {"initial_model": model_path(config.initial_model), **inputs}
        settings = {"config": {**config.to_dict(), "initial_model": None}, "data": data}
        return Stage(name, stage_functions.train_model, inputs, {"model_dir": model_dir}, settings)

    if options.students == 1:
        return [training("train", student, config, first_files)]
    first, *others = (student.with_name(f"{student.name}{number}") for number in range(1, options.students + 1))
    # As an input, so that the others are trained again when the first one has changed.
    inputs = files if options.from_teacher else {**files, "initial_model": first}
    stages = [training("train-1", first, config, first_files)]
    for number, path in enumerate(others, start=2):
        stages.append(training(f"train-{number}", path, options.further_config(config, number), inputs))
    students = {f"student_{number}": path for number, path in enumerate([first, *others], start=1)}
    return [*stages, Stage("average", average, students, {"model_dir": student})]


def average(model_dir: pathlib.Path, **students: pathlib.Path) -> dict[str, object]:
    """Writes the average of the students; see `average_models`."""
    remove(model_dir)  # a killed run may have left a model without a record
    return {"cosine": average_models(list(students.values()), model_dir).cosine}


def translate_nbest(
    source: pathlib.Path,
    nbest: pathlib.Path,
    num_beams: int,
    num_best: int,
    length_penalty: float,
    number_of_processes: int | None = None,
    replace_unknown: bool = False,
    dictionary: str | None = None,
    progress: StageProgress = Progress,
    **teachers: pathlib.Path,
) -> dict[str, object]:
    """Translates the training text into an n-best list, in shards, so that an interrupted translation can continue."""
    options = GenerationOptions(
        format="moses_nbest",
        shard_lines=SHARD_LINES,
        number_of_processes=number_of_processes,
        replace_unknown=replace_unknown,
        dictionary=dictionary,
    )
    sampler = BeamSampler(num_beams, num_best=num_best, length_penalty=length_penalty)
    return {
        "sentences": generate_file(list(teachers.values()), source, nbest, sampler, options, progress=progress).lines
    }


def translate(
    source: pathlib.Path,
    output: pathlib.Path,
    num_beams: int,
    length_penalty: float = 0.0,
    replace_unknown: bool = False,
    dictionary: str | None = None,
    progress: StageProgress = Progress,
    **models: pathlib.Path,
) -> dict[str, object]:
    """Writes the best translation of each sentence. With one beam, the search is greedy.

    Unknown words are replaced only if the models can: a student may have no attention, or spell its unknown words.
    """
    sampler = GreedySampler() if num_beams == 1 else BeamSampler(num_beams, length_penalty=length_penalty)
    trained = [TrainedModel.read(path) for path in models.values()]
    findable = any(model.has_attention for model in trained), trained[0].has_position_words
    if replace_unknown and not can_replace_unknown(*findable, trained[0].spells_words):
        replace_unknown, dictionary = False, None
    options = GenerationOptions(replace_unknown=replace_unknown, dictionary=dictionary, escape=True)
    return {
        "sentences": generate_file(list(models.values()), source, output, sampler, options, progress=progress).lines
    }


def choose(
    nbest: pathlib.Path,
    target: pathlib.Path,
    output: pathlib.Path,
    keep: str,
    translations: int = 1,
    source: pathlib.Path | None = None,
    train_source: pathlib.Path | None = None,
    first: pathlib.Path | None = None,
) -> dict[str, object]:
    """Writes hypotheses of each sentence: the best, or the closest to the reference by smoothed sentence BLEU.

    A sentence with fewer hypotheses than requested has fewer lines; one without hypotheses has an empty line.

    Args:
        nbest: n-best list of the sentences.
        target: their references.
        output: file to write the hypotheses to, one per line.
        keep: str, "best" or "closest".
        translations: int. Number of hypotheses of each sentence. Defaults to `1`.
        source: the sentences. Defaults to `None`: only needed for `train_source`.
        train_source: file to write the sentence of each line of `output` to. Defaults to `None`: it is not written.
        first: file to write only the first line of each sentence in `output` to. Defaults to `None`: it is not written.

    Raises:
        InputError: if a file cannot be read, does not have as many sentences as the references, or has no words but
            unknown ones.
    """
    references = read_text(target, unescaped=True)
    metric = CorpusMetric("bleu", [references]) if keep == "closest" else None
    lines_of_sentence: list[int] = []
    closer, has_words = 0, False
    with InputLines(nbest) as lines, open_outputs([output, *([first] if first else [])]) as (file, *first_files):
        for sentence in hypotheses_by_sentence(lines):
            order = _order(sentence, metric, nbest)
            chosen = [sentence.hypotheses[index].parsed.hypothesis for index in order[:translations]]
            closer += int(order[0] > 0)
            has_words = has_words or any(set(split_tokens(hypothesis)) - {_UNKNOWN} for hypothesis in chosen)
            file.write(b"\n" * sentence.missing + b"".join(hypothesis + b"\n" for hypothesis in chosen))
            for first_file in first_files:
                first_file.write(b"\n" * sentence.missing + chosen[0] + b"\n")
            lines_of_sentence += [1] * sentence.missing + [len(chosen)]
    check_lines(nbest, len(lines_of_sentence), target, len(references))
    if not has_words:
        found, expected = "found only empty translations and unknown words", "expected words for a student to learn"
        raise InputError(found, expected, "check the teachers, or replace unknown words with --replace_unknown", nbest)
    if source and train_source:
        _write_repeated(source, lines_of_sentence, train_source)
    return {"sentences": len(lines_of_sentence), "other_than_best": closer}


def _order(sentence: SentenceHypotheses, metric: CorpusMetric | None, nbest: pathlib.Path) -> Sequence[int]:
    """Returns the indices of a sentence's hypotheses, the closest to its reference first; without a metric in order."""
    if metric is None or sentence.id >= metric.sentences:
        return range(len(sentence.hypotheses))
    encoding = FileEncoding(None)
    texts = [" ".join(hypothesis.words(encoding, nbest)) for hypothesis in sentence.hypotheses]
    counts = np.stack([metric.counts(sentence.id, text) for text in texts])
    order: list[int] = np.argsort(-metric.sentence_scores(counts), kind="stable").tolist()
    return order


def _write_repeated(source: pathlib.Path, times: Sequence[int], output: pathlib.Path) -> None:
    """Writes each line of a file as many times as given."""
    with InputLines(source) as lines, open_output(output) as file:
        for line, number in zip(lines, times, strict=True):
            # A byte-order mark belongs only to the beginning of a file.
            file.write((without_mark(line, lines.line_number) + b"\n") * number)


def evaluate_translations(
    reference: pathlib.Path, output: pathlib.Path, teacher: pathlib.Path, student: pathlib.Path
) -> dict[str, float]:
    """Computes BLEU of the teachers' and the student's translations of the test set."""
    options = EvaluationOptions(tokenize="none", unescape=True)
    (evaluation,) = evaluate([reference], {"student": [student]}, [teacher], ["bleu"], options)
    write_file(output, f"{evaluation}\n".encode())
    return {system.system.replace(BASELINE, "teacher"): system.mean for system in evaluation.systems}
