"""How the packaged dataset is built from Debian packages."""

import gzip
import io
import struct
import tarfile

import pytest

from keras_encdec.datasets import build
from keras_encdec.datasets.build import is_useful, select
from keras_encdec.datasets.libreoffice import clean_message, find_package, read_catalog, read_help_page, read_package
from keras_encdec.errors import InputError


def make_catalog(messages, order="<"):
    """The bytes of an .mo file, as msgfmt writes it, without the hash table."""
    count, strings, tables = len(messages), b"", [[], []]
    start = 28 + 16 * count
    for side in (0, 1):
        for message in sorted(messages):
            data = message[side].encode()
            tables[side] += [len(data), start + len(strings)]
            strings += data + b"\0"
    header = struct.pack(order + "7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, start)
    return header + struct.pack(f"{order}{4 * count}I", *tables[0], *tables[1]) + strings


def make_package(path, files):
    """Writes a .deb with these files: name to bytes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo("./" + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    package = b"!<arch>\n"
    # The first member has an odd length, so that the padding is passed over.
    for name, content in (
        ("debian-binary", b"2.0"),
        ("control.tar.xz", b"xx"),
        ("data.tar.xz", data.getvalue()),
    ):
        package += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        package += content + b"\n" * (len(content) % 2)
    path.write_bytes(package)


def test_a_help_page_gives_its_paragraphs_by_id():
    html = """<html><body><p>no id</p>
      <h1 id="hd_1" dir="auto"><a name="x"></a>First
         Steps</h1>
      <p id="par_1" class="paragraph">Choose <span class="emph">File &amp; Print</span><br>now.</p>
      <p id="par_1">an embedded copy</p><p id="par_2" class="code">x = 1</p>
      <p id="par_3"> </p></body></html>"""
    assert read_help_page(html) == {"hd_1": "First Steps", "par_1": "Choose File & Print now."}


def test_a_help_page_gives_the_default_text_where_systems_differ():
    html = (
        '<p id="a">Press Shift+<span id="s" class="switchinline"><span hidden="true" class="MAC">'
        '<span class="keycode">Command</span></span><span hidden="true">Ctrl</span></span>+N.</p>'
        '<p id="b">See <span class="switchinline"><span hidden="true" class="CALC">Sheets</span></span>.</p>'
    )
    assert read_help_page(html) == {"a": "Press Shift+Ctrl+N.", "b": "See Sheets."}


@pytest.mark.parametrize("order", "<>")
def test_a_catalog_gives_its_messages_in_either_byte_order(order):
    messages = [("", "Content-Type: x"), ("menu|open\x04_Open", "_Ouvrir"), ("a\x04one\0many", "un\0des")]
    assert list(read_catalog(make_catalog(messages, order))) == [("_Open", "_Ouvrir")]


def test_a_file_that_is_not_a_catalog_is_an_error():
    with pytest.raises(ValueError, match="magic"):
        list(read_catalog(bytes(40)))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("~File", "File"),
        ("Fo_rmulaire :", "Formulaire :"),
        ("About %PRODUCTNAME\nHelp", "About LibreOffice Help"),
        ("100 %", "100 %"),
        ("$(ARG1) rows", None),
        ("%1 pages", None),
        ("<b>bold</b>", None),
        ("{name}", None),
    ],
)
def test_a_message_is_made_plain_text_unless_it_has_placeholders(message, text):
    assert clean_message(message) == text


def test_a_package_gives_its_files(tmp_path):
    make_package(tmp_path / "tool_1%3a2-3_all.deb", {"usr/a.txt": b"A", "usr/b.txt": b"B" * 2000})
    path = find_package(tmp_path, "tool")
    assert dict(read_package(path)) == {"usr/a.txt": b"A", "usr/b.txt": b"B" * 2000}


def test_the_error_for_a_missing_package_says_how_to_get_it(tmp_path):
    with pytest.raises(InputError, match="apt-get download tool"):
        find_package(tmp_path, "tool")


@pytest.mark.parametrize("content", [b"", b"!<arch>\n", b"not a package at all" * 10])
def test_a_broken_package_is_an_error_with_its_path(tmp_path, content):
    (tmp_path / "x.deb").write_bytes(content)
    with pytest.raises(InputError, match="x.deb"):
        list(read_package(tmp_path / "x.deb"))


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
    for name, language, text in zip(build.PACKAGES, ("en-US", "fr"), sides, strict=False):
        page = f"usr/share/libreoffice/help/{language}/text/page.html"
        make_package(tmp_path / f"{name}_1_all.deb", {page: text.encode()})
    messages = [("x\x04~House", "~Maison"), ("y\x04%1 flowers", "%1 fleurs")]
    make_package(tmp_path / f"{build.PACKAGES[2]}_1_all.deb", {"usr/fr.mo": make_catalog(messages)})

    for output in ("one", "two"):
        build.build(tmp_path, tmp_path / output, held_out=2, seed=1)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["dev.en", "dev.fr", "phrase-table.gz", "test.en", "test.fr", "train.en.gz", "train.fr.gz"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    table = gzip.decompress((tmp_path / "one" / "phrase-table.gz").read_bytes()).decode()
    assert "house ||| maison ||| 1 1 1 1 ||| 0-0 |||" in table


def test_packages_of_different_versions_are_an_error(tmp_path):
    for number, name in enumerate(build.PACKAGES):
        make_package(tmp_path / f"{name}_{number}_all.deb", {})
    with pytest.raises(InputError, match="found versions 0, 1, 2"):
        build.read_texts(tmp_path)
