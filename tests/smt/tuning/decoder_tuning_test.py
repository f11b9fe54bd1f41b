"""Tuning of the phrase-based decoder."""

import json

import numpy as np
import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines, parse_nbest_line, read_weights
from keras_encdec.smt import decode_nbest, estimate_ngrams
from keras_encdec.smt.decoder.decoding_options import initial_weights
from keras_encdec.smt.tuning import decoder_tuning, tune_decoder

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")

# By the first score each word would be translated wrongly, by the second rightly.
TABLE = "".join(
    f"{source} ||| {target}{mark} ||| {scores} ||| ||| |||\n"
    for source, target in zip("abcd", "wxyz", strict=True)
    for mark, scores in (("", "0.1 0.9"), ("2", "0.9 0.4"))
)
SOURCES, REFERENCES = ["a b c d", "d c b a", "a c", "b"], ["w x y z", "z y x w", "w y", "x"]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "table").write_text(TABLE)
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "reference").write_text("".join(f"{line}\n" for line in REFERENCES))
    (tmp_path / "text").write_text("w x2 y z2\nz y2 x w2\nx\n")
    estimate_ngrams(tmp_path / "text", tmp_path / "arpa", order=2)
    return tmp_path


def tuned(files, *weights, **options):
    return tune_decoder(
        files / "source",
        [files / "reference"],
        files / "table",
        files / "arpa",
        files / "out",
        *weights,
        number_of_processes=1,
        nbest_size=8,
        **options,
    )


def first_hypotheses(path):
    first = {}
    with InputLines(path) as lines:
        for line in map(parse_nbest_line, lines):
            first.setdefault(line.id, line.hypothesis.decode())
    return list(first.values())


def test_rounds_of_translating_and_tuning_find_weights_that_translate_correctly(files):
    reported = []
    tuning = tuned(files, report=reported.append)
    assert list(tuning.rounds) == reported and tuning.rounds[0].weights["LM0"] == [0.5]
    assert tuning.rounds[0].score < 50 and tuning.best.score > 99.9 and tuning.metric == "BLEU"
    assert first_hypotheses(tuning.nbest) == REFERENCES
    # The next round has nothing new, so that there is no other.
    assert tuning.is_converged and tuning.best.number < len(tuning.rounds) < 8
    names = [f"run{number + 1}.{kind}" for number in range(len(tuning.rounds)) for kind in ("nbest.gz", "weights")]
    assert sorted(path.name for path in (files / "out").iterdir()) == sorted([*names, "lists.json", "weights"])
    assert [path.name for path in tuning.lists] == names[::2]
    weights = read_weights(files / "out" / "weights")
    assert weights == tuning.weights == read_weights(files / "out" / f"run{tuning.best.number}.weights")
    decode_nbest(files / "source", files / "table", files / "arpa", files / "again", weights, number_of_processes=1)
    assert first_hypotheses(files / "again") == REFERENCES
    assert str(tuning).startswith(f"BLEU {tuning.best.score:.2f} in round {tuning.best.number} of ")


def test_it_begins_with_the_given_weights_and_keeps_the_unknown_word_penalty(files):
    given = {
        "Distortion0": [1.0],
        "LM0": [0.0],
        "WordPenalty0": [0.0],
        "PhrasePenalty0": [0.0],
        "TranslationModel0": [0.0, 1.0],
        "UnknownWordPenalty0": [0.5],
    }
    tuning = tuned(files, given, rounds=1, algorithm="mira")
    assert tuning.weights == given and len(tuning.rounds) == 1
    assert first_hypotheses(tuning.nbest) == REFERENCES
    assert read_weights(files / "out" / "weights") == given


@pytest.fixture
def decoded(monkeypatch):
    """The names of the lists that are made."""
    names = []

    def recorded(*arguments, **options):
        names.append(arguments[3].name)
        return decode_nbest(*arguments, **options)

    monkeypatch.setattr(decoder_tuning, "decode_nbest", recorded)
    return names


def without_times(tuning):
    return [
        (tuning_round.number, tuning_round.weights, tuning_round.score, tuning_round.nbest.name)
        for tuning_round in tuning.rounds
    ]


def test_a_restarted_tuning_reuses_the_lists_of_a_killed_one(files, decoded):
    def interrupt(done):
        if done.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(files, report=interrupt)
    assert decoded == ["run1.nbest.gz", "run2.nbest.gz"] and not (files / "out" / "weights").exists()
    resumed = tuned(files)
    names = [path.name for path in resumed.lists]
    assert decoded == names and len(names) > 2, "it has made each list once"
    again = tuned(files)
    assert decoded == names and without_times(again) == without_times(resumed)
    (files / "out").rename(files / "first")
    assert without_times(tuned(files)) == without_times(resumed) and decoded == [*names, *names]


def test_lists_of_other_files_or_settings_are_made_anew(files, decoded):
    tuned(files, rounds=1)
    tuned(files, rounds=1, pop_limit=3)
    assert decoded == ["run1.nbest.gz"] * 2
    (files / "table").write_text(TABLE.replace("0.1 0.9", "0.2 0.9"))
    tuned(files, rounds=1, pop_limit=3)
    assert decoded == ["run1.nbest.gz"] * 3
    weights = {**initial_weights(2), "LM0": [0.7]}
    for _ in range(2):
        tuned(files, weights, rounds=1, pop_limit=np.int64(3))
    assert decoded == ["run1.nbest.gz"] * 4
    (files / "out" / "run1.nbest.gz").unlink()
    tuned(files, weights, rounds=1, pop_limit=3)
    record = files / "out" / "lists.json"
    for number, damaged in enumerate(("{", json.dumps({**json.loads(record.read_text()), "weights": 1})), start=6):
        record.write_text(damaged)
        tuned(files, weights, rounds=1, pop_limit=3)
        assert decoded == ["run1.nbest.gz"] * number


def test_unusable_arguments_are_reported(files):
    with pytest.raises(ConfigurationError, match="found rounds=0, expected a whole number, 1 or more"):
        tuned(files, rounds=0)
    with pytest.raises(ConfigurationError, match="found references='text', expected a list of paths"):
        tune_decoder(files / "source", "text", files / "table", files / "lm", files / "out")
    with pytest.raises(InputError, match="-: found a pipe, expected a file, because it is read more than once"):
        tune_decoder("-", [files / "reference"], files / "table", files / "lm", files / "out")
    (files / "reference").write_text("w\n")
    with pytest.raises(InputError, match=r"found the id 1, expected ids from 0 to 0, as .*reference has 1 line"):
        tuned(files, rounds=1)


def test_no_empty_folder_is_left_if_the_input_is_wrong(files):
    with pytest.raises(InputError, match="found no weight of LM0"):
        tuned(files, {"TranslationModel0": [0.2, 0.2], "Distortion0": [0.3]})
    with pytest.raises(ConfigurationError, match="found the unknown hyper-parameter 'pop_limits'"):
        tuned(files, pop_limits=3)
    assert not (files / "out").exists()
