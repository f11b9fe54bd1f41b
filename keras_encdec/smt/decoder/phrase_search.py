"""Searches for the best translations of a sentence: stacks of hypotheses, filled by cube pruning."""

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_encdec.smt.decoder.decoding_options import DecoderWeights, DecodingOptions
from keras_encdec.smt.decoder.phrase_options import LN_10, PhraseOption
from keras_encdec.smt.ngrams.ngram_estimation import SENTENCE_END
from keras_encdec.smt.ngrams.ngram_model import NgramModel

if TYPE_CHECKING:
    from kenlm import State

_END = SENTENCE_END.decode()
Spans = Mapping[tuple[int, int], Sequence[PhraseOption]]


class Arc(NamedTuple):
    """A phrase that continues a hypothesis.

    Attributes:
        previous: SearchNode.
        option: PhraseOption.
        start, end: int. The first source word of the phrase, and the word after its last.
        language_model: float. ln p of its words, and of the sentence's end after the last phrase.
        score: float. The weighted sum of all features.
    """

    previous: "SearchNode"
    option: PhraseOption
    start: int
    end: int
    language_model: float
    score: float


# A derivation of a SearchNode: its score, the number of its last arc, the rank that the derivation without this arc has
# among those of the arc's previous node, and its text.
RankedDerivation = tuple[float, int, int, str]


class SearchNode:
    """A hypothesis of the search, which stands for all translations that are recombined in it.

    These translations cover the same source words, and any continuation adds the same score to each of them.

    Attributes:
        score: float. The weighted sum of the features of the best translation.
        state: the state of the language model; the empty one after the end of the sentence.
        end: int. The source word after the last phrase.
        arcs: list of Arc. The last phrase of each translation, in the order in which the search reached them.
        ranked: list of RankedDerivation: the best derivations, all with different texts, extended by
            `distinct_derivations` as it needs them.
        texts: set of str. The texts of these derivations.
        candidates: heap of the derivations that may be the next in `ranked`; `None` until the first is needed.
    """

    __slots__ = ("score", "state", "end", "arcs", "ranked", "texts", "candidates")

    def __init__(self, score: float, state: "State", end: int) -> None:
        self.score, self.state, self.end = score, state, end
        self.arcs: list[Arc] = []
        self.ranked: list[RankedDerivation] = []
        self.texts: set[str] = set()
        self.candidates: list[tuple[float, int, int]] | None = None


# For a phrase, by the state before it and whether it is the last: ln p of its words, and the state after it.
_Memo = dict[tuple["State", bool], tuple[float, "State"]]


class _Edge(NamedTuple):
    """Pairs of a hypothesis and an option: all hypotheses of a coverage that end at one word, all options of a span."""

    hypotheses: list[SearchNode]  # the best first
    options: Sequence[PhraseOption]  # the best first
    memos: list[_Memo]  # one for each option
    jump: float  # the weighted distortion
    future: float  # the estimate of the best score of the remaining words
    coverage: int  # bits of the source words that are covered, those of the span included
    start: int
    end: int


# For each coverage: hypotheses by the end of their last phrase and the state of the language model.
_Stack = dict[int, dict[tuple[int, "State"], SearchNode]]
# The negative estimate of the total, a serial number, the edge, the numbers of the hypothesis and the option in it,
# ln p and state of the phrase, and the score of the phrase.
_Candidate = tuple[float, int, _Edge, int, int, tuple[float, "State"], float]


