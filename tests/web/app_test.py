"""The API and the files of the page, requested in this process."""

import gc
import json
import os
import pathlib
import re
import sys
import urllib.request

import jsonschema
import numpy as np
import pytest
from eagerly import uncompiled
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from toy_explorer import PHRASES, toy_explorer

from keras_encdec.runtime.metrics import served_metrics
from keras_encdec.scoring import TextScorer
from keras_encdec.web import create_app
from keras_encdec.web.openapi import openapi

HOST = "http://127.0.0.1:8080"
# The body that is posted to each address, and the limits in the tests.
POSTED = {
    "translate": {"source": "le chat <b>", "beams": 4, "best": 3},
    "sample": {"source": "le chat", "samples": 9, "best": 4, "seed": 3},
    "score": {"source": "le chat", "target": "the cat", "page": "me"},
    "gates": {"source": "le chat"},
    "neighbours": {"source": "la maison", "size": 3},
}
LIMITS = {"max_words": 9, "requests_per_minute": 1000}


@pytest.fixture(scope="module")
def explorers(model_dirs, tmp_path_factory):
    """The paper's model, one with attention, an LSTM without attention or phrases, and a reverse model."""
    folder = tmp_path_factory.mktemp("models")
    with uncompiled():
        yield {
            "encdec": toy_explorer(model_dirs / "forward", limits=LIMITS),
            "attention": toy_explorer(folder / "attention", cell="gru", attention="global"),
            "lstm": toy_explorer(folder / "lstm", phrases=[], cell="lstm"),
            "reverse": toy_explorer(model_dirs / "reverse", phrases=["the cat", "the house 's"]),
        }


@pytest.fixture(scope="module")
def asked(explorers):
    """A function that sends a request to the API of a model and returns the response."""
    clients = {
        name: TestClient(create_app(explorer, ["127.0.0.1"]), HOST, raise_server_exceptions=False)
        for name, explorer in explorers.items()
    }

    def ask(name, body=None, model="encdec", **arguments):
        if body is not None:
            arguments |= {"content": body} if isinstance(body, str | bytes) else {"json": body}
            return clients[model].post(f"/api/{name}", **arguments)
        return clients[model].get(name, **arguments)

    return ask


def refused(response, status, *expected):
    assert response.status_code == status, response.text
    [sentence] = response.json().values()
    assert sentence[0].isupper() and sentence.endswith(".") and "\n" not in sentence
    for text in expected:
        assert text in sentence, sentence
    assert response.headers["x-content-type-options"] == "nosniff"


def test_requests_and_responses_match_the_openapi_description(asked, explorers):
    described = asked("/openapi.json").json()
    assert described == json.loads(json.dumps(openapi(explorers["encdec"].limits)))
    assert set(described["paths"]) == {"/api/model", *(f"/api/{name}" for name in POSTED)}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            name = path.removeprefix("/api/")
            if method == "post":
                body = operation["requestBody"]["content"]["application/json"]["schema"]
                jsonschema.Draft202012Validator.check_schema(body)
                jsonschema.validate(POSTED[name], body)
            for model in ("encdec", "attention"):
                answer = asked(name, POSTED[name], model) if method == "post" else asked(path, model=model)
                assert answer.status_code == 200, answer.text
                schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
                jsonschema.validate(answer.json(), schema, jsonschema.Draft202012Validator)


def test_the_application_may_be_below_a_path_of_another_one(explorers):
    client = TestClient(Starlette(routes=[Mount("/try", create_app(explorers["encdec"]))]), HOST)
    [server] = client.get("/try/openapi.json").json()["servers"]
    assert client.get(f"{server['url']}/api/model").status_code == 200
    page = client.get("/try").text
    for file in re.findall(r'(?:src|href)="(page/[^"]+)"', page):
        assert client.get(f"/try/{file}").status_code == 200
    assert 'src="page/' in page
    for path in ("none", "api/score", "page/none"):
        assert client.get(f"/try/{path}").json()["error"].endswith("; the API is described at /try/openapi.json.")


@pytest.mark.parametrize("space", ["\n", "\r\n", "\r", "\t"])
def test_line_breaks_separate_words_as_spaces_do(asked, space):
    for name in ("translate", "sample", "score"):
        given = {**POSTED[name], "source": "le chat la"}
        broken = {**given, "source": given["source"].replace(" ", space) + space}
        assert asked(name, broken).json() == asked(name, given).json()


