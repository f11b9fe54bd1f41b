import base64
import gzip
import hashlib
import html.parser
import json
import re

import jinja2
import numpy as np
import pytest

from keras_encdec.analysis.page.page import Drawing, Scatter, Section, Table, cut, fill, page
from keras_encdec.analysis.page.state_sections import attention_section
from keras_encdec.decoding.text_generator import TextHypothesis

WICKED = '</script><script>alert("1")</script><img src=x onerror=alert(1)>&amp; <!-- \udce9'


class Elements(html.parser.HTMLParser):
    """The elements of a page and the text in them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data


def data_of(text):
    """What the script of a figure reads."""
    return json.loads(gzip.decompress(base64.b64decode(re.search(r'gzip"[^>]*>([^<]*)</script>', text)[1])))


def element(name, value):
    """The HTML of a table, picture or figure."""
    return fill(name, "elements.html", **{name: value})


def test_html_in_words_is_escaped():
    table = Table(WICKED, ["a", WICKED], [[WICKED, WICKED], ["b", 1.5]])
    scatter = Scatter("map", WICKED, WICKED, np.zeros((2, 2)), [[WICKED, "two"]], "words")
    drawing = Drawing(b"<svg/>", b"", WICKED, WICKED)
    phrases = fill(
        "phrases", "elements.html", caption=WICKED, header=[WICKED, WICKED], rows=[(WICKED, 1, [[(WICKED, "")]])]
    )
    body = phrases + element("table", table) + element("scatter", scatter) + element("picture", drawing)
    text = page(WICKED, {WICKED: WICKED}, [WICKED], [Section("one", WICKED, body)]).decode("utf-8")
    elements = Elements(text)
    assert elements.tags.count("script") == 2 and elements.tags.count("img") == 1, "the page's own"
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    shown = WICKED.replace("\udce9", "\ufffd")
    assert elements.text.count(shown) >= 13
    assert data_of(text)["columns"][0]["strings"].split("\n")[0] == shown


def test_a_text_that_is_not_given_to_a_template_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="'bins' was not provided"):
        fill("bleu", sentences=1, drawing=Drawing(b"", b""))


def test_numbers_of_one_are_in_the_singular():
    assert "drew 1 target for" in fill("samples", kinds={"Phrases": []}, samples=1)
    assert "drew 1,000 targets for" in fill("samples", kinds={"Phrases": []}, samples=1000)
    assert "of 1 pair of the table:" in fill("lengths", pairs=1, kind="pairs of the table", drawings=[])
    gates = fill("gates", words=3, sources=1, r=None, statistics=[], tables=[], shown=[])
    assert "3 words of\n1 source, including" in gates


def test_only_numbers_of_a_table_are_aligned_as_numbers():
    text = element("table", Table("caption", ["unit", "p", "word"], [[7, 0.5, "a"], [8, 1000, 2]]))
    assert re.findall(r"<th( [^>]*)>([^<]*)<", text)[:3] == [
        (' scope="col"', "unit"),
        (' scope="col" class="number"', "p"),
        (' scope="col"', "word"),
    ]
    assert re.findall(r'"number">([^<]*)</td>', text) == ["0.5", "1,000", "2"] and '<td dir="auto">a</td>' in text


def test_arabic_and_hebrew_do_not_reorder_what_is_around_them():
    text = element("table", Table("Words", ["a", "b"], [["שלום", "سلام · b"]]))
    assert '<th scope="row" dir="auto">שלום</th>' in text and '<td dir="auto">سلام · b</td>' in text
    rows = [("سلام", 1, [[("שלום", "0.5")]])]
    text = fill("phrases", "elements.html", caption="", header=["a", "b"], rows=rows)
    assert "<bdi>سلام</bdi> <small>" in text and "<bdi>שלום</bdi> <small>0.5" in text
    attention = TextHypothesis(["سلام"], -1.0, -1.0, 1, ["hello"], np.eye(2))
    section = attention_section([attention])
    [drawing] = section.pictures.values()
    assert drawing.caption == "hello → \u2068سلام\u2069"
    assert "local_p</code> add up to less" in section.body


def test_the_page_fetches_nothing_and_runs_only_its_own_script():
    text = page("title", {}, [], []).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.search(r"<script>(.*)</script>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//|@import|url\(", text)


def test_equal_labels_are_stored_once_and_numbers_are_decoded():
    points = np.array([[1.5, -2], [0.25, 3]], np.float64)
    columns, axes = [["a", "a"], ["b", "c\td\xa0e"]], [("x in nats", "x"), ("y", "y")]
    scatter = Scatter("pairs", "", "", points, columns, "pairs", axes)
    data = data_of(element("scatter", scatter))
    assert [column["strings"] for column in data["columns"]] == ["a", "b\nc d\xa0e"]
    assert np.frombuffer(base64.b64decode(data["columns"][0]["index"]), "<i4").tolist() == [0, 0]
    assert data["columns"][1]["index"] is None and data["axes"]["x"]["label"] == "x in nats"
    assert np.frombuffer(base64.b64decode(data["y"]), "<f4").tolist() == [-2, 3]


def test_text_is_cut_before_a_letter_and_its_marks():
    assert [cut(text, 3) for text in ("abc", "abcd", "abe\u0301", "ae\u0323\u0302d")] == ["abc", "ab…", "ab…", "a…"]


def test_a_picture_has_its_own_dark_colours_and_files_are_links():
    svg = b'<svg><defs></defs><path style="fill: #ffffff; stroke: #0072b2"/></svg>'
    text = element("picture", Drawing(svg, b"", "a picture"))
    shown = base64.b64decode(re.search(r"base64,([^\"]*)", text)[1]).decode()
    assert shown.startswith("<svg><style>@media (prefers-color-scheme:dark){") and shown.endswith(svg.decode()[5:])
    assert '[style*="stroke: #0072b2"]{stroke:#56b4e9!important}' in shown
    section = Section("one", "One", text, {"numbers": Table("", (), ())}, {"figure": Drawing(svg, b"")})
    links = re.findall('<a href="([^"#]*)"><code>', page("title", {}, [], [section]).decode())
    assert links == ["tables/numbers.tsv", "figures/figure.svg"]


def test_each_point_has_the_number_of_its_group():
    groups = {"all others": np.array([0, 2]), "one": np.array([1])}
    scatter = Scatter("map", "", "", np.zeros((3, 2)), [["a", "b", "c"]], "words", groups=groups, view=(0, 0, 1, 1))
    text = element("scatter", scatter)
    assert base64.b64decode(data_of(text)["groups"]) == bytes([0, 1, 0]) and data_of(text)["view"] == [0, 0, 1, 1]
    assert "<li>all others: 2</li>" in text


def test_a_table_as_tsv():
    table = Table("caption", ["word", "p"], [["a\tb\nc\xa0d", 0.5], ["caf\udce9", 1]])
    assert table.to_tsv().decode() == "word\tp\na b c\xa0d\t0.5\ncaf\ufffd\t1\n"
