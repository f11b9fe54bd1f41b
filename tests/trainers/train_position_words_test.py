"""Training with position words, which say where the source word of an unknown target word is."""

import random
import shutil
import sys

import numpy as np
import pytest
from tiny_trainings import number_of_updates, train_tiny

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import PreparedPairs
from keras_encdec.decoding import generate_file
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text import Vocabulary
from keras_encdec.text.vocabulary import POSITION_WORDS
from keras_encdec.trainers import TrainingConfig, TrainingData
from keras_encdec.trainers.training_config import check_together

pytestmark = pytest.mark.usefixtures("eager")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pairs whose targets are their sources reversed, and the alignment; the names n0 .. n59 occur once or twice."""
    folder, choose = tmp_path_factory.mktemp("files"), random.Random(0)
    pairs, links = [], []
    for number in range(60):
        source = [f"s{choose.randrange(3)}" for _ in range(choose.randint(1, 3))]
        source.insert(choose.randrange(len(source) + 1), f"n{number}")
        pairs.append((" ".join(source), " ".join(source[::-1])))
        links.append(" ".join(f"{i}-{len(source) - 1 - i}" for i in range(len(source))))
    for name, chosen in (("train", range(50)), ("val", range(50, 60))):
        (folder / f"{name}.tsv").write_text("".join("{}\t{}\n".format(*pairs[i]) for i in chosen))
        (folder / f"{name}.align").write_text("".join(f"{links[i]}\n" for i in chosen))
    return folder


def posunk(files, **settings):
    given = {"tsv": files / "train.tsv", "alignment": files / "train.align", "shortlist": 19, **settings}
    return TrainingData(**given, unknown="posunk")


def read(folder, model_dir):
    """The pairs of a prepared set as text."""
    directory = ModelDirectory.load(model_dir, weights=False)
    pairs = PreparedPairs(model_dir / folder)
    rows = pairs.padded(np.arange(len(pairs)))
    sides = ("source", directory.source_vocabulary), ("target", directory.target_vocabulary)
    return list(zip(*([" ".join(v.decode(row)) for row in rows[side]] for side, v in sides), strict=True))


def check_pairs(pairs, number):
    """Checks that each target is the source reversed: the word at j comes from the source position length - 1 - j."""
    assert len(pairs) == number
    for source, target in pairs:
        words, last = source.split(" "), len(source.split(" ")) - 1
        expected = [f"unkpos_{2 * j - last}" if word[0] != "s" else word for j, word in enumerate(words[::-1])]
        assert target.split(" ") == expected


def test_unknown_words_are_annotated_in_training_and_validation(files, tmp_path):
    data = posunk(files, validation=[files / "val.tsv"], validation_alignment=files / "val.align")
    _, lines = train_tiny(data, tmp_path / "model", updates=1)
    directory = ModelDirectory.load(tmp_path / "model")
    assert set(directory.target_vocabulary.words[:3]) == {"s0", "s1", "s2"}
    assert tuple(directory.target_vocabulary.words[3:]) == POSITION_WORDS
    unknown = PreparedPairs(tmp_path / "model" / "prepared").summary["target_unknown"]
    assert unknown == 50 and lines[2].startswith("target: 19 words in the shortlist; ") and "0.00 %" not in lines[2]
    check_pairs(read("prepared", tmp_path / "model"), 50)
    check_pairs(read("validation", tmp_path / "model"), 10)
    (tmp_path / "input").write_text("s1 n70\n")
    generate_file(tmp_path / "model", tmp_path / "input", tmp_path / "output", replace_unknown=True)
    assert "unkpos" not in (tmp_path / "output").read_text()


def test_a_run_with_position_words_is_resumed_and_repeated_from_its_settings(files, tmp_path):
    data = posunk(files, shortlist=30)
    train_tiny(data, tmp_path, updates=1)
    assert TrainingData.from_preset(tmp_path / "settings.toml") == data
    before = read("prepared", tmp_path)
    shutil.rmtree(tmp_path / "prepared")  # it is prepared again, for the same vocabularies
    train_tiny(data, tmp_path, resume=True, updates=2)
    assert read("prepared", tmp_path) == before and number_of_updates(tmp_path) == [1, 2]
    shutil.rmtree(tmp_path / "prepared")
    with pytest.raises(ConfigurationError, match="found unknown=unk, expected unknown=posunk as in the run to resume"):
        train_tiny(data.replace(unknown="unk", alignment=None), tmp_path, resume=True, updates=3)
    assert not (tmp_path / "prepared").exists(), "the refused resumption must prepare nothing"


def test_a_reverse_model_reads_the_same_alignment(files, tmp_path):
    links = {"train.align": "0-0 2-1\n", "train.tsv": "a b c\tx y\n"}
    for name, text in links.items():
        (tmp_path / name).write_text(text * 2)
    for reverse, expected in ((False, "unkpos_0 unkpos_-1"), (True, "unkpos_0 unkpos_null unkpos_1")):
        data = posunk(tmp_path, shortlist=17, reverse=reverse, target_vocabulary=tmp_path / "words")
        Vocabulary(POSITION_WORDS).save(tmp_path / "words")
        train_tiny(data, tmp_path / f"{reverse}", updates=1)
        ((_, target),) = read("prepared", tmp_path / f"{reverse}")
        assert target == expected


def test_pairs_are_aligned_if_no_alignment_is_given(files, tmp_path):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    data = posunk(files, alignment=None, validation=[files / "val.tsv"])
    train_tiny(data, tmp_path, updates=1)
    for name in ("prepared", "validation"):
        targets = " ".join(target for _, target in read(name, tmp_path))
        assert "<unk>" not in targets and "unkpos_" in targets


def test_missing_files_are_errors_before_anything_is_read(files, tmp_path, monkeypatch):
    Vocabulary(POSITION_WORDS[:9]).save(tmp_path / "words")
    data = posunk(files, target_vocabulary=tmp_path / "words", tsv=files / "missing")
    with pytest.raises(InputError, match="words: found no word unkpos_2, expected unkpos_-7 to unkpos_null"):
        train_tiny(data, tmp_path / "model", updates=1)
    monkeypatch.setitem(sys.modules, "thot", None)
    with pytest.raises(ImportError, match=r"keras-encdec\[smt\]"):
        train_tiny(posunk(files, alignment=None, tsv=files / "missing"), tmp_path / "model", updates=1)


def test_links_that_do_not_fit_leave_nothing_behind(files, tmp_path):
    (tmp_path / "align").write_text((files / "train.align").read_text() + "0-0\n")
    with pytest.raises(InputError, match=r"align: found 51 lines, and 50 lines in .*train.tsv"):
        train_tiny(posunk(files, alignment=tmp_path / "align"), tmp_path / "model", updates=1)
    assert not (tmp_path / "model" / "prepared").exists()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"alignment": "a"}, "found alignment without unknown=posunk, expected both"),
        ({"validation": ("v",), "validation_alignment": "a"}, "found validation_alignment without unknown=posunk"),
        ({"unknown": "posunk", "validation_alignment": "a"}, "found validation_alignment without validation"),
        ({"unknown": "posunk", "shortlist": 16}, "found shortlist=16 with unknown=posunk, expected more than 16"),
        ({"unknown": "copy"}, "found unknown='copy', expected one of unk, posunk"),
    ],
)
def test_settings_that_contradict_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        TrainingData(tsv="pairs", **settings)


def test_a_language_model_cannot_have_position_words():
    config = TrainingConfig(architecture="language_model", updates=1)
    with pytest.raises(ConfigurationError, match="found unknown with architecture=language_model, which has no source"):
        check_together(config, TrainingData(target="text", unknown="posunk"))