def test_targets_come_with_their_tokens_and_attention(asked):
    answer = asked("translate", POSTED["translate"], "attention").json()
    assert answer["source"] == [{"word": word, "known": True} for word in ("le", "chat", "<b>")]
    targets = answer["targets"]
    assert len(targets) == 3 and [target["log_prob"] for target in targets] == sorted(
        (target["log_prob"] for target in targets), reverse=True
    )
    for target in targets:
        assert target["tokens"][-1]["word"] == "(end)"
        assert " ".join(token["word"] for token in target["tokens"][:-1]) == target["text"]
        assert sum(token["log_prob"] for token in target["tokens"]) == pytest.approx(target["log_prob"], abs=1e-3)
        assert np.exp(target["log_prob"]) == pytest.approx(target["probability"], rel=2e-3)
        assert np.array(target["attention"]).shape == (len(target["tokens"]), 4)
        np.testing.assert_allclose(np.sum(target["attention"], axis=1), 1, atol=4e-3)
    answer = asked("translate", {"source": "le chien", "beams": 4}).json()
    assert answer["source"][1] == {"word": "chien", "known": False} and len(answer["targets"]) == 4


def test_samples_are_counted(asked):
    answer = asked("sample", POSTED["sample"]).json()
    counts = [target["count"] for target in answer["targets"]]
    assert counts == sorted(counts, reverse=True) and len(counts) == 4 and sum(counts) <= answer["samples"] == 9
    assert asked("sample", POSTED["sample"]).json() == answer
    assert asked("sample", {**POSTED["sample"], "seed": 4}).json() != answer


def test_pairs_get_the_scores_of_the_scorer(asked, forward_scorer, model_dirs):
    pair = POSTED["score"]["source"], POSTED["score"]["target"]
    [expected] = forward_scorer.score([forward_scorer.words(*pair)])
    answer = asked("score", POSTED["score"]).json()
    assert answer["target"]["log_prob"] == pytest.approx(expected, abs=1e-3)
    assert answer["perplexity"] == pytest.approx(np.exp(-expected / 3), rel=1e-3)
    lines = {name: text.replace(" ", "\r\n") for name, text in POSTED["score"].items()}
    assert " " in POSTED["score"]["target"] and asked("score", lines).json() == answer
    reverse = TextScorer(model_dirs / "reverse")
    [expected] = reverse.score([reverse.words("le chat", "the cat")])
    answer = asked("score", {"source": "the cat", "target": "le chat"}, "reverse").json()
    assert answer["target"]["log_prob"] == pytest.approx(expected, abs=1e-3)
    assert asked("score", {"source": "le", "target": ""}).json()["target"]["tokens"][0]["word"] == "(end)"


def test_neighbours_and_gates_belong_to_the_typed_words(asked):
    near = asked("neighbours", {"source": "R&D <b> [X]", "size": 10}).json()
    assert near["phrases"] == len(PHRASES) and len(near["neighbours"]) == len(PHRASES) - 1  # not itself
    similarities = [neighbour["similarity"] for neighbour in near["neighbours"]]
    assert similarities == sorted(similarities, reverse=True)
    exact = asked("neighbours", {"source": "la maison la", "size": 1}).json()["neighbours"][0]
    assert exact["text"] in PHRASES
    gates = asked("gates", {"source": "a|b <script> &lt;"}).json()
    assert gates["words"] == ["a|b", "<script>", "<", "(end)"] and gates["units"] == 8
    assert np.array(gates["update"]).shape == np.array(gates["reset"]).shape == (4, 8)
    assert gates["mean_update"][0] == pytest.approx(np.mean(gates["update"][0]), abs=0.01)


def test_an_endpoint_that_the_model_cannot_answer_is_refused(asked):
    facts = asked("/api/model", model="lstm").json()
    assert not facts["has_gates"] and not facts["has_attention"] and not facts["has_neighbours"]
    refused(asked("gates", {"source": "le"}, "lstm"), 404, "without gates")
    refused(asked("neighbours", {"source": "le"}, "lstm"), 404, "without phrases to compare with")
    assert asked("translate", POSTED["translate"], "lstm").json()["targets"][0]["attention"] is None
    assert asked("/api/model", model="reverse").json()["reads"] == "target"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, ["Found no source", "beams (optional)"]),
        ([], ["Found no JSON object"]),
        ({"source": 1}, ["source=1", "a text"]),
        ({"source": " \t"}, ["Found no words"]),
        ({"source": "le " * 10}, ["Found 10 words", "9 at most"]),
        ({"source": "x" * 181}, ["181 characters", "180 at most"]),
        ({"source": "le", "beams": 0}, ["beams=0", "from 1 to 32"]),
        ({"source": "le", "beams": True}, ["beams=true"]),
        ({"source": None}, ["source=null", "a text"]),
        ({"source": "le", "beams": 2.5}, ["beams=2.5"]),
        ({"source": "le", "best": 13}, ["Found best=13 with beams=12", "expected 12 at most; give more beams"]),
        ({"source": "le", "page": "x" * 65}, ["page of 65 characters"]),
        ({"source": "le", "colour": "red"}, ['"colour"']),
        ({"source": "le", "": 1}, ['the field ""']),
        ('{"source": "\\ud800"}', ["surrogate"]),
        ("{", ["not JSON"]),
        (b"\xff", ["not JSON"]),
        ("[" * 4000, ["not JSON"]),
        ('{"source": "le", "beams": %s}' % ("9" * 4301), ["not JSON"]),
        ('{"source": %s}' % ("[" * 900 + "]" * 900), ["a text"]),
    ],
)
def test_invalid_requests_are_refused_with_a_sentence(asked, body, expected):
    refused(asked("translate", body, headers={"Content-Type": "application/json"}), 422, *expected)


