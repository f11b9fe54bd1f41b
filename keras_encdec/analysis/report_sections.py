"""Computes the sections of a report one after another."""

import concurrent.futures
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from keras_encdec.analysis.gates import has_gates, phrase_gates
from keras_encdec.analysis.page.map_sections import map_section, rare_words_section
from keras_encdec.analysis.page.page import Section
from keras_encdec.analysis.page.score_sections import (
    best_targets,
    best_targets_section,
    bleu_section,
    length_section,
    pair_words,
    sampled_targets,
    samples_section,
    score_section,
)
from keras_encdec.analysis.page.state_sections import (
    attention_section,
    gate_section,
    spelled_words,
    spelled_words_section,
)
from keras_encdec.analysis.page.training_sections import TrainingRun, pruning_section, training_section
from keras_encdec.analysis.report_options import ReportOptions
from keras_encdec.analysis.score_statistics import ScoreComparison, bleu_by_length
from keras_encdec.analysis.table_sample import TablePair, TableSample, read_table_sample
from keras_encdec.analysis.vectors import (
    Vectors,
    length_groups,
    phrase_vectors,
    project,
    rare_word_vectors,
    word_groups,
    word_vectors,
)
from keras_encdec.decoding.text_generator import TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath
from keras_encdec.formats.fields import split_tokens
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.model_config import short_name
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning.pruning_masks import zero_counts, zero_share
from keras_encdec.runtime.progress import counted
from keras_encdec.scoring.pair_scorer import UnknownWords
from keras_encdec.scoring.text_scorer import TextScorer
from keras_encdec.smt.evaluation.corpus_metric import check_lines, read_text
from keras_encdec.text import UNKNOWN

# Number of pairs that are scored together.
WINDOW = 1 << 15
# Maximum numbers of sources, and of their words, for the statistics of gates; number of sources whose gates are shown.
GATE_SOURCES, GATE_WORDS, SHOWN_GATES = 1000, 10_000, 4
# Number of sentences whose attention is shown, and their numbers of words.
SHOWN_ATTENTION, ATTENTION_WORDS = 6, range(4, 19)
# Maximum number of rare words that are compared.
RARE_WORDS = 2000
WORDS = "The embeddings of the {} most frequent source words. Words that are used in similar ways lie near one another."
PHRASES = (
    "The encoder’s summaries of {} source phrases of four words or more, from which the decoder starts. Phrases with a "
    "similar meaning or form lie near one another."
)
# A model with at least this share of zeros is a pruned one. Others have a few zeros by chance.
MIN_PRUNED = 0.001


