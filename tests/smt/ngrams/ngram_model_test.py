"""N-gram models from ARPA files."""

import gzip

import pytest

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.errors import InputError
from keras_encdec.smt import NgramModel, estimate_ngrams

# As SRILM writes it: an n-gram's last words need not be there, nor back-off weights, nor <unk>.
ARPA = """some model

\\data\\
ngram 1=5
ngram  2=3
ngram 3=2

\\1-grams:
-99\t<s>\t-0.5
-1\t</s>
-0.25\ta\t-0.125
-0.5 b -0.25
-0.75\tc\t-0.0625

\\2-grams:
-0.3\t<s> a\t-0.1
-0.6\ta b\t-0.2
-0.9\tb </s>

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
    assert (model.order, len(model.vocabulary)) == (3, 6)
    for words, log10 in {
        "a b": (-0.3, -0.01, -0.2 - 0.9),
        "a b c": (-0.3, -0.01, -0.02, -0.0625 - 1),  # b c and a b c end with no longer n-gram than c
        "b a": (-0.5 - 0.5, -0.25 - 0.25, -0.125 - 1),
        "a c": (-0.3, -0.1 - 0.125 - 0.75, -0.0625 - 1),
        "": (-0.5 - 1,),
        "x": (-0.5 - 100, -1),  # no <unk>
    }.items():
        assert model.score(words.encode().split()) == pytest.approx(sum(log10)), words
    (tmp_path / "arpa.gz").write_bytes(gzip.compress(ARPA.replace("\n", "\r\n").encode()))
    assert NgramModel(tmp_path / "arpa.gz").score([b"a", b"b"]) == model.score([b"a", b"b"])


def test_equivalent_contexts_share_a_state(tmp_path):
    model = model_of(tmp_path, ARPA)

    def after(*words):
        state = model.empty
        for word in words:
            state = model.advance(state, model.vocabulary[word])[1]
        return state

    assert after(b"a", b"c") == after(b"c") == after(b"b", b"c") != after(b"b")
    assert after(b"c", b"a", b"b") == after(b"a", b"b") != after(b"b")
    assert after(b"</s>") == model.empty


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("\\data\\", "\\dat\\", r"line 24: found no line \\data\\, expected an ARPA file; give an ARPA"),
        ("ngram 1=5", "ngram 1=x", 'line 4: found "ngram 1=x", expected a line ngram 1=COUNT'),
        ("ngram  2=3", "ngram 1=3", r'line 5: found "ngram 1=3", expected \\1-grams:'),
        ("ngram 1=5", "ngram 1=6", "line 15: found 5 n-grams of order 1, expected 6 as in the head of the file"),
        ("-0.5 b -0.25", "-0.5 b b -0.25", "line 12: found 4 fields, expected log10 p, 1 word and a back-off weight"),
        ("-0.9\tb </s>", "-0.9\t</s>", "line 18: found 2 fields, expected log10 p, 2 words and a back-off weight"),
        ("-0.5 b", "0.5 b", 'line 12: found "0.5", expected log10 p, 0 or less'),
        ("-0.5 b -0.25", "-0.5 b nan", 'line 12: found "nan", expected log10 p, the words, and log10 of a back-off'),
        ("-0.5 b", "-3.3e9999 b", 'line 12: found "-3.3e9999", expected .* as finite numbers'),
        ("-0.5 b", "-1e300 b", 'line 12: found "-1e300", expected .* as finite numbers'),
        ("-0.5 b", "x b", 'line 12: found "x", expected'),
        ("-0.5 b", "-0.5 caf\udce9", r"line 12: found bytes that are not UTF-8 \(0xe9"),
        ("\\end\\", "\\end\\\n\nmore", r'line 26: found "more" after \\end\\, expected the end of the file'),
        ("-0.5 b", "-0.5 a", 'line 12: found "a" twice'),
        ("-0.6\ta b", "-0.6\t<s> a", "line 17: found an n-gram twice"),
        ("-0.6\ta b", "-0.6\ta x", 'line 17: found "a x", expected an n-gram whose words'),
        ("a b c", "c b c", 'line 22: found "c b c", expected an n-gram whose words'),
        ("-1\t</s>", "-1\td", "line 15: found no unigram </s>, expected a model of sentences"),
        ("\\2-grams:", "\\4-grams:", r'line 15: found "\\4-grams:", expected \\2-grams:'),
        ("\\end\\", "", r"line 24: found the end of the file, expected \\end\\"),
    ],
)
def test_a_malformed_file_is_reported_with_its_line(tmp_path, old, new, sentence):
    with pytest.raises(InputError, match=f"arpa, {sentence}"):
        model_of(tmp_path, ARPA.replace(old, new))


def test_a_truncated_file_is_reported(tmp_path):
    data = gzip.compress(ARPA.encode())
    for missing in (1, 3, 8):
        (tmp_path / "arpa").write_bytes(data[:-missing])
        with pytest.raises(InputError, match="arpa, line .*: found the end of the file inside gzipped data"):
            NgramModel(tmp_path / "arpa")


def test_other_white_space_than_spaces_and_tabs_is_part_of_words(tmp_path):
    (tmp_path / "text").write_bytes("a\vb\fc\u00a0d e\r\n".encode())
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    words = NgramModel(tmp_path / "arpa").vocabulary.keys() - {b"<unk>", b"<s>", b"</s>"}
    assert words == {"a\vb\fc\u00a0d".encode(), b"e"}


def test_an_encoding_may_be_declared(tmp_path):
    (tmp_path / "text").write_bytes(b"a b\ncaf\xe9 b\n")
    with pytest.raises(InputError, match=r"text, line 2: found bytes that are not UTF-8 \(0xe9 .*--encoding=latin-1"):
        estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2, encoding="latin-1")
    assert b"caf\xe9" in NgramModel(tmp_path / "arpa", "latin-1").vocabulary


def test_kenlm_gives_the_same_scores(tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")
    data = libreoffice_en_fr()
    estimate_ngrams(data.train_target, tmp_path / "arpa", order=3)
    own, theirs = NgramModel(tmp_path / "arpa"), kenlm.Model(str(tmp_path / "arpa"))
    sentences = [*data.dev_target.read_text(encoding="utf-8").splitlines(), "", "zzz a zzz"]
    scores = [own.score(sentence.encode().split()) for sentence in sentences]
    assert scores == pytest.approx([theirs.score(sentence) for sentence in sentences], rel=1e-5)  # KenLM has float32
