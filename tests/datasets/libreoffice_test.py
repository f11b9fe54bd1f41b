"""Packages, help pages and catalogs of LibreOffice."""

import pytest
from toy_packages import make_catalog, make_package

from keras_encdec.datasets import libreoffice
from keras_encdec.datasets.libreoffice import clean_message, find_package, read_catalog, read_help_page, read_package
from keras_encdec.errors import InputError


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


def test_packages_of_different_versions_are_an_error(tmp_path):
    for number, name in enumerate(libreoffice.PACKAGES):
        make_package(tmp_path / f"{name}_{number}_all.deb", {})
    with pytest.raises(InputError, match="found versions 0, 1, 2"):
        libreoffice.read_texts(tmp_path)