class ReportSections:
    """Computes the sections of a report.

    Args:
        directory: ModelDirectory of a model of p(target | source).
        options: ReportOptions.
        say: function that is called with a line when a step begins.

    Attributes:
        facts: dict from name to number or str: facts about the model and the data so far.
        notices: list of str: sentences for the user so far.
    """

    def __init__(self, directory: ModelDirectory, options: ReportOptions, say: Callable[[str], None]) -> None:
        self._directory, self._options, self._say = directory, options, say
        self.notices: list[str] = []
        model = directory.model
        self.facts: dict[str, str | int] = {
            "Model directory": short_name(directory.path),
            "Model": type(model).__name__,
            "Weights": model.count_params(),
            "Source words": len(directory.source_vocabulary),
            "Target words": len(directory.target_vocabulary),
        }
        self._scorer = TextScorer(directory)
        self._generator = TextGenerator([directory])

    def sections(
        self,
        phrase_table: FilePath | None,
        source: FilePath | None,
        target: FilePath | None,
        runs: Sequence[TrainingRun],
    ) -> Iterator[Section]:
        """Yields the sections in order, without those whose input is `None`."""
        options, sample = self._options, None
        sentences, references = self._sentences(source, target)
        if phrase_table is not None:
            self._say(f"Reading {phrase_table}.")
            sample = read_table_sample(
                phrase_table, options.pairs, options.map_phrases, options.phrases, options.seed, options.encoding
            )
            self.facts["Pairs of the table"] = sample.num_pairs
            self._check_words(pair_words(sample.pairs[:WINDOW]), sample.path)
        # t-SNE is slow and uses a single processor, so it runs in a thread during the other steps. After an error, the
        # report does not wait for it.
        executor = concurrent.futures.ThreadPoolExecutor(1)
        try:
            maps = [(*each, executor.submit(project, each[-1].array, options.seed)) for each in self._maps(sample)]
            chosen = sample.choose_phrases(options.phrases_per_kind, options.seed) if sample else {}
            if sample:
                yield from self._table_sections(sample, chosen)
            if source is not None:
                yield from self._sentence_sections(sentences, references, source)
            yield from self._gate_sections(sample, chosen, sentences)
            for name, title, introduction, vectors, points in maps:
                self._say(f"Drawing the map of {name}.")
                grouped = word_groups if name == "words" else length_groups
                yield map_section(name, title, introduction, vectors, points.result(), grouped(vectors.names))
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
        counts = zero_counts(self._directory.model)
        if zero_share(counts) >= MIN_PRUNED:
            yield pruning_section(counts)
        if runs:
            yield training_section(runs)

    def _sentences(self, source: FilePath | None, target: FilePath | None) -> tuple[list[str], list[str] | None]:
        if source is None:
            return [], None
        sentences = read_text(source, self._options.encoding)
        references = None
        if target is not None:
            references = read_text(target, self._options.encoding)
            check_lines(target, len(references), source, len(sentences))
        self.facts["Sentences"] = len(sentences)
        return sentences, references

    def _maps(self, sample: TableSample | None) -> Iterator[tuple[str, str, str, Vectors]]:
        """Yields the vectors to project to two dimensions, with the other arguments of `map_section`."""
        words = word_vectors(self._directory, self._options.map_words)
        if words is not None and len(words.names) > 1:
            yield "words", "Word embeddings (Figure 4)", WORDS.format(f"{len(words.names):,}"), words
        if sample is not None and len(sample.phrases) > 1:
            phrases = phrase_vectors(self._directory, sample.phrases)
            share = "all" if len(phrases.names) == sample.num_phrases else f"{len(phrases.names):,} of the"
            introduction = PHRASES.format(f"{share} {sample.num_phrases:,}")
            yield "phrases", "Phrase summaries (Figures 5 to 7)", introduction, phrases

    def _table_sections(
        self, sample: TableSample, chosen: Mapping[str, Sequence[Sequence[TablePair]]]
    ) -> Iterator[Section]:
        options = self._options
        self._say("Scoring and sampling targets of phrases.")
        yield best_targets_section({kind: best_targets(self._scorer, phrases) for kind, phrases in chosen.items()})
        sources = {kind: [lines[0].source for lines in phrases] for kind, phrases in chosen.items()}
        yield samples_section(
            {
                kind: sampled_targets(self._generator, phrases, options.samples, options.seed)
                for kind, phrases in sources.items()
            }
        )
        self._say(f"Scoring {counted(len(sample.pairs), 'pairs')}.")
        parts, lengths = [], []
        for start in range(0, len(sample.pairs), WINDOW):
            words = pair_words(sample.pairs[start : start + WINDOW])
            parts.append(self._scorer.score(words))
            lengths += [(len(source), len(target)) for source, target in words]
        scores = np.concatenate(parts)
        yield score_section(ScoreComparison.of(sample.pairs, scores), sample.num_pairs)
        seen = [pair.occurrences for pair in sample.pairs]
        yield length_section("lengths", "pairs of the table", lengths, scores, seen)

    def _sentence_sections(
        self, sentences: Sequence[str], references: Sequence[str] | None, source: FilePath
    ) -> Iterator[Section]:
        words = self._directory.words(sentences)
        if references is not None:
            read = self._directory.words(references)
            pairs = list(zip(words, read, strict=True))
            self._check_words(pairs, source)
            self._say(f"Scoring and translating {counted(len(sentences), 'sentences')}.")
            lengths = [(len(source_words), len(target_words)) for source_words, target_words in pairs]
            yield length_section("sentence-lengths", "sentences", lengths, self._scorer.score(pairs))
            best = [hypotheses[0].words for hypotheses in self._generator.generate(sentences)]
            yield bleu_section(*bleu_by_length(list(map(len, words)), _joined(best), _joined(read)))
            if self._generator.spells_words:
                yield spelled_words_section(spelled_words(self._directory, best, read))
        if self._directory.source_vocabulary.characters is not None:
            self._say("Reading rare words.")
            known = set(self._directory.source_vocabulary.words)
            rare = sorted({word for sentence in words for word in sentence if word not in known})
            shown = _sample(rare, RARE_WORDS, f"rare words {self._options.seed}")
            vectors = word_vectors(self._directory, self._options.map_words)
            if shown and vectors is not None:
                yield rare_words_section(vectors.with_others(rare_word_vectors(self._directory, shown)), len(shown))
        if self._generator.has_attention:
            self._say("Drawing attention.")
            fitting = [line for line, split in zip(sentences, words, strict=True) if len(split) in ATTENTION_WORDS]
            shown = _sample(fitting, SHOWN_ATTENTION, f"attention {self._options.seed}")
            translations = self._generator.generate(shown, with_attention=True)
            if translations:
                yield attention_section([hypotheses[0] for hypotheses in translations])

    def _gate_sections(
        self, sample: TableSample | None, chosen: Mapping[str, Sequence[Sequence[TablePair]]], sentences: Sequence[str]
    ) -> Iterator[Section]:
        if not has_gates(self._directory):
            return
        sources = list(dict.fromkeys(pair.source for pair in sample.pairs)) if sample else sentences
        corpus = _sample(sources, GATE_SOURCES, f"gates {self._options.seed}")
        phrases = [lines[0].source for kind in chosen.values() for lines in kind[: -(-SHOWN_GATES // len(chosen))]]
        if corpus:
            self._say("Computing the gates.")
            max_sources = max(1, GATE_WORDS // max(len(split_tokens(phrase)) + 1 for phrase in corpus))
            gates, factored = phrase_gates(self._directory, corpus[:max_sources], factored=sample is not None), True
            if not phrases:  # there is no table, or it has no long phrases
                others = sentences or sorted(sources, key=lambda phrase: len(split_tokens(phrase)))[-SHOWN_GATES:]
                phrases = _sample(others, SHOWN_GATES, f"shown {self._options.seed}")
                factored = not sentences
            yield gate_section(phrase_gates(self._directory, phrases, factored), gates)

    def _check_words(self, pairs: Sequence[WordPair], path: FilePath) -> None:
        """Raises InputError if the model knows no word of the pairs; adds a notice if it knows few."""
        vocabularies = self._directory.source_vocabulary, self._directory.target_vocabulary
        for side, (name, vocabulary) in enumerate(zip(("source", "target"), vocabularies, strict=True)):
            if vocabulary.characters is not None:
                continue  # the model reads and spells all words
            ids = [vocabulary.encode(pair[side])[:-1] for pair in pairs]
            counts = UnknownWords("model", name, sum(map(len, ids)), sum(phrase.count(UNKNOWN) for phrase in ids))
            if counts.words and counts.unknown == counts.words:
                expected = "expected text of the model's languages and tokenization"
                remedy = "check that source and target are not swapped, and check --model_dir"
                raise InputError(f"found no {name} word that the model knows", expected, remedy, path)
            if counts.is_high:
                self.notices.append(
                    f"Most {name} words of {path} are unknown to the model ({100 * counts.share:.0f} %), so its "
                    "scores mean little: check the language, the letter case and the tokenization of the text."
                )


def _sample(items: Sequence[str], size: int, seed: str) -> list[str]:
    return random.Random(seed).sample(items, min(size, len(items)))


def _joined(sentences: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(words) for words in sentences]
