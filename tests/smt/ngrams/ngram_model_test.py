"""N-gram models that KenLM reads."""

import gzip
import os
import sys

import pytest

from keras_encdec.errors import InputError
from keras_encdec.smt import NgramModel, estimate_ngrams
from keras_encdec.smt.ngrams.ngram_model import check_ngram_model

# As SRILM writes it: back-off weights of 0 are left out.
ARPA = """\\data\\
ngram 1=6
ngram 2=4
ngram 3=2

\\1-grams:
-2\t<unk>
-99\t<s>\t-0.5
-1\t</s>
-0.25\ta\t-0.125
-0.5\tb\t-0.25
-0.75\tc\t-0.0625

\\2-grams:
-0.3\t<s> a\t-0.1
-0.6\ta b\t-0.2
-0.9\tb </s>
-0.8\tb c

\\3-grams:
-0.01\t<s> a b
-0.02\ta b c

\\end\\
"""


def model_of(folder, text):
    (folder / "arpa").write_bytes(text.encode("utf-8", "surrogateescape"))
    return NgramModel(folder / "arpa")


def test_longer_ngrams_come_before_shorter_ones_with_their_back_off_weights(tmp_path):
    model = model_of(tmp_path, ARPA)
    assert model.order == 3 and "a" in model and "x" not in model
    for words, log10 in {
        "a b": (-0.3, -0.01, -0.2 - 0.9),
        "a b c": (-0.3, -0.01, -0.02, -0.0625 - 1),
        "b a": (-0.5 - 0.5, -0.25 - 0.25, -0.125 - 1),
        "a c": (-0.3, -0.1 - 0.125 - 0.75, -0.0625 - 1),
        "": (-0.5 - 1,),
        "x": (-0.5 - 2, -1),
    }.items():
        assert model.score(words.split()) == pytest.approx(sum(log10)), words
    (tmp_path / "arpa.gz").write_bytes(gzip.compress(ARPA.replace("\n", "\r\n").encode()))
    assert NgramModel(tmp_path / "arpa.gz").score(["a", "b"]) == model.score(["a", "b"])


def test_equivalent_contexts_share_a_state(tmp_path):
    model = model_of(tmp_path, ARPA)

    def after(*words):
        state = model.empty
        for word in words:
            state = model.advance(state, word)[1]
        return state

    assert after("a", "c") == after("c") == after("b", "c") != after("b")
    assert hash(after("a", "c")) == hash(after("c"))
    assert after("c", "a", "b") == after("a", "b") != after("b")
    assert after("</s>") == model.empty


@pytest.mark.parametrize("count", ["-14", "x", "", "9" * 30])
def test_a_count_that_would_crash_kenlm_is_an_error(tmp_path, count):
    with pytest.raises(InputError, match=r'arpa, line 2: found "ngram 1=.*", expected a line such as ngram 1=100'):
        model_of(tmp_path, ARPA.replace("ngram 1=6", f"ngram 1={count}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\\data\\", "\\dat\\"),
        ("ngram 2=4", "ngram 1=4"),
        ("ngram 1=6", "ngram 1=7"),
        ("-0.5\tb\t-0.25", "-0.5\tb b\t-0.25"),
        ("-0.9\tb </s>", "-0.9\t</s>"),
        ("-0.5\tb", "0.5\tb"),
        ("-0.5\tb\t-0.25", "-0.5 b nan"),
        ("-0.5\tb", "x\tb"),
        ("-0.5\tb", "-0.5\tb\t-0.1▁"),
        ("\\end\\", "\\end\\\n\nmore"),
        ("-0.5\tb", "-0.5\ta"),
        ("-0.6\ta b", "-0.6\ta x"),
        ("-1\t</s>", "-1\td"),
        ("\\2-grams:", "\\4-grams:"),
        ("\\end\\", ""),
    ],
)
def test_a_malformed_file_is_reported_with_the_reason_of_kenlm(tmp_path, old, new, capfd):
    with pytest.raises(InputError, match=r"arpa: found a file that KenLM cannot read \(.*\), expected an n-gram model"):
        model_of(tmp_path, ARPA.replace(old, new))
    assert capfd.readouterr().err == ""


def test_the_order_of_a_model_that_kenlm_was_not_built_for_is_named(tmp_path):
    (tmp_path / "text").write_text("a b c d e\n")
    summary = estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=7)
    assert "for orders up to 6, not 7; to use it with them, give --order=6 or less" in summary.notices[0]
    with pytest.raises(InputError, match="arpa: found n-grams of order 7, expected an order up to 6, .* --order=6"):
        NgramModel(tmp_path / "arpa")


