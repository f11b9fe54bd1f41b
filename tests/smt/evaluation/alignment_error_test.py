"""Precision, recall and AER of links, by hand and against sets, in each format."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.errors import InputError
from keras_encdec.smt.evaluation import AlignmentScore, evaluate_alignments

LINKS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)
SENTENCES = st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4)


def moses(links, possible=frozenset()):
    marked = [f"{i}-{j}" for i, j in sorted(links)] + [f"{i}?{j}" for i, j in sorted(possible - links)]
    return " ".join(marked) + "\n"


def giza(number, links):
    words = [f"s{i} ({{{''.join(f' {b + 1}' for a, b in sorted(links) if a == i)} }})" for i in range(10)]
    head = f"# Sentence pair ({number}) source length 10 target length 10 alignment score : 1e-09"
    return f"{head}\n{' '.join(f't{j}' for j in range(10))} \nNULL ({{ }}) {' '.join(words)} \n"


def naacl(number, links, possible=frozenset()):
    lines = [f"{number:04} {i + 1} {j + 1} S" for i, j in sorted(links)]
    return "".join(f"{line}\n" for line in [*lines, *(f"{number} {i + 1} {j + 1} P 0.5" for i, j in possible - links)])


@given(SENTENCES)
@settings(max_examples=40)
def test_every_format_gives_the_definition(tmp_path_factory, sentences):
    sentences = [(found | {(0, 0)}, sure, possible) for found, sure, possible in sentences]
    a, s, p, a_s, a_p = (
        sum(map(len, sets)) for sets in zip(*((f, s, s | p, f & s, f & (s | p)) for f, s, p in sentences), strict=True)
    )
    folder = tmp_path_factory.mktemp("links")
    numbered = list(enumerate(sentences, start=1))
    texts = {
        "found.moses": "".join(moses(found) for found, _, _ in sentences),
        "found.giza": "".join(giza(number, found) for number, (found, _, _) in numbered),
        # As parts that have been joined, whose pairs alternate.
        "found.parts": "".join(giza(number, each) for part in (1, 0) for number, (each, _, _) in numbered[part::2]),
        "found.naacl": "".join(naacl(number, found) for number, (found, _, _) in numbered),
        "gold.moses": "".join(moses(sure, possible) for _, sure, possible in sentences),
        "gold.naacl": "".join(naacl(number, sure, possible) for number, (_, sure, possible) in numbered),
        "sure": "".join(moses(sure) for _, sure, _ in sentences),
        "possible": "".join(moses(possible) for _, _, possible in sentences),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    systems = {name: folder / name for name in texts if name.startswith("found")}
    for gold, further in (("gold.moses", None), ("gold.naacl", None), ("sure", folder / "possible")):
        if not (folder / gold).read_text().strip():
            continue  # nothing says which format it is
        for score in evaluate_alignments(systems, folder / gold, further):
            assert score == AlignmentScore(score.system, a, s, p, a_s, a_p, len(sentences))
            assert score.error_rate == pytest.approx(1 - (a_s + a_p) / (a + s))
            assert score.precision == a_p / a and (score.recall == a_s / s if s else score.recall != score.recall)


def test_the_worked_example(tmp_path):
    """Three of four links are possible, two of two sure ones are found: 1 - (2 + 3) / (4 + 2)."""
    (tmp_path / "found").write_text("0-0 1-1 2-1 3-3\n\n")
    (tmp_path / "gold").write_text("0-0 1-1 2?1 2?2\n\n")
    [score] = evaluate_alignments({"a": tmp_path / "found"}, tmp_path / "gold")
    assert (score.precision, score.recall, score.sentences) == (0.75, 1.0, 2)
    assert score.error_rate == pytest.approx(1 / 6)


def test_empty_lines_between_sentence_pairs_mean_nothing(tmp_path):
    links = [{(0, 0), (1, 1)}, {(0, 1)}]
    for name, lines in (("found", giza), ("gold", naacl)):
        (tmp_path / name).write_text("\n\n".join(lines(number, each) for number, each in enumerate(links, start=1)))
    [score] = evaluate_alignments({"a": tmp_path / "found"}, tmp_path / "gold")
    assert (score.links, score.sure, score.error_rate) == (3, 3, 0)


def test_a_large_number_of_a_sentence_takes_no_time(tmp_path):
    (tmp_path / "gold").write_text(naacl(1, {(0, 0)}) + naacl(999_999_999, {(1, 1)}))
    [score] = evaluate_alignments({"a": tmp_path / "gold"}, tmp_path / "gold")
    assert (score.found_sure, score.sentences) == (2, 999_999_999)


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path):
    for name, text in (("moses", "0-0"), ("giza", giza(1, {(0, 0)})), ("naacl", naacl(1, {(0, 0)}))):
        (tmp_path / name).write_text("\ufeff" + text)
    for name in ("moses", "giza"):
        [score] = evaluate_alignments({"a": tmp_path / name}, tmp_path / "naacl")
        assert score.error_rate == 0


@pytest.mark.parametrize(
    ("found", "gold", "message"),
    [
        (
            "0-0\n1:1\n",
            "0-0\n\n",
            "found, line 2: found the link .1:1., expected a source and a target position, from 0",
        ),
        ("0-0\n", "0-0\n1-1\n", "found: found 1 sentence pair, and 2 in .*gold, expected the same number; align"),
        (
            "0-0\n",
            "1 1 1 S\n2 1 1 S\n",
            "gold: found a link of sentence 2, expected at most 1 sentence, as in .*found",
        ),
        (
            "0-0\n",
            "1 1 1 S\n1 0 1 S\n",
            "gold, line 2: found .1 0 1 S., expected a sentence, a source .*; leave out links to NULL, which .*, "
            r"such as with awk '\$2 && \$3', from",
        ),
        ("0-0\n", "1 1 1 S\n0 1 1 S\n", "gold, line 2: found .0 1 1 S., expected a sentence, .*such as 12 3 4 S.$"),
        ("0-0\n", "1 1 1 S\n1 1\n", "gold, line 2: found .1 1., expected a sentence, a source"),
        (
            giza(1, {(0, 0)})[:-40],
            "0-0\n",
            "found, line 3: found .NULL .*, expected three lines per sentence pair as GIZA",
        ),
        (
            giza(1, {(0, 0)}) * 2,
            "0-0\n0-0\n",
            "found, line 4: found sentence pair 1 again, as on line 1, expected each pair once",
        ),
        (
            giza(1, {(0, 0)}).replace("})", "w" * 300_000, 1),  # which must not take hours
            "0-0\n",
            "found, line 3: found .NULL .*, expected three lines per sentence pair as GIZA",
        ),
        (
            giza("9" * 5000, {(0, 0)}),
            "0-0\n",
            "found, line 1: found .# Sentence pair .*, expected three lines per sentence pair as GIZA",
        ),
        (
            giza(3, {(0, 0)}) + giza(1, {(0, 0)}),
            "0-0\n0-0\n",
            "found: found no sentence pair 2, but pairs 1 and 3, expected all pairs between",
        ),
        ("\n", "\n", "found: found no links, and no sure ones in the reference, expected links to compare"),
    ],
)
def test_alignments_that_cannot_be_compared_are_reported(tmp_path, found, gold, message):
    (tmp_path / "found").write_text(found)
    (tmp_path / "gold").write_text(gold)
    with pytest.raises(InputError, match=message):
        evaluate_alignments({"a": tmp_path / "found"}, tmp_path / "gold")
