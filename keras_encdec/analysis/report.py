"""The report: the paper's tables and figures, from a user's own model."""

import concurrent.futures
import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from keras_encdec.analysis.best_targets import best_targets, pair_scores
from keras_encdec.analysis.drawing.style import drawing_style
from keras_encdec.analysis.page.page import page
from keras_encdec.analysis.page.section import Section
from keras_encdec.analysis.projection import project
from keras_encdec.analysis.report_files import report_folder, write_page, write_section
from keras_encdec.analysis.sampled_targets import sampled_targets
from keras_encdec.analysis.score_comparison import ScoreComparison
from keras_encdec.analysis.sections.map_section import map_section
from keras_encdec.analysis.sections.score_section import score_section
from keras_encdec.analysis.sections.target_sections import best_targets_section, samples_section
from keras_encdec.analysis.table_sample import TablePair, TableSample, read_table_sample
from keras_encdec.analysis.vectors import Vectors, phrase_vectors, word_vectors
from keras_encdec.decoding.text_generator import TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring.text_scorer import TextScorer
from keras_encdec.scoring.unknown_words import UnknownWords
from keras_encdec.text import UNKNOWN

# Pairs that are scored together.
WINDOW = 1 << 15
WORDS = "<p>The embeddings of the {} most frequent source words: words that are used alike lie near one another.</p>"
PHRASES = (
    "<p>What the decoder knows of a source phrase, its encoder’s summary: {} source phrases of four words or more. "
    "Phrases that mean or look alike lie near one another.</p>"
)


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """How much a report shows.

    Attributes:
        phrases: tuple of str. Source phrases, without Moses's escapes, to show instead of those that are drawn.
        phrases_per_kind: int. Frequent phrases, and rare ones, of Tables 2 and 3.
        samples: int. Samples of each phrase.
        pairs: int. Pairs of the table that are scored, at most.
        map_words: int. Most frequent source words of the map of words.
        map_phrases: int. Source phrases of the map of phrases, which are drawn.
        seed: int. Of all that is drawn.
        encoding: str. Of text and table; `None` is UTF-8.
    """

    phrases: tuple[str, ...] = ()
    phrases_per_kind: int = 5
    samples: int = 50
    pairs: int = 100_000
    map_words: int = 2000
    map_phrases: int = 5000
    seed: int = 0
    encoding: str | None = None


@dataclasses.dataclass(frozen=True)
class ReportSummary:
    """What `report` did.

    Attributes:
        page: pathlib.Path. The page.
        sections: tuple of str, names of its sections.
        seconds: float.
        notices: tuple of str, what the user is to know.
    """

    page: pathlib.Path
    sections: tuple[str, ...]
    seconds: float
    notices: tuple[str, ...]

    def __str__(self) -> str:
        size = self.page.stat().st_size / 1e6
        return f"Report of {len(self.sections)} sections in {self.seconds:.1f} s, a page of {size:.1f} MB: {self.page}"


