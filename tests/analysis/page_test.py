import base64
import gzip
import hashlib
import html.parser
import json
import re

import numpy as np

from keras_encdec.analysis.page.page import Scatter, Section, Table, page, picture

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


def test_html_in_words_is_escaped():
    table = Table(WICKED, ["a", WICKED], [[WICKED, WICKED], ["b", 1.5]])
    scatter = Scatter("map", WICKED, WICKED, np.zeros((2, 2)), [[WICKED, "two"]], "words")
    body = table.to_html() + scatter.to_html() + picture(b"<svg/>", WICKED, WICKED)
    text = page(WICKED, {WICKED: WICKED}, [WICKED], [Section("one", WICKED, body)]).decode("utf-8")
    elements = Elements(text)
    assert elements.tags.count("script") == 2 and elements.tags.count("img") == 1, "the page's own"
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    shown = WICKED.replace("\udce9", "\ufffd")
    assert elements.text.count(shown) >= 8
    assert data_of(text)["columns"][0]["strings"].split("\n")[0] == shown


def test_the_page_fetches_nothing_and_runs_only_its_own_script():
    text = page("title", {}, [], []).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.search(r"<script>(.*)</script>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//|@import|url\(", text)


def test_equal_labels_are_stored_once_and_numbers_are_decoded():
    points = np.array([[1.5, -2], [0.25, 3]], np.float64)
    scatter = Scatter("pairs", "", "", points, [["a", "a"], ["b", "c\td"]], "pairs", [("x in nats", "x"), ("y", "y")])
    data = data_of(scatter.to_html())
    assert [column["strings"] for column in data["columns"]] == ["a", "b\nc d"]
    assert np.frombuffer(base64.b64decode(data["columns"][0]["index"]), "<i4").tolist() == [0, 0]
    assert data["columns"][1]["index"] is None and data["axes"]["x"]["label"] == "x in nats"
    assert np.frombuffer(base64.b64decode(data["y"]), "<f4").tolist() == [-2, 3]


def test_a_table_as_tsv():
    table = Table("caption", ["word", "p"], [["a\tb\nc", 0.5], ["caf\udce9", 1]])
    assert table.to_tsv().decode() == "word\tp\na b c\t0.5\ncaf\ufffd\t1\n"