@pytest.mark.parametrize(
    ("content", "line"), [(b"hello\n", 1), (b"\n \n\\data\n", 3), (b"\x00\x01\n", 1), (b"\n\n", 2), (b"mmap lm", 1)]
)
def test_a_file_that_begins_otherwise_is_found_before_it_is_loaded(tmp_path, content, line):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(
        InputError, match=rf"file, line {line}: found .* first line that is not empty, expected \\data\\"
    ):
        check_ngram_model(tmp_path / "file")


def test_a_model_in_a_pipe_is_an_error(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", tmp_path / "pipe"):
        with pytest.raises(InputError, match=f"^{path}: found a pipe, expected a file, .*; write it to"):
            check_ngram_model(path)


@pytest.mark.parametrize("beginning", ["", "\n  \n", "\ufeff", "\ufeff\n"])
def test_what_kenlm_reads_begins_as_an_n_gram_model_does(tmp_path, beginning):
    (tmp_path / "arpa").write_text(beginning + ARPA)
    check_ngram_model(tmp_path / "arpa")
    assert NgramModel(tmp_path / "arpa").order == 3


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((3, 12), r'which is not installed: pip install "keras-encdec\[ngram\]"\.$'),
        ((3, 13), r"which cannot be built for Python 3\.13 or newer: use Python 3\.12\.$"),
    ],
)
def test_kenlm_is_looked_for_before_the_file(tmp_path, monkeypatch, version, expected):
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(ImportError, match=f"needs kenlm, {expected}"):
        check_ngram_model(tmp_path / "none")


@pytest.mark.parametrize("number", ["-3.3e9999", "-1e30"])
def test_probabilities_that_are_not_finite_are_refused_where_they_count(tmp_path, number):
    model = model_of(tmp_path, ARPA.replace("-0.5\tb", f"{number}\tb"))
    assert model.score(["a"]) == pytest.approx(-0.3 - 0.1 - 0.125 - 1)
    with pytest.raises(InputError, match='arpa: found log10 p = -.* of "b", expected finite numbers'):
        model.score(["c", "b"])


def test_a_truncated_file_is_reported(tmp_path):
    data = gzip.compress(ARPA.encode())
    for missing in (1, 3, 8):
        (tmp_path / "arpa").write_bytes(data[:-missing])
        with pytest.raises(InputError, match="arpa, line .*: found the end of the file inside gzipped data"):
            NgramModel(tmp_path / "arpa")


def test_other_white_space_than_spaces_and_tabs_is_part_of_words(tmp_path):
    (tmp_path / "text").write_bytes("a\vb\fc\u00a0d e\r\n".encode())
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    model = NgramModel(tmp_path / "arpa")
    assert "a\vb\fc\u00a0d" in model and "e" in model
    (_, state), likely = model.advance(model.begin, "a\vb\fc\u00a0d"), model.score(["a\vb\fc\u00a0d", "e"])
    assert likely > model.score(["a", "b", "c", "d", "e"]) and model.advance(state, "e")[0] > -0.5


def test_an_encoding_may_be_declared(tmp_path):
    (tmp_path / "text").write_bytes(b"a b\ncaf\xe9 b\n")
    with pytest.raises(InputError, match=r"text, line 2: found bytes that are not UTF-8 \(0xe9 .*--encoding=latin-1"):
        estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2, encoding="latin-1")
    with pytest.raises(InputError, match=r"arpa, line \d+: found bytes that are not UTF-8 \(0xe9"):
        NgramModel(tmp_path / "arpa")
    assert "caf\xe9" in NgramModel(tmp_path / "arpa", "latin-1")


def test_a_full_folder_for_the_copy_in_utf_8_is_named(tmp_path, full_temporary_folder):
    (tmp_path / "arpa").write_text(ARPA + "\n" * 5000)
    with pytest.raises(InputError, match=full_temporary_folder):
        NgramModel(tmp_path / "arpa", "latin-1")


def test_words_that_are_not_text_are_unknown(tmp_path):
    model = model_of(tmp_path, ARPA)
    assert "\udce9" not in model and model.score(["a", "\udce9"]) == pytest.approx(model.score(["a", "x"]))


def test_a_word_with_a_nul_character_is_not_the_word_before_it(tmp_path):
    model = model_of(tmp_path, ARPA)
    assert "a" in model and "a\0b" not in model
    assert model.score(["a", "a\0b"]) == pytest.approx(model.score(["a", "x"])) != model.score(["a", "a"])


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_marks_of_sentences_are_unknown_words_within_a_sentence(tmp_path, mark):
    model = model_of(tmp_path, ARPA)
    assert model.score(["a", mark, "a"]) == model.score(["a", "x", "a"])
    assert model.score(["a\v", mark, "a"]) == pytest.approx(model.score(["y", "x", "a"]))