def report(
    model_dir: FilePath | ModelDirectory,
    output: FilePath,
    phrase_table: FilePath | None = None,
    options: ReportOptions | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> ReportSummary:
    """Writes the paper's tables and figures of a model: an HTML page, figures as PNG and SVG, tables as TSV.

    Args:
        model_dir: directory of a model of p(target | source), or a loaded ModelDirectory.
        output: folder to write; files of an earlier report in it are replaced.
        phrase_table: phrase table of the model's languages, plain or gzipped. Optional.
        options: ReportOptions. Defaults to `ReportOptions()`.
        say: callable of str, told of each step as it begins. Defaults to silence.

    Returns:
        ReportSummary.

    Raises:
        ImportError: when the extra `analysis` is not installed.
        InputError: when the model or the table cannot be used, or the folder cannot be written.

    Example:

        print(report("model", "report", "phrase-table.gz"))
    """
    start, options = time.monotonic(), options or ReportOptions()
    directory = model_dir if isinstance(model_dir, ModelDirectory) else ModelDirectory.load(model_dir)
    directory.check_direction(False, "--model_dir")
    if not directory.model.has_source:
        raise InputError(
            "found a language model", "expected a model of p(target | source)", "check --model_dir", directory.path
        )
    folder, job = report_folder(output), _Report(directory, options, say)
    sections = []
    with drawing_style():
        for section in job.sections(phrase_table):
            write_section(folder, section)
            # The figures are in their files: no more is kept of them than the page needs.
            sections.append(dataclasses.replace(section, pictures=dict.fromkeys(section.pictures)))
    path = write_page(folder, page("What the model has learned", job.facts, job.notices, sections))
    names = tuple(section.name for section in sections)
    return ReportSummary(path, names, time.monotonic() - start, tuple(job.notices))


class _Report:
    """The sections of one report, and what is found on the way."""

    def __init__(self, directory: ModelDirectory, options: ReportOptions, say: Callable[[str], None]) -> None:
        self.directory, self.options, self.say = directory, options, say
        self.notices: list[str] = []
        model = directory.model
        self.facts = {
            "Model directory": directory.path.name,
            "Model": type(model).__name__,
            "Weights": int(sum(np.prod(weight.shape) for weight in model.weights)),
            "Source words": len(directory.source_vocabulary),
            "Target words": len(directory.target_vocabulary),
        }
        self.scorer = TextScorer(directory)
        self.generator = TextGenerator([directory])

    def sections(self, phrase_table: FilePath | None) -> Iterator[Section]:
        options, sample = self.options, None
        if phrase_table is not None:
            self.say(f"Reading {phrase_table}.")
            sample = read_table_sample(
                phrase_table, options.pairs, options.map_phrases, options.phrases, options.seed, options.encoding
            )
            self.facts["Pairs of the table"] = sample.num_pairs
            self._check_words(sample)
        # t-SNE takes one processor, and longer than all else: it runs beside the rest.
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            maps = [(*one, executor.submit(project, one[-1].array, options.seed)) for one in self._maps(sample)]
            if sample is not None:
                yield from self._table_sections(sample)
            for *described, points in maps:
                self.say(f"Drawing the map of {described[3]}.")
                yield map_section(*described, points.result())

    def _maps(self, sample: TableSample | None) -> Iterator[tuple[str, str, str, str, Vectors]]:
        """What is projected to two dimensions: arguments of `map_section`."""
        words = word_vectors(self.directory, self.options.map_words)
        if len(words.names) > 1:
            yield "words", "Word embeddings (Figure 4)", WORDS.format(f"{len(words.names):,}"), "words", words
        if sample is not None and len(sample.phrases) > 1:
            phrases = phrase_vectors(self.directory, sample.phrases)
            drawn = "all" if len(phrases.names) == sample.num_phrases else f"{len(phrases.names):,} of the"
            said = PHRASES.format(f"{drawn} {sample.num_phrases:,}")
            yield "phrases", "Phrase summaries (Figures 5 to 7)", said, "phrases", phrases

    def _table_sections(self, sample: TableSample) -> Iterator[Section]:
        options = self.options
        self.say(f"Scoring {len(sample.pairs):,} pairs.")
        comparison = ScoreComparison.of(sample.pairs, self._scores(sample.pairs))
        chosen = sample.choose_phrases(options.phrases_per_kind, options.seed)
        self.say("Scoring and drawing targets of phrases.")
        preferences = {kind: best_targets(self.scorer, phrases) for kind, phrases in chosen.items()}
        yield best_targets_section(preferences)
        sources = {kind: [lines[0].source for lines in phrases] for kind, phrases in chosen.items()}
        drawn = {
            kind: sampled_targets(self.generator, phrases, options.samples, options.seed)
            for kind, phrases in sources.items()
        }
        yield samples_section(drawn)
        yield score_section(comparison, sample.num_pairs)

    def _check_words(self, sample: TableSample) -> None:
        """Raises InputError where the model knows no word of the table, and notes where it knows few."""
        words = self.scorer.all_words(_texts(sample.pairs[:WINDOW]), factored=True)
        vocabularies = self.directory.source_vocabulary, self.directory.target_vocabulary
        for side, (name, vocabulary) in enumerate(zip(("source", "target"), vocabularies, strict=True)):
            ids = [vocabulary.encode(pair[side])[:-1] for pair in words]
            counts = UnknownWords("model", name, sum(map(len, ids)), sum(one.count(UNKNOWN) for one in ids))
            if counts.words and counts.unknown == counts.words:
                raise InputError(
                    f"found no {name} word that the model knows", "expected a table of the model's languages and "
                    "tokenization", "check which side is which, and --model_dir", sample.path,
                )  # fmt: skip
            if counts.is_high:
                self.notices.append(
                    f"Most {name} words are unknown to the model ({100 * counts.share:.0f} %), and its scores mean "
                    "little then: check the languages of the table and how its text is tokenized."
                )

    def _scores(self, pairs: Sequence[TablePair]) -> np.ndarray:
        parts = [pairs[start : start + WINDOW] for start in range(0, len(pairs), WINDOW)]
        return np.concatenate([pair_scores(self.scorer, part) for part in parts])


def _texts(pairs: Sequence[TablePair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]
