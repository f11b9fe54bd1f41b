"""Tests of the registry of formats; one adds a format and takes it through everything that reads pairs."""

import pytest

from keras_encdec.data import open_pairs
from keras_encdec.errors import InputError
from keras_encdec.formats import (
    Column,
    ColumnKind,
    ColumnText,
    PairFormat,
    PairReader,
    PairRecord,
    TsvFormat,
    format_names,
    pair_format,
    register_format,
)
from keras_encdec.formats.record_reader import MalformedLine


def test_formats_are_known_by_name():
    known = ["phrase_table", "tsv", "parallel", "nbest", "sentences"]
    assert format_names()[:5] == known and [pair_format(name).name for name in known] == known
    assert format_names(ColumnKind.LOG_PROB)[:4] == known[:4]
    assert format_names(has_source_file=True) == ["parallel", "nbest"]
    assert format_names(ColumnKind.TOKEN_LOG_PROBS) == ["tsv", "parallel"]
    with pytest.raises(ValueError, match="found format='xml', expected one of phrase_table, tsv, parallel, nbest"):
        pair_format("xml")


def test_two_formats_cannot_have_the_same_name():
    class OtherTsv(TsvFormat):
        pass

    assert register_format(pair_format("tsv")) is pair_format("tsv")
    with pytest.raises(ValueError, match="found the format 'tsv' registered already .*, expected a new name"):
        register_format(OtherTsv())
    with pytest.raises(ValueError, match=r"found the format <class .*OtherTsv'>, expected an instance of a subclass"):
        register_format(OtherTsv)


def test_a_format_is_registered_again_when_a_cell_of_a_notebook_runs_again():
    before, again = pair_format("tsv"), TsvFormat()
    try:
        assert register_format(again) is pair_format("tsv") is again
    finally:
        register_format(before)


class QuestionReader(PairReader):
    """Reads `source ? target`."""

    def records(self):
        for raw in self.lines:
            try:
                source, mark, target = self.decode(raw).partition(" ? ")
                if not mark:
                    raise MalformedLine("found no question", "expected a question mark")
                yield PairRecord(raw, source, target, None)
            except (MalformedLine, UnicodeDecodeError) as error:
                yield self.malformed_record(raw, error)


class QuestionFormat(PairFormat):
    """Lines `source ? target`, with a comment that has ln p."""

    name = "question"
    column_texts = {
        ColumnKind.LOG_PROB: ColumnText("{:.3f}".format, neutral="none"),
        ColumnKind.COUNT: ColumnText(str, neutral="-"),
    }

    def open_reader(self, path, source_path=None, encoding=None, on_error="stop"):
        return QuestionReader(path, encoding, on_error)

    def add_columns(self, record, columns, texts):
        return record.raw + f" # {' '.join(texts)}".encode()


@pytest.fixture(scope="module")
def question():
    return register_format(QuestionFormat()).name


@pytest.fixture
def questions(tmp_path):
    (tmp_path / "questions").write_text("le chat ? the cat\nno question\nla ? the dog\n")
    return tmp_path / "questions"


def test_a_new_format_is_read_as_training_data(question, questions):
    with open_pairs(questions, question, on_error="keep") as (pairs, reader):
        assert list(pairs) == [(["le", "chat"], ["the", "cat"]), (["la"], ["the", "dog"])]
    assert reader.malformed == 1


def test_a_new_format_is_scored(question, questions, tmp_path, forward_scorer):
    from keras_encdec.scoring import score_file

    output = tmp_path / "scored"
    summary = score_file(forward_scorer, questions, output, format=question, on_error="keep", unknown_count=True)
    assert (summary.lines, summary.malformed) == (3, 1)
    expected = forward_scorer.score([(["le", "chat"], ["the", "cat"]), (["la"], ["the", "dog"])])
    assert output.read_text() == (
        f"le chat ? the cat # {expected[0]:.3f} 0\nno question # none -\nla ? the dog # {expected[1]:.3f} 1\n"
    )


def test_a_format_that_adds_line_feeds_cannot_be_scored(monkeypatch):
    monkeypatch.setattr(QuestionFormat, "add_columns", lambda self, record, columns, texts: record.raw + b"\n")
    with pytest.raises(ValueError, match="found b'a .n' from add_columns of QuestionFormat, expected no line feed"):
        column = Column(ColumnKind.LOG_PROB, "p")
        QuestionFormat().with_columns([PairRecord(b"a ", "", "", None)], [column], [[-1.0]])


def test_a_reader_that_leaves_out_lines_cannot_be_scored(question, questions, tmp_path, forward_scorer, monkeypatch):
    from keras_encdec.scoring import score_file

    def without_questions(self):
        yield from (PairRecord(raw, "le", "the", None) for raw in self.lines if b"?" in raw)

    monkeypatch.setattr(QuestionReader, "records", without_questions)
    expected = "questions: found 2 records of QuestionReader for 3 lines, expected one record for each line; yield one"
    with pytest.raises(InputError, match=expected):
        score_file(forward_scorer, questions, tmp_path / "scored", format=question)
    assert not (tmp_path / "scored").exists()


def test_a_reader_defines_its_records(questions):
    class Forgetful(PairReader):
        pass

    with pytest.raises(TypeError, match="abstract class Forgetful with.* abstract method '?records"):
        Forgetful(questions)
