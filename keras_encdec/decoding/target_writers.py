"""How generated targets are written."""

from collections.abc import Callable, Sequence

from keras_encdec.decoding.text_generator import TextHypothesis
from keras_encdec.formats.escaping import escape


class TextWriter:
    """The best target of each source, a line each.

    Args:
        escape_targets: bool. Whether targets get Moses's escapes, such as `&apos;`.
        most: int. Hypotheses of a source that are written, at most; `None` for all.
        with_source: bool. Whether there are sources.
        with_count: bool. Whether hypotheses were drawn, so that it matters how often.
        feature_name: str. Name of ln p.
        join: function of words to text. Defaults to joining them with spaces.
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

    def written(self, hypotheses: Sequence[TextHypothesis]) -> Sequence[TextHypothesis]:
        """Those of a source's hypotheses that are written."""
        return hypotheses[:1]

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        """The lines of a source.

        Args:
            number: int. Of the source among all, from 0.
            source: str.
            hypotheses: the best first, at least one.
        """
        return self._target(hypotheses[0]) + "\n"

    def _target(self, hypothesis):
        text = self._join(hypothesis.words)
        return escape(text) if self._escape_targets else text


class TsvWriter(TextWriter):
    """Lines of source (if any), target, ln p and (of samples) count."""

    def written(self, hypotheses: Sequence[TextHypothesis]) -> Sequence[TextHypothesis]:
        return hypotheses[: self._most]

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        given = [source.replace("\t", " ")] if self._with_source else []
        rows = [[*given, self._target(each), f"{each.log_prob:.6f}"] for each in self.written(hypotheses)]
        if self._with_count:
            rows = [[*row, str(each.count)] for row, each in zip(rows, hypotheses, strict=False)]
        return "".join("\t".join(row) + "\n" for row in rows)


class MosesNBestWriter(TsvWriter):
    """A Moses n-best list: `number ||| target ||| feature= ln p ||| score`, always with escapes."""

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        return "".join(
            f"{number} ||| {escape(self._join(each.words))}  ||| {self._feature_name}= {each.log_prob:.6f} ||| "
            f"{each.score:.6g}\n"
            for each in self.written(hypotheses)
        )


TARGET_WRITERS = {"text": TextWriter, "tsv": TsvWriter, "moses_nbest": MosesNBestWriter}
