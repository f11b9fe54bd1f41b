"""The hypotheses of an n-best list, ranked sentence by sentence."""

from collections import namedtuple

from keras_encdec.errors import InputError
from keras_encdec.formats import parse_features, parse_nbest_line, replace_total
from keras_encdec.formats.malformed_line import MalformedLine

Group = namedtuple("Group", "hypotheses missing")
Group.__doc__ = """The hypotheses of one sentence.

    Attributes:
        hypotheses: list of `(line number, line, NBestLine)`, in the order of the list.
        missing: int. How many ids between the sentence before and this one have no hypotheses.
    """


def groups(lines):
    """Yields the sentences of an n-best list; memory is that of one.

    Args:
        lines: InputLines of the list.

    Yields:
        Group.

    Raises:
        InputError: at a malformed line, and where ids do not ascend.
    """
    group, previous = [], -1
    for raw in lines:
        number = lines.line_number
        try:
            parsed = parse_nbest_line(raw)
        except MalformedLine as error:
            raise InputError(error.found, error.expected, "repair or remove the line", lines.path, number) from None
        if group and parsed.id != group[-1][2].id:
            last = group[-1][2].id
            if parsed.id < last:
                raise InputError(
                    f"found the id {parsed.id} after {last}",
                    "expected the hypotheses of each sentence together, and ids in ascending order",
                    "sort the list by id (sort -s -n)", lines.path, number,
                )  # fmt: skip
            yield Group(group, last - previous - 1)
            group, previous = [], last
        group.append((number, raw, parsed))
    yield Group(group, group[-1][2].id - previous - 1)


class Ranking:
    """Makes of the hypotheses of a sentence their lines in a new order, or the best one's text.

    Args:
        weights: FeatureWeights.
        path: the n-best list, named in errors.
        best_only: bool. Whether to give the hypothesis with the highest total, as it is written in the
            list, after an empty line for each sentence that has none; else all lines with their new
            totals, the highest first, equal ones in their old order.
    """

    def __init__(self, weights, path, best_only):
        self._weights, self._path, self._best_only = weights, path, best_only

    def __call__(self, group):
        """The lines of a Group, as bytes without line feed."""
        totals = [
            self._weights.total(parse_features(parsed.features), self._path, number)
            for number, _, parsed in group.hypotheses
        ]
        if self._best_only:
            best = group.hypotheses[totals.index(max(totals))][2]
            return [b""] * group.missing + [best.hypothesis]
        ranked = sorted(zip(totals, group.hypotheses, strict=True), key=lambda pair: -pair[0])
        return [replace_total(raw, f"{total:.6g}") for total, (_, raw, _) in ranked]

    def close(self):
        """Nothing is left to do after an error."""
