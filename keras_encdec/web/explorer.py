"""Computes the responses of the page's API, about a model."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from keras_encdec import __version__
from keras_encdec.analysis.gates import END_OF_SEQUENCE, has_gates, phrase_gates
from keras_encdec.data.batches import WIDTH_STEP
from keras_encdec.decoding.beam_sampler import BeamSampler
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.text_generator import TextGenerator
from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats import escape
from keras_encdec.model_config import short_name
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring.text_scorer import TextScorer
from keras_encdec.text.vocabulary import UNKNOWN, Vocabulary
from keras_encdec.trained_model import check_has_source
from keras_encdec.web.endpoints import BEAMS, BEST, BEST_SAMPLES, JSON, NEIGHBOURS, SAMPLES, RequestLimits
from keras_encdec.web.neighbourhood import Neighbourhood

#: A JSON object: the body of a response, or a part of it.
JSONObject: TypeAlias = dict[str, JSON]

# Number of example phrases on the page, and their numbers of words.
EXAMPLES, EXAMPLE_WORDS = 4, range(3, 8)
# Maximum number of units in a response about gates.
MAX_UNITS = 512


class Explorer:
    """Computes the bodies of responses about a model, dicts for JSON.

    The text that the model reads is called the source, and the text that it predicts the target, even for a reverse
    model.

    Args:
        directory: ModelDirectory, or the path of one.
        phrases: list of str. The phrases to search for neighbours. Defaults to none.
        limits: RequestLimits. Defaults to `RequestLimits()`.

    Raises:
        InputError: for a language model.

    Example:

        print(Explorer(ModelDirectory.load("model")).translate("open the file"))
    """

    def __init__(
        self, directory: FilePath | ModelDirectory, phrases: Sequence[str] = (), limits: RequestLimits | None = None
    ) -> None:
        directory = ModelDirectory.open(directory)
        check_has_source(directory.model.has_source, directory.path)
        self.limits = limits or RequestLimits()
        self._directory, self._phrases = directory, list(phrases)
        self._generator, self._scorer = TextGenerator([directory]), TextScorer(directory)
        specs = directory.model.encoder.encoded_spec.values()
        self._neighbourhood = Neighbourhood(directory, phrases if any(spec.time_axis is None for spec in specs) else ())
        self.has_gates = has_gates(directory)

    @property
    def has_attention(self) -> bool:
        """Whether the model has attention."""
        return self._scorer.has_attention

    @property
    def has_neighbours(self) -> bool:
        """Whether there are phrases to compare with, and the encoder makes a single vector of each."""
        return bool(self._neighbourhood.phrases)

    def model(self) -> JSONObject:
        """Describes the model."""
        directory, model = self._directory, self._directory.model
        return {
            "name": short_name(directory.path),
            "class": type(model).__name__,
            "reads": "target" if directory.reverse else "source",
            "predicts": "source" if directory.reverse else "target",
            "weights": model.count_params(),
            "source_words": len(directory.source_vocabulary),
            "target_words": len(directory.target_vocabulary),
            "has_attention": self.has_attention,
            "has_gates": self.has_gates,
            "has_neighbours": self.has_neighbours,
            "phrases": len(self._neighbourhood.phrases),
            "max_words": self.limits.max_words,
            "max_characters": self.limits.max_characters,
            "examples": self._examples(),
            "version": __version__,
        }

    def translate(self, source: str, beams: int = BEAMS, best: int | None = None) -> JSONObject:
        """Finds the best targets, by default 5 or `beams` if that is smaller, with ln p of each of their tokens.

        Raises:
            InputError: if `best` is greater than `beams`.
        """
        if best is not None and best > beams:
            expected = f"expected {beams} at most; give more beams"
            raise InputError(f"found best={best} with beams={beams}", expected)
        words = self._source(source)
        num_best = min(BEST, beams) if best is None else best
        [hypotheses] = self._generator.generate_words([words], BeamSampler(beams, num_best=num_best))
        targets = [target for _, target in self._scored(words, [hypothesis.words for hypothesis in hypotheses])]
        return {"source": self._tokens(words, self._directory.source_vocabulary), "targets": targets}

    def sample(self, source: str, samples: int = SAMPLES, best: int = BEST_SAMPLES, seed: int = 0) -> JSONObject:
        """Draws targets from the model, and returns the `best` distinct ones: those drawn most often come first."""
        words = self._source(source)
        [drawn] = self._generator.generate_words([words], RandomSampler(samples, seed=seed))
        most_frequent = sorted(drawn, key=lambda each: (-each.count, -each.log_prob))[:best]
        return {
            "source": self._tokens(words, self._directory.source_vocabulary),
            "samples": samples,
            "distinct": len(drawn),
            "targets": [
                {"text": " ".join(each.words), "count": each.count, **_probability(each.log_prob)}
                for each in most_frequent
            ],
        }

    def score(self, source: str, target: str) -> JSONObject:
        """Computes ln p(target | source), and ln p of each token; the target may be empty."""
        words, predicted = self._source(source), self._words(target)
        [(log_prob, scored)] = self._scored(words, [predicted])
        vocabulary = self._directory.target_vocabulary
        per_token = -round(log_prob, 4) / (len(predicted) + 1)  # the end of sequence counts
        return {
            "source": self._tokens(words, self._directory.source_vocabulary),
            "target": {**scored, "words": self._tokens(predicted, vocabulary)},
            "perplexity": float(f"{math.exp(min(per_token, 700)):.6g}"),
        }

    def gates(self, source: str) -> JSONObject:
        """Computes the update and reset gates of the encoder at each word, for at most 512 evenly spaced units."""
        words = self._source(source)
        [gates] = phrase_gates(self._directory, [escape(" ".join(words))])
        units = gates.update.shape[1]
        chosen = np.unique(np.linspace(0, units - 1, min(units, MAX_UNITS)).astype(int))
        return {
            "words": gates.words,
            "units": units,
            "chosen": chosen.tolist(),
            "update": _rounded(gates.update[:, chosen], 2),
            "reset": _rounded(gates.reset[:, chosen], 2),
            "mean_update": _rounded(gates.update.mean(axis=1), 3),
            "share_reset": _rounded((gates.reset < 0.5).mean(axis=1), 3),
        }

    def neighbours(self, source: str, size: int = NEIGHBOURS) -> JSONObject:
        """Finds the phrases, at most `size`, whose vectors are nearest by cosine similarity."""
        nearest = self._neighbourhood.nearest(self._source(source), size)
        return {
            "phrases": self._neighbourhood.encoded,
            "neighbours": [{"text": text, "similarity": round(similarity, 4)} for text, similarity in nearest],
        }

    def preparations(self) -> Iterator[Callable[[], object]]:
        """Yields functions that compile the model for short sources and default options, and encode the phrases.

        The first function makes requests about short phrases fast. The others may run between requests.
        """
        # The word need not be in the vocabulary.
        first, *others = (" ".join(["a"] * (width - 1)) for width in self._widths())
        yield lambda: [self.translate(first), self.sample(first)]
        yield from self._neighbourhood.steps()
        yield functools.partial(self.neighbours, first)
        for text in others:
            yield functools.partial(self.neighbours, text)
            yield functools.partial(self.translate, text)
            yield functools.partial(self.sample, text)

    def _widths(self) -> list[int]:
        """Lists the numbers of tokens that sources are padded to: multiples of 8 up to 24, and at most the limit."""
        longest = self.limits.max_words + 1
        return sorted({min(width, longest) for width in range(WIDTH_STEP, 3 * WIDTH_STEP + 1, WIDTH_STEP)})

    def _source(self, text: str) -> list[str]:
        words = self._words(text)
        if not words:
            raise InputError("found no words", "expected a phrase or a sentence")
        return words

    def _words(self, text: str) -> list[str]:
        [words] = self._directory.words([text.replace("\r", " ").replace("\n", " ")])
        if len(words) > self.limits.max_words:
            raise InputError(f"found {len(words)} words", f"expected {self.limits.max_words} at most")
        return words

    def _scored(self, source: Sequence[str], targets: Sequence[Sequence[str]]) -> list[tuple[float, JSONObject]]:
        """Computes ln p of each target, and the part of the response about it: text, ln p, tokens and attention."""
        pairs = [self._directory.reordered((source, target)) for target in targets]
        scores = self._scorer.score_pairs(pairs, token_log_probs=True, attention=self.has_attention)
        scored: list[tuple[float, JSONObject]] = []
        for i, (words, log_probs) in enumerate(zip(targets, scores.token_log_probs, strict=True)):
            log_prob, each = float(log_probs.sum()), zip([*words, END_OF_SEQUENCE], log_probs, strict=True)
            part: JSONObject = {
                "text": " ".join(words),
                **_probability(log_prob),
                "tokens": [{"word": word, **_probability(float(number))} for word, number in each],
                "attention": _rounded(scores.attention[i], 3) if scores.attention else None,
            }
            scored.append((log_prob, part))
        return scored

    def _tokens(self, words: Sequence[str], vocabulary: Vocabulary) -> list[JSONObject]:
        return [
            # A model with characters also reads or spells words outside the vocabulary.
            {"word": word, "known": number != UNKNOWN or vocabulary.characters is not None}
            for word, number in zip(words, vocabulary.encode(words), strict=False)
        ]

    def _examples(self) -> list[str]:
        """Chooses example phrases: with 3 to 7 words, if there are any."""
        short = [phrase for phrase in self._phrases if len(phrase.split(" ")) in EXAMPLE_WORDS]
        return (short or [phrase for phrase in self._phrases if len(phrase) < 200])[:EXAMPLES]


def _probability(log_prob: float) -> dict[str, float]:
    return {"log_prob": round(log_prob, 4), "probability": float(f"{math.exp(log_prob):.4g}")}


def _rounded(numbers: np.ndarray, decimals: int) -> list[JSON]:
    rounded: list[JSON] = np.round(numbers.astype(float), decimals).tolist()
    return rounded
