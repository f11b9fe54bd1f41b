import gzip
import re
import subprocess
import sys
from collections import defaultdict

import pytest

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import escape

FOLDER = libreoffice_en_fr().phrase_table.parent


@pytest.fixture(scope="module")
def lines():
    with gzip.open(libreoffice_en_fr().phrase_table) as file:
        return file.read().splitlines()


@pytest.fixture(scope="module")
def rows(lines):
    return [line.decode("utf-8").split(" ||| ") for line in lines]


def test_is_small_enough_to_carry(lines):
    assert libreoffice_en_fr().phrase_table.stat().st_size < 2_000_000
    assert 30_000 <= len(lines) <= 50_000


def test_has_no_time_stamp():
    assert libreoffice_en_fr().phrase_table.read_bytes()[4:8] == bytes(4)


def test_is_sorted_by_bytes_without_repetition(lines, rows):
    assert lines == sorted(lines)
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


def test_layout(lines):
    number = r"[0-9.]+(e-[0-9]+)?"
    fields = ("[^|]+", "[^|]+", rf"{number}( {number}){{3}}", r"\d-\d( \d-\d)*", r"\d+ \d+ \d+", r"\|\|\|")
    layout = re.compile(r" \|\|\| ".join(fields))
    assert all(layout.fullmatch(line.decode("utf-8")) for line in lines)


def test_scores_are_probabilities_that_agree_with_the_counts(rows):
    source_counts, target_counts, mass = {}, {}, defaultdict(float)
    for source, target, scores, _, counts, _ in rows:
        scores = [float(score) for score in scores.split()]
        target_count, source_count, count = map(int, counts.split())
        assert all(0 < score <= 1 for score in scores)
        assert scores[0] == pytest.approx(count / target_count, rel=1e-5)
        assert scores[2] == pytest.approx(count / source_count, rel=1e-5)
        assert source_counts.setdefault(source, source_count) == source_count
        assert target_counts.setdefault(target, target_count) == target_count
        mass[source] += scores[2]
    assert max(mass.values()) <= 1 + 1e-4


def test_alignments_lie_in_the_phrases(rows):
    for source, target, _, alignment, _, _ in rows:
        points = [tuple(map(int, point.split("-"))) for point in alignment.split()]
        assert points == sorted(points, key=lambda point: point[::-1])
        assert all(s < len(source.split()) <= 7 and t < len(target.split()) <= 7 for s, t in points)


def test_sources_have_options_to_compare(rows):
    options = defaultdict(int)
    for row in rows:
        options[row[0]] += 1
    assert max(options.values()) <= 20
    assert sum(count >= 3 and 2 <= len(source.split()) <= 5 for source, count in options.items()) > 3000


@pytest.mark.parametrize("name", ["dev", "test"])
def test_held_out_sentences(name):
    paths = [getattr(libreoffice_en_fr(), f"{name}_{side}") for side in ("source", "target")]
    sides = [path.read_text(encoding="utf-8").splitlines() for path in paths]
    assert [len(side) for side in sides] == [1000, 1000]
    assert len(set(sides[0])) == 1000
    for line in sides[0] + sides[1]:
        assert 3 <= len(line.split()) <= 40
        assert line == " ".join(line.split()) == line.casefold()
    # Plain text, not Moses's: apostrophes stay apostrophes.
    assert any("'" in line for line in sides[1])
    assert not any("&apos;" in line for line in sides[0] + sides[1])


def test_dev_and_test_differ():
    dataset = libreoffice_en_fr()
    dev, test = (set(path.read_text("utf-8").splitlines()) for path in (dataset.dev_source, dataset.test_source))
    assert not dev & test


def test_table_is_escaped(rows):
    for row in rows:
        for token in (row[0] + " " + row[1]).split():
            assert escape(token.replace("&apos;", "'")) == token


def test_licence_and_notice():
    assert (FOLDER / "LICENSE").read_text("utf-8").startswith("Mozilla Public License Version 2.0")
    notice = (FOLDER / "NOTICE").read_text("utf-8")
    for expected in (
        "libreoffice-help-fr",
        "4:7.4.7-1+deb12u14",
        "The Document Foundation",
        "What was changed",
    ):
        assert expected in notice


def test_notice_states_the_rule_that_was_used():
    from keras_encdec.datasets import build as selection

    notice = " ".join((FOLDER / "NOTICE").read_text("utf-8").split())
    assert f"p(e|f) is at least {selection.MIN_PROBABILITY}" in notice
    assert f"at least {selection.MIN_WORD_WEIGHT}." in notice
    assert f"its {selection.TABLE_LIMIT} such pairs" in notice
    assert f"exceed {selection.MAX_PAIRS:,} pairs" in notice
    assert selection.MIN_COUNT == 2 and "extracted at least twice" in notice


def test_moses_ini_names_the_table():
    text = libreoffice_en_fr().moses_ini.read_text("utf-8")
    assert f"num-features=4 path={libreoffice_en_fr().phrase_table.name}" in text
    weights = text.split("[weight]")[1]
    assert "TranslationModel0= 0.2 0.2 0.2 0.2\n" in weights
    for feature in ("UnknownWordPenalty", "WordPenalty", "PhrasePenalty", "Distortion"):
        assert f"\n{feature}\n" in text and f"{feature}0= " in weights


def test_all_files_are_there():
    dataset = libreoffice_en_fr()
    assert all(path.is_file() for path in vars(dataset).values())


def test_imports_no_tensorflow():
    code = "import sys, keras_encdec.datasets as d; d.libreoffice_en_fr(); print('tensorflow' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split()[-1] == "False"


def test_it_can_be_called_again_and_imported_again():
    from keras_encdec.datasets import libreoffice_en_fr as again

    assert again() == libreoffice_en_fr() == again()
