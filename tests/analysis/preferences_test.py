import pytest

from keras_encdec.analysis import read_preferences
from keras_encdec.errors import InputError

TABLE = """\
l &apos; x ||| a ||| 0.1 0.1 0.2 0.1 0.9 ||| 0-0 ||| 1 7 1
l &apos; x ||| b ||| 0.1 0.1 0.5 0.1 0.1 ||| 0-0 ||| 1 7 1
l &apos; x ||| c ||| 0.1 0.1 0.3 0.1 1e-05 ||| 0-0 ||| 1 7 1
y ||| d ||| 0.1 0.1 1 0.1 0.5
"""


def test_preferences_rank_the_options_of_each_source(tmp_path):
    (tmp_path / "table").write_text(TABLE)
    first, second = read_preferences(tmp_path / "table", model_score=4)
    assert (first.source, first.occurrences) == ("l ' x", 7)
    assert (first.by_table(), first.by_model(2)) == (["b", "c", "a"], ["a", "b"])
    assert (second.source, second.by_model(), second.occurrences) == ("y", ["d"], 0)


def test_a_table_that_cannot_be_read_is_an_input_error(tmp_path):
    (tmp_path / "table").write_text("y ||| d\n")
    with pytest.raises(InputError, match="line 1"):
        list(read_preferences(tmp_path / "table", model_score=4))