class PhraseSearch:
    """Finds the translations of one sentence with the highest weighted sums of the features.

    Hypotheses that cover the same number of source words form a stack. A stack is filled with the best continuations of
    the hypotheses in the stacks before it, in the order in which cube pruning reaches them: by the score plus an
    estimate of the best score of the remaining words. Hypotheses are recombined if they cover the same words, end at
    the same word and have the same state of the language model.

    Args:
        model: NgramModel.
        weights: DecoderWeights.
        options: DecodingOptions.
        length: int. Number of words in the sentence.
        spans: dict from `(start, end)`, the end exclusive, to list of PhraseOption, the best first. Each single word
            has an option.

    References:
        - Koehn et al., 2003, "Statistical Phrase-Based Translation" (N03-1017)
        - Huang and Chiang, 2007, "Forest Rescoring: Faster Decoding with Integrated Language Models" (P07-1019)
    """

    def __init__(
        self, model: NgramModel, weights: DecoderWeights, options: DecodingOptions, length: int, spans: Spans
    ) -> None:
        self._model, self._weights, self._length, self._pop_limit = model, weights, length, options.pop_limit
        self._limit = length if options.distortion_limit < 0 else options.distortion_limit
        memos: dict[tuple[str, ...], _Memo] = {}
        # For each start of a span: its end, its options and the memo of each option.
        self._ends: list[list[tuple[int, Sequence[PhraseOption], list[_Memo]]]] = [[] for _ in range(length)]
        for (start, end), phrases in sorted(spans.items()):
            self._ends[start].append((end, phrases, [memos.setdefault(phrase.words, {}) for phrase in phrases]))
        self._span_futures = _span_futures(length, spans)
        self._futures: dict[int, float] = {}
        self._edges: list[list[_Edge]] = [[] for _ in range(length + 1)]

    def search(self) -> SearchNode:
        """Finds translations, recombined into one SearchNode, for `distinct_derivations`."""
        begin = SearchNode(0.0, self._model.begin, 0)
        if not self._length:
            log_prob, state = self._log_prob((), begin.state, is_last=True)
            goal = SearchNode(self._weights.language_model * log_prob, state, 0)
            empty = PhraseOption("", (), (0.0,) * len(self._weights.translation), 0.0, 0.0)
            goal.arcs.append(Arc(begin, empty, 0, 0, log_prob, goal.score))
            return goal
        stack = {0: {(0, begin.state): begin}}
        for covered in range(self._length):
            for coverage, hypotheses in stack.items():
                self._add_edges(coverage, covered, hypotheses.values())
            stack = self._filled_stack(self._edges[covered + 1], covered + 1 == self._length)
            self._edges[covered + 1] = []
        (goal,) = next(iter(stack.values())).values()
        return goal

    def _add_edges(self, coverage: int, covered: int, hypotheses: Iterable[SearchNode]) -> None:
        """Adds spans that may follow: neither the jump to them nor the one back to the first gap exceeds the limit."""
        by_end: dict[int, list[SearchNode]] = {}
        for hypothesis in sorted(hypotheses, key=lambda hypothesis: -hypothesis.score):
            by_end.setdefault(hypothesis.end, []).append(hypothesis)
        gap = (~coverage & (coverage + 1)).bit_length() - 1
        for start in range(gap, min(self._length, gap + max(self._limit, 1))):
            if coverage >> start & 1:
                continue
            jumps = [
                (-abs(start - end) * self._weights.distortion, same_end)
                for end, same_end in by_end.items()
                if abs(start - end) <= self._limit
            ]
            for end, options, memos in self._ends[start] if jumps else ():
                phrase = (1 << end) - (1 << start)
                if phrase & coverage or (start != gap and end - gap > self._limit):
                    break
                after = coverage | phrase
                future = self._future(after)
                edges = self._edges[covered + end - start]
                for jump, same_end in jumps:
                    edges.append(_Edge(same_end, options, memos, jump, future, after, start, end))

    def _filled_stack(self, edges: Sequence[_Edge], is_last: bool) -> _Stack:
        """Fills a stack with the best continuations, by cube pruning."""
        weight = self._weights.language_model
        heap: list[_Candidate] = []
        serial_numbers = itertools.count()  # break ties, as edges cannot be compared

        def push(edge: _Edge, i: int, j: int) -> None:
            hypothesis, option, memo = edge.hypotheses[i], edge.options[j], edge.memos[j]
            key = hypothesis.state, is_last
            phrase = memo.get(key)
            if phrase is None:
                phrase = memo[key] = self._log_prob(option.words, hypothesis.state, is_last)
            score = edge.jump + option.score + weight * phrase[0]
            estimate = hypothesis.score + score + edge.future
            heapq.heappush(heap, (-estimate, next(serial_numbers), edge, i, j, phrase, score))

        for edge in edges:
            push(edge, 0, 0)
        stack: _Stack = {}
        for _ in range(self._pop_limit):
            if not heap:
                break
            _, _, edge, i, j, (log_prob, state), score = heapq.heappop(heap)
            arc = Arc(edge.hypotheses[i], edge.options[j], edge.start, edge.end, log_prob, score)
            _add_arc(stack.setdefault(edge.coverage, {}), arc, state, is_last)
            if j + 1 < len(edge.options):
                push(edge, i, j + 1)
            if j == 0 and i + 1 < len(edge.hypotheses):
                push(edge, i + 1, 0)
        return stack

    def _log_prob(self, words: Sequence[str], state: "State", is_last: bool) -> tuple[float, "State"]:
        """Computes ln p of words after a state, with the sentence's end if they are the last, and the state then."""
        total = 0.0
        for word in words:
            log10, state = self._model.advance(state, word)
            total += log10
        if is_last:
            total, state = total + self._model.advance(state, _END)[0], self._model.empty
        return total * LN_10, state

    def _future(self, coverage: int) -> float:
        """Estimates the best score of all uncovered words."""
        future = self._futures.get(coverage)
        if future is None:
            future, start = 0.0, None
            for position in range(self._length + 1):
                free = position < self._length and not coverage >> position & 1
                if free and start is None:
                    start = position
                if not free and start is not None:
                    future += self._span_futures[start][position]
                    start = None
            self._futures[coverage] = future
        return future


def _add_arc(hypotheses: dict[tuple[int, "State"], SearchNode], arc: Arc, state: "State", is_last: bool) -> None:
    """Adds a continuation to the hypotheses of its coverage: to the one that it is recombined with, or as a new one."""
    key = (0 if is_last else arc.end, state)
    total = arc.previous.score + arc.score
    hypothesis = hypotheses.get(key)
    if hypothesis is None:
        hypothesis = hypotheses[key] = SearchNode(total, state, arc.end)
    elif total > hypothesis.score:
        hypothesis.score = total
    hypothesis.arcs.append(arc)


def _span_futures(length: int, spans: Spans) -> list[list[float]]:
    """Estimates the best score of each span, translated as one phrase or in parts: a list of lists by start and end."""
    best = [[-math.inf] * (length + 1) for _ in range(length)]
    for (start, end), options in spans.items():
        best[start][end] = options[0].estimate
    for size in range(2, length + 1):
        for start in range(length - size + 1):
            row, end = best[start], start + size
            row[end] = max(row[end], max(row[middle] + best[middle][end] for middle in range(start + 1, end)))
    return best
