"""The lines of generated targets, by format."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keras_encdec.formats.encodings import escape

if TYPE_CHECKING:  # the formats' names must be known before Keras is imported
    from keras_encdec.decoding.text_generator import TextHypothesis


class TextWriter:
    """Writes the best target of each source, one per line.

    Args:
        escape_targets: bool. Whether to write targets with Moses's escapes, such as `&apos;`.
        most: int. Maximum number of hypotheses to write for each source; `None` for all.
        with_source: bool. Whether there are sources; a language model has none.
        with_count: bool. Whether the hypotheses are samples, whose counts are written.
        feature_name: str. Name of the feature for ln p in an n-best list.
        join: function that joins words into text. Defaults to joining them with spaces.
    """

    def __init__(
        self,
        escape_targets: bool,
        most: int | None,
        with_source: bool,
        with_count: bool,
        feature_name: str,
        join: Callable[[Sequence[str]], str] = " ".join,
    ) -> None:
        self._escape_targets, self._most = escape_targets, most
        self._with_source, self._with_count, self._feature_name = with_source, with_count, feature_name
        self._join = join

    def written(self, hypotheses: Sequence["TextHypothesis"]) -> Sequence["TextHypothesis"]:
        """Returns the hypotheses of a source that are written.

        Args:
            hypotheses: the best first.
        """
        return hypotheses[:1]

    def lines(self, number: int, source: str, hypotheses: Sequence["TextHypothesis"]) -> str:
        """Returns the lines to write for a source.

        Args:
            number: int. Index of the source in the input, from 0.
            source: str.
            hypotheses: at least one, the best first.
        """
        return self._target(hypotheses[0]) + "\n"

    def _target(self, hypothesis: "TextHypothesis") -> str:
        text = self._join(hypothesis.words)
        return escape(text) if self._escape_targets else text


class TsvWriter(TextWriter):
    """Writes tab-separated lines of source (if any), target, ln p and, for samples, count."""

    def written(self, hypotheses: Sequence["TextHypothesis"]) -> Sequence["TextHypothesis"]:
        return hypotheses[: self._most]

    def lines(self, number: int, source: str, hypotheses: Sequence["TextHypothesis"]) -> str:
        source_column = [source.replace("\t", " ")] if self._with_source else []
        rows = []
        for hypothesis in self.written(hypotheses):
            count_column = [str(hypothesis.count)] if self._with_count else []
            rows.append([*source_column, self._target(hypothesis), f"{hypothesis.log_prob:.6f}", *count_column])
        return "".join("\t".join(row) + "\n" for row in rows)


class MosesNBestWriter(TsvWriter):
    """Writes a Moses n-best list: `number ||| target ||| feature= ln p ||| score`, always with escapes.

    For a model that spells words, the feature has two values: ln p of the words, and ln p of the characters.
    """

    def lines(self, number: int, source: str, hypotheses: Sequence["TextHypothesis"]) -> str:
        return "".join(
            f"{number} ||| {escape(self._join(hypothesis.words))}  ||| "
            f"{self._feature_name}= {_values(hypothesis)} ||| {hypothesis.score:.6g}\n"
            for hypothesis in self.written(hypotheses)
        )


def _values(hypothesis: "TextHypothesis") -> str:
    spelling_log_prob = hypothesis.spelling_log_prob
    if spelling_log_prob is None:
        return f"{hypothesis.log_prob:.6f}"
    return f"{hypothesis.log_prob - spelling_log_prob:.6f} {spelling_log_prob:.6f}"


TARGET_WRITERS = {"text": TextWriter, "tsv": TsvWriter, "moses_nbest": MosesNBestWriter}
