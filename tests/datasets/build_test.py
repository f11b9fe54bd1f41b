"""How the packaged dataset is built from Debian packages."""

import gzip

import pytest
from toy_packages import make_catalog, make_package

from keras_encdec.datasets import build
from keras_encdec.datasets.build import is_useful, select
from keras_encdec.datasets.libreoffice import PACKAGES
from keras_encdec.errors import InputError


def test_paragraphs_are_split_if_both_have_the_same_number_of_sentences():
    assert build.split_sentences("A. B? C", "É. B ? C") == [("A.", "É."), ("B?", "B ?"), ("C", "C")]
    assert build.split_sentences("A. B.", "A, b.") == [("A. B.", "A, b.")]
    assert build.split_sentences("e.g. this", "p. ex. ceci") == [("e.g. this", "p. ex. ceci")]


@pytest.mark.parametrize(
    ("source", "target", "clean"),
    [
        ("print", "imprimer", True),
        ("options", "options", True),
        ("this was not translated", "this was not translated", False),
        ("= 12", "= 12", False),
        ("", "vide", False),
        ("one", "un deux trois quatre", True),
        ("one", "un deux trois quatre cinq", False),
        ("w " * 61, "m " * 61, False),
    ],
)
def test_a_clean_pair_looks_like_a_sentence_and_its_translation(source, target, clean):
    assert build.is_clean(source.split(), target.split()) is clean


def test_held_out_pairs_are_not_in_the_training_text():
    pairs = [([f"word{i}", "of", "text"], [f"mot{i}", "du", "texte"]) for i in range(50)]
    again = [(["word0", "of", "text", "."], ["mot", "zéro", "encore"]), (["short"], ["court"])]
    training, development, testing = build.hold_out(pairs + again, 10, seed=1)
    assert (len(training), len(development), len(testing)) == (32, 10, 10)
    assert sorted(map(str, training + development + testing)) == sorted(map(str, pairs + again))
    # word0 differs from another sentence in punctuation only, and the last pair is too short.
    assert pairs[0] in training and again[0] in training and again[1] in training
    assert build.hold_out(pairs + again, 10, seed=1)[1] == development
    assert build.hold_out(pairs + again, 10, seed=2)[1] != development


def test_too_few_pairs_to_hold_out_are_an_error():
    with pytest.raises(InputError, match="found 1 sentence pairs"):
        build.hold_out([(["a", "b", "c"], ["x", "y", "z"])], 1, seed=1)


def line(source, target, probability, source_count, count):
    return f"{source} ||| {target} ||| 0.5 0.5 {probability} 0.5 ||| 0-0 ||| 9 {source_count} {count} ||| |||"


def test_sources_that_cover_most_words_are_chosen_with_all_their_targets():
    often = [line("often", f"mot{'abc'[i]}", 0.3, 10, 3) for i in range(3)]
    longer = [
        line("rather long phrase", "assez long", 0.5, 4, 2),
        line("rather long phrase", "long", 0.5, 4, 2),
    ]
    rare = [line("rare", "rare", 1, 2, 2)]
    table = sorted(often + longer + rare)
    assert select(table, 6) == table
    assert select(table, 5) == sorted(often + longer)
    # "often" does not fit and nothing behind it is taken in its place.
    assert select(table, 4) == sorted(longer)


def test_the_best_targets_are_chosen_and_pairs_extracted_once_are_not():
    table = [line("s", "t" + chr(97 + i), (30 - i) / 1000, 1000, 30 - i) for i in range(19)]
    table += [line("s", "z" + chr(97 + i), 0.05, 1000, 50) for i in range(3)] + [line("s", "once", 0.5, 2, 1)]
    chosen = select(table)
    assert len(chosen) == 20
    assert not any(" once " in row for row in chosen)
    assert sum(" ||| z" in row for row in chosen) == 3


@pytest.mark.parametrize(
    ("source", "target", "useful"),
    [
        ("open file", "ouvrir le fichier", True),
        ("the image", "l &apos; image", True),
        ("the", "l &apos;", True),
        ("the", "l", False),
        (", then", "puis", False),
        ("page 1", "page un", False),
        ("file", "fichier .", False),
        ("a", "b c d e", True),
        ("a", "b c d e f", False),
    ],
)
def test_useful_phrases_are_made_of_words(source, target, useful):
    assert is_useful(source.split(), target.split(), [1, 1, 1, 1]) is useful


def test_useful_pairs_have_a_minimum_probability():
    assert not is_useful(["a"], ["b"], [1, 1, 0.009, 1])
    assert not is_useful(["a"], ["b"], [1, 0.019, 1, 1])
    assert is_useful(["a", "a"], ["b"], [1, 0.019, 1, 1])
    assert not is_useful(["a", "a"], ["b"], [1, 1, 1, 0.019])


def test_building_twice_gives_the_same_bytes(tmp_path):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    pytest.importorskip("tensorflow_text", reason="tensorflow-text is not installed")
    words = [
        ("house", "maison"),
        ("flower", "fleur"),
        ("table", "table"),
        ("page", "page"),
        ("cell", "cellule"),
    ]
    sides = [
        "".join(
            f'<p id="{i}{j}">The {a[k]} of the {b[k]}.</p>' for i, a in enumerate(words) for j, b in enumerate(words)
        )
        for k in (0, 1)
    ]
    sides[1] = sides[1].replace("The", "La").replace("of the", "de la")
    for name, language, text in zip(PACKAGES, ("en-US", "fr"), sides, strict=False):
        page = f"usr/share/libreoffice/help/{language}/text/page.html"
        make_package(tmp_path / f"{name}_1_all.deb", {page: text.encode()})
    messages = [("x\x04~House", "~Maison"), ("y\x04%1 flowers", "%1 fleurs")]
    make_package(tmp_path / f"{PACKAGES[2]}_1_all.deb", {"usr/fr.mo": make_catalog(messages)})

    for output in ("one", "two"):
        build.build(tmp_path, tmp_path / output, held_out=2, seed=1)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["dev.en", "dev.fr", "phrase-table.gz", "test.en", "test.fr", "train.en.gz", "train.fr.gz"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    table = gzip.decompress((tmp_path / "one" / "phrase-table.gz").read_bytes()).decode()
    assert "house ||| maison ||| 1 1 1 1 ||| 0-0 |||" in table