def test_requests_of_other_kinds_are_refused(asked, explorers):
    size = explorers["encdec"].limits.max_bytes
    refused(asked("translate", "x" * (size + 1), headers={"Content-Type": "application/json"}), 413, f"{size:,} bytes")
    in_parts = (b"x" * 100 for _ in range(1 + size // 100))
    with pytest.raises(ValueError, match="found None, expected an Explorer of the model"):
        create_app(None)
    client = TestClient(create_app(explorers["encdec"]), HOST)
    refused(client.post("/api/translate", content=in_parts, headers={"Content-Type": "application/json"}), 413)
    headers = {"Content-Type": "application/json", "Content-Length": "9" * 5000}
    refused(client.post("/api/translate", content="{}", headers=headers), 413)
    text = asked("translate", '{"source": "le"}', headers={"Content-Type": "text/plain"})
    refused(text, 415, "'text/plain', expected application/json")
    refused(asked("/api/translate"), 405, "GET", "expected POST")
    refused(asked("/none"), 404, "/none")
    refused(asked("/api/translate/"), 404, "Found no page at /api/translate/")
    refused(asked("/page/../app.py"), 404)
    refused(asked("/api/model", headers={"Host": "evil.example"}), 400, "'evil.example'", "127.0.0.1")
    assert asked("/api/model", headers={"Host": "127.0.0.1:9"}).status_code == 200


def test_too_many_requests_are_refused(explorers, model_dirs):
    client = TestClient(create_app(toy_explorer(model_dirs / "forward", [], {"requests_per_minute": 2})), HOST)
    assert [client.get("/api/model").status_code for _ in range(3)] == [200, 200, 429]
    refused(client.get("/api/model"), 429, "more than 2 requests within a minute")
    assert 0 < int(client.get("/api/model").headers["retry-after"]) <= 60
    assert client.get("/").status_code == 200  # the page itself
    other = TestClient(client.app, HOST, client=("10.0.0.1", 1))
    assert other.get("/api/model").status_code == 200


def test_a_failure_of_the_server_is_answered_with_a_sentence(explorers, asked, monkeypatch):
    monkeypatch.setattr(explorers["encdec"], "translate", lambda source: 1 / 0)
    answer = asked("translate", {"source": "le"})
    refused(answer, 500, "failed")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/page/try.js", "/page/try.css", "/api/model", "/openapi.json", "/none"])
def test_every_response_has_headers_that_isolate_the_page(asked, path):
    headers = asked(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_the_page_has_no_inline_script_or_style(asked):
    page, script = asked("/").text, asked("/page/try.js").text
    assert "<style" not in page and " style=" not in page and "onclick" not in page and "<script>" not in page
    assert "innerHTML" not in script and "insertAdjacent" not in script and "eval(" not in script


def test_vocabulary_bytes_that_are_not_utf8_are_replaced(asked):
    answer = asked("score", {"source": "le", "target": "caf\ufffd"})
    assert answer.status_code == 200
    drawn = asked("sample", {"source": "le chat", "samples": 200, "best": 200})
    assert drawn.status_code == 200 and "caf\ufffd" in drawn.text


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_memory_does_not_grow_with_the_requests(tmp_path):
    sizes = {"embedding_dim": 64, "units": 256, "maxout_units": 64, "output_rank": 64}
    client = TestClient(create_app(toy_explorer(tmp_path / "large", phrases=[], **sizes)), HOST)

    def megabytes():
        pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def ask(times):
        for _ in range(times):
            assert client.post("/api/score", json=POSTED["score"]).status_code == 200

    threshold = gc.get_threshold()
    gc.set_threshold(1 << 20)  # Python is not to find cycles by chance
    try:
        ask(3)
        before = megabytes()
        ask(20)
        assert megabytes() - before < 200
    finally:
        gc.set_threshold(*threshold)


def test_requests_are_measured(asked):
    pytest.importorskip("prometheus_client", reason="pip install '.[metrics]'")
    with served_metrics("encdec-serve", 0) as port:
        assert asked("translate", POSTED["translate"]).status_code == 200
        assert asked("translate", "{").status_code == 415
        with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    assert 'encdec_request_seconds_count{task="encdec-serve"} 2.0' in text
    assert 'encdec_request_errors_total{task="encdec-serve"} 1.0' in text
