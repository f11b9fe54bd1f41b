"""The report of a toy model, as a function."""

import csv
import importlib
import re
import sys

import numpy as np
import pytest
from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model
from undrawn import undrawn

from keras_encdec.analysis import (
    ReportOptions,
    TablePair,
    best_targets,
    phrase_gates,
    phrase_vectors,
    read_table_sample,
    report,
    sampled_targets,
)
from keras_encdec.analysis.report import report_folder
from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.formats import model_words
from keras_encdec.scoring import TextScorer, score_file


@pytest.fixture(scope="module")
def written(model_dirs, table, tmp_path_factory):
    """A report's summary, its folder, and the lines that were shown."""
    from eagerly import uncompiled

    folder, said = tmp_path_factory.mktemp("report") / "out", []
    with uncompiled():
        summary = report(
            model_dirs / "forward",
            folder,
            table,
            say=said.append,
            options=ReportOptions(phrases_per_kind=2, samples=5),
        )
    return summary, folder, said


@pytest.fixture
def quickly():
    """Nothing is compiled or drawn."""
    with undrawn():
        yield


def read(folder, name):
    with open(folder / "tables" / f"{name}.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_one_page_with_its_tables_and_figures(written):
    summary, folder, said = written
    assert summary.page == folder / "index.html" and summary.notices == ()
    assert summary.sections == ("best-targets", "samples", "scores", "lengths", "gates", "words", "phrases")
    assert re.fullmatch(r"Report of \d+ sections in [\d.]+ s, a page of [\d.]+ MB: .*index.html", str(summary))
    text = summary.page.read_text(encoding="utf-8")
    for name in summary.sections:
        assert f'<section id="{name}"' in text
    assert "<b>" not in text and "le chat &lt;b&gt; R&amp;D" in text
    assert (folder / "figures" / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "figures" / "scores.svg").read_bytes()
    assert any(line.startswith("Scoring 45 pairs") for line in said)


def test_maps_have_their_vectors_and_neighbours(written):
    _, folder, _ = written
    names = (folder / "projector" / "phrases" / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    vectors = (folder / "projector" / "phrases" / "vectors.tsv").read_text().splitlines()
    assert len(names) == len(vectors) == 6 and "le chat <b> R&D" in names and len(vectors[0].split("\t")) == 8
    assert [row["words"] for row in read(folder, "words_map")][:2] == ["le", "la"]
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "<li>rank 1 to 100: " in page and "<li>4 words: " in page, "words are grouped by rank, phrases by length"
    nearest = [row for row in read(folder, "phrases_neighbours") if row["phrases"] == "le chat <b> R&D"]
    assert [row["rank"] for row in nearest] == ["1", "2", "3", "4", "5"]
    assert float(nearest[0]["cosine"]) >= float(nearest[-1]["cosine"])


def test_table_2_has_the_best_targets_by_the_table_and_by_the_model(written, table, forward_scorer):
    rows = [row for row in read(written[1], "best_targets") if row["source"] == "le chat <b> R&D"]
    assert [row["rank"] for row in rows] == ["1", "2", "3"] and {row["kind"] for row in rows} == {"frequent"}
    lines = [line.split(" ||| ") for line in table.read_text(encoding="utf-8").splitlines()[:5]]
    words = [(model_words(source), model_words(target)) for source, target, *_ in lines]
    scores = dict(zip((" ".join(target) for _, target in words), forward_scorer.score(words), strict=True))
    assert [row["by model"] for row in rows] == sorted(scores, key=scores.get, reverse=True)[:3]
    by_table = {" ".join(model_words(line[1])): float(line[2].split()[2]) for line in lines}
    assert [row["by table"] for row in rows] == sorted(by_table, key=by_table.get, reverse=True)[:3]


def test_targets_that_differ_in_their_factors_are_one_target_of_table_2(forward_scorer):
    lines = [
        TablePair("le chat", target, p, 9) for target, p in (("the|D cat", 0.5), ("cat", 0.1), ("the|X cat", 0.25))
    ]
    [phrase] = best_targets(forward_scorer, [lines])
    by_model = np.exp(forward_scorer.score([(["le", "chat"], ["the", "cat"]), (["le", "chat"], ["cat"])]))
    assert phrase.options == [
        ("the cat", 0.75, pytest.approx(by_model[0], rel=1e-4)),
        ("cat", 0.1, pytest.approx(by_model[1], rel=1e-4)),
    ]


def test_a_model_of_raw_text_reads_the_words_of_a_table_without_escapes(tmp_path):
    pytest.importorskip("tensorflow_text")
    path = save_model(tmp_path / "raw", SOURCE_WORDS, ["the", "'", "s"], tokenization={"lowercase": True})
    source, words = "le &#124; &apos;", ["le", "|", "'"]
    (tmp_path / "table").write_text(f"{source} ||| the &apos; s ||| 1 1 1\n")
    score_file(path, tmp_path / "table", tmp_path / "scored")
    expected = float((tmp_path / "scored").read_text().split()[-1])
    [preferences] = best_targets(TextScorer(path), [read_table_sample(tmp_path / "table").pairs])
    assert preferences.options == [("the ' s", 1.0, pytest.approx(expected, rel=1e-4))]
    assert phrase_gates(path, [source])[0].words[:-1] == words
    assert phrase_vectors(path, [source]).names == [" ".join(words)]
    assert sampled_targets(TextGenerator([path]), [source], samples=1)[0].distinct[0].source_words == words


def test_table_3_has_distinct_samples_with_their_counts(written):
    rows = [row for row in read(written[1], "samples") if row["source"] == "la maison <b> été"]
    assert sum(int(row["count"]) for row in rows) == 5
    scores = [float(row["ln p (nats)"]) for row in rows]
    assert scores == sorted(scores, reverse=True) and len({row["sample"] for row in rows}) == len(rows)


def test_figure_3_has_every_pair(written, forward_scorer):
    rows = read(written[1], "scores")
    assert len(rows) == 45
    words = [(row["source"].split(), row["target"].split()) for row in rows]
    expected = forward_scorer.score(words).tolist()
    assert [float(row["ln p by model (nats)"]) for row in rows] == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("quickly")
def test_an_earlier_report_is_replaced_and_no_other_file(model_dirs, table, tmp_path):
    out = tmp_path / "out"
    first = report(model_dirs / "forward", out, table, samples=2)
    (out / "tables" / "mine.tsv").write_text("mine")
    second = report(model_dirs / "forward", out, options=ReportOptions(map_words=20))
    assert "scores" in first.sections and second.sections == ("words",)
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    tables = [f"tables/{name}.tsv" for name in ("mine", "words_map", "words_neighbours")]
    projector = [f"projector/words/{name}.tsv" for name in ("metadata", "vectors")]
    assert found == ["figures/words.png", "figures/words.svg", "index.html", *projector, *tables]
    assert not (out / "projector" / "phrases").exists()


@pytest.mark.usefixtures("quickly")
def test_a_page_that_is_not_a_report_is_not_replaced(model_dirs, tmp_path):
    (tmp_path / "index.html").write_text("<h1>My home page</h1>")
    with pytest.raises(InputError, match="index.html: found a page that encdec-report did not write, expected the"):
        report(model_dirs / "forward", tmp_path)
    with pytest.raises(
        ValueError, match="found None in place of the path of the folder of a report, expected a str or"
    ):
        report(model_dirs / "forward", None)
    with pytest.raises(ValueError, match="found options={'samples': 5}, expected a ReportOptions"):
        report(model_dirs / "forward", tmp_path, options={"samples": 5})
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


@pytest.mark.usefixtures("quickly")
def test_a_single_short_pair_gives_a_report(model_dirs, tmp_path):
    (tmp_path / "table").write_text("le gros chi\U0010fffd ||| the cat ||| 1 1 0.5 1\n", encoding="utf-8")
    summary = report(model_dirs / "forward", tmp_path / "out", tmp_path / "table")
    text = summary.page.read_text(encoding="utf-8")
    assert "no source phrase of four words or more" in text and "r undefined" in text
    assert [path.name for path in summary.page.parent.glob("figures/gates_[0-9].png")] == ["gates_1.png"]
    unknown, boxes = summary.notices
    assert unknown.startswith(f"warning: Most source words of {tmp_path}/table are unknown to the model (67 %)")
    assert boxes.startswith("warning: The figures show boxes in place of a character, \U0010fffd, because no installed")
    assert all(notice.removeprefix("warning: ") in text for notice in (unknown, boxes)), boxes


def test_a_table_of_unknown_words_is_an_error(tmp_path, table, model_dirs):
    foreign = save_model(tmp_path / "model", ["ein", "Wort"], TARGET_WORDS)
    with pytest.raises(InputError, match="found no source word that the model knows, expected text of the model's"):
        report(foreign, tmp_path / "parents" / "out", table)
    assert not (tmp_path / "parents").exists()


def test_unusable_models_and_folders_are_errors(model_dirs, table, tmp_path):
    with pytest.raises(InputError, match="found a model of p.source . target., trained with"):
        report(model_dirs / "reverse", tmp_path / "out", table)
    language_model = save_model(tmp_path / "lm", [], TARGET_WORDS, language_model=True)
    with pytest.raises(InputError, match="found a language model"):
        report(language_model, tmp_path / "out", table)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: found a file of this name"):
        report(model_dirs / "forward", tmp_path / "file", table)


def test_a_failed_report_leaves_no_empty_folders(model_dirs, tmp_path, monkeypatch):
    def refuse(path, content):
        raise InputError("found the disk full", path=path)

    monkeypatch.setattr(importlib.import_module("keras_encdec.analysis.report"), "write_file", refuse)
    with pytest.raises(InputError, match="found the disk full"):
        report(model_dirs / "forward", tmp_path / "new" / "report")
    assert not (tmp_path / "new").exists()


def test_two_reports_are_not_mixed_in_one_folder(model_dirs, tmp_path):
    with (
        report_folder(tmp_path / "report"),
        pytest.raises(
            InputError, match="report: found another report at work in this directory .*, or give another --output"
        ),
    ):
        report(model_dirs / "forward", tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_missing_jinja2_is_named_with_its_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("keras_encdec.analysis.page")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'report needs jinja2, .*: pip install "keras-encdec\[analysis\]"'):
        importlib.import_module("keras_encdec.analysis.page.page")


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    from keras_encdec.runtime.imports import check_extra

    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(ImportError, match=r'needs openTSNE, .*: pip install "keras-encdec\[analysis\]"'):
        check_extra("analysis", "The report")


def test_sacrebleu_is_looked_for_before_anything_is_computed(model_dirs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    (tmp_path / "text").write_text("le chat\n")
    with pytest.raises(ImportError, match=r'BLEU needs sacrebleu, .*: pip install "keras-encdec\[smt\]"'):
        report(model_dirs / "forward", tmp_path / "out", source=tmp_path / "text", target=tmp_path / "text")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("quickly")
def test_sentences_give_lengths_bleu_and_attention(tmp_path):
    pytest.importorskip("sacrebleu", reason="BLEU needs the extra smt: pip install '.[smt]'")
    model = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="gru", attention="global")
    (tmp_path / "source").write_text("le chat la maison\nla maison &lt;b&gt; été\n", encoding="utf-8")
    (tmp_path / "target").write_text("the cat house\nthe summer\n", encoding="utf-8")
    (model / "history.json").write_text('{"rounds": [{"updates": 1, "pairs": 2, "seconds": 1, "learning_rate": 1}]}')
    files = {"source": tmp_path / "source", "target": tmp_path / "target", "compare_with": [model]}
    summary = report(model, tmp_path / "out", **files)
    assert summary.sections == ("sentence-lengths", "bleu", "attention", "gates", "words", "training")
    weights = [row for row in read(tmp_path / "out", "attention") if row["sentence"] == "1"]
    sums = {}
    for row in weights:
        sums.setdefault(row["target token"], []).append(float(row["weight"]))
    assert sum(map(sum, sums.values())) == pytest.approx(len(weights) / 5, abs=1e-3), "a row of five source tokens"
    assert [row["sentences"] for row in read(tmp_path / "out", "bleu")] == ["2"]
    (tmp_path / "target").write_text("the cat house\n")
    with pytest.raises(InputError, match="target: found 1 line, expected 2"):
        report(model, tmp_path / "out", **files)
    with pytest.raises(ConfigurationError, match="found phrases_per_kind with phrases, which leave none"):
        report(model, tmp_path / "out", phrases=("a b",), phrases_per_kind=2, **files)
    with pytest.raises(ConfigurationError, match="found target without source"):
        report(model, tmp_path / "out", target=tmp_path / "target")
