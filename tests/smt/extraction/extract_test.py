"""Parallel text to a phrase table."""

import errno
import gzip
import io
import math
import os
import random
import signal
import subprocess
import sys

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.runtime.progress import ReadingProgress
from keras_encdec.smt import extract_phrase_table, score_phrases
from keras_encdec.smt.extraction import extract, phrase_runs, sentence_batches

SENTENCES = [
    ("the house", "la maison", "0-0 1-1"),
    ("the [blue] house", "la maison bleue", "0-0 1-2 2-1"),
    ("a house | a flower", "une maison | une fleur", "0-0 1-1 2-2 3-3 4-4"),
    ("the flower", "la fleur", "0-0 1-1"),
    ("the blue flower is blue", "la fleur bleue est bleue", "0-0 1-2 2-1 4-4"),
    ("the the now", "la donc", "0-0 1-0"),
]


def write(folder, sentences):
    for name, lines in zip(("en", "fr", "align"), zip(*sentences, strict=True), strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture
def files(tmp_path):
    return write(tmp_path, SENTENCES)


def extracted(folder, output, **options):
    """The lines of the table of the files, made in this process."""
    options = {"alignment": folder / "align", "number_of_processes": 1, **options}
    summary = extract_phrase_table(folder / "fr", output, source=folder / "en", **options)
    lines = output.read_text(encoding="utf-8").splitlines()
    assert summary.lines == len(lines)
    return lines


def in_memory(sentences, **options):
    points = [[tuple(map(int, link.split("-"))) for link in links.split()] for *_, links in sentences]
    return list(score_phrases([(s.split(), t.split()) for s, t, _ in sentences], points, **options))


def naive_lexical_weights(sentences, line):
    """lex(f|e) and lex(e|f) of a line of a table, by going through the text for every word."""
    pairs = []
    for source, target, links in sentences:
        source, target, links = source.split(), target.split(), [tuple(map(int, x.split("-"))) for x in links.split()]
        pairs += [(source[i], target[j]) for i, j in links]
        pairs += [(word, None) for i, word in enumerate(source) if i not in dict(links)]
        pairs += [(None, word) for j, word in enumerate(target) if j not in [j for _, j in links]]
    source, target, _, links = (field.split() for field in line.split(" ||| ")[:4])
    links = [tuple(map(int, link.split("-"))) for link in links]

    def weight(side):
        words, others, product = (source, target)[side], (target, source)[side], 1
        for place, word in enumerate(words):
            given = [others[link[1 - side]] for link in links if link[side] == place] or [None]
            total = 0
            for other in given:
                same = [pair for pair in pairs if pair[1 - side] == other]
                total += sum(pair[side] == word for pair in same) / len(same)
            product *= total / len(given)
        return product

    return weight(0), weight(1)


def test_scores_are_those_of_a_naive_implementation(files, out):
    sentences = [sentence for sentence in SENTENCES if "|" not in sentence[0] and "[" not in sentence[0]]
    for line in extracted(write(files, sentences), out / "table"):
        source, target, scores, _, counts, _ = line.split(" ||| ")
        _, lexical_source, _, lexical_target = map(float, scores.split())
        expected = naive_lexical_weights(sentences, line)
        assert (lexical_source, lexical_target) == pytest.approx(expected, rel=1e-5)
        assert scores.split()[::2] == [f"{int(counts.split()[2]) / int(n):.6g}" for n in counts.split()[:2]]


@pytest.mark.parametrize("smoothing", ["none", "good_turing", "kneser_ney"])
def test_the_table_made_on_disk_is_the_one_made_in_memory(tmp_path, out, monkeypatch, smoothing):
    choose = random.Random(1)
    sentences = []
    for _ in range(80):
        source, target = ([choose.choice("abcd|é") for _ in range(choose.randint(3, 9))] for _ in range(2))
        most = range(choose.randint(1, 9))
        links = {(choose.randrange(min(i + 2, len(source))), min(i, len(target) - 1)) for i in most}
        sentences.append((" ".join(source), " ".join(target), " ".join(f"{i}-{j}" for i, j in sorted(links))))
    monkeypatch.setattr(sentence_batches, "WORDS_IN_BATCH", 100)
    monkeypatch.setattr(phrase_runs, "RANGE_BYTES", 1000)
    monkeypatch.setattr(phrase_runs, "PAIRS_IN_MEMORY", 50)
    monkeypatch.setattr(extract, "PAIRS_IN_PARTITION", 200)
    expected = in_memory(sentences, max_length=4, smoothing=smoothing)
    assert len(expected) > 300 and expected == sorted(expected, key=str.encode)
    result = extracted(write(tmp_path, sentences), out / "table", max_phrase_length=4, smoothing=smoothing)
    assert result == expected
    assert os.listdir(out) == ["table"]


def test_several_processes_align_and_make_the_same_table(files, out):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    options = {"alignment": None, "aligner": "fast_align", "symmetrization": "intersection"}
    alone = extracted(write(files, SENTENCES * 4), out / "alone", **options)
    assert extracted(files, out / "together", **options, number_of_processes=2) == alone
    assert any(line.startswith("house ||| maison ||| ") for line in alone)


def test_text_and_table_may_be_compressed_raw_or_in_another_encoding(files, out):
    pairs = "L'été|\tThe summer|\n\nQuoi ?\tWhat?\n".replace("\n\n", "\n")
    (files / "tsv.gz").write_bytes(gzip.compress(pairs.encode("latin-1")))
    (files / "links").write_text("0-0 2-1 3-2\n0-0 1-1\n")
    options = {"alignment": files / "links", "encoding": "latin-1", "tokenize": True, "lowercase": True}
    extract_phrase_table(files / "tsv.gz", out / "table.gz", format="tsv", number_of_processes=1, **options)
    lines = gzip.decompress((out / "table.gz").read_bytes()).decode("latin-1").splitlines()
    assert "&apos; été ||| summer ||| 0.5 1 1 1 ||| 1-0 ||| 2 1 1 ||| |||" in lines
    assert "&#124; ||| &#124; ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||" in lines
    assert any(line.startswith("quoi ? ||| what ? |||") for line in lines)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"fr": "la maison\n", "align": "0-0\n" * 6}, r"en: found 6 lines, and 1 line in .*fr"),
        ({"align": "0-0\n"}, "align: found 1 line, and 6 lines in"),
        ({"align": "0-0\n0-3\n\n\n\n\n"}, 'align, line 2: found the link "0-3", expected positions in a source of 3'),
        ({"en": "a\n\nb\nc\nd\ne\n", "align": "\n" * 6}, "en, line 2: found an empty sentence, .*--on_error=keep"),
        ({"fr": "a\nb\n \t\nc\nd\ne\n", "align": "\n" * 6}, "fr, line 3: found an empty sentence"),
        ({"fr": "a\nb b b b b b b\nc\nd\ne\nf\n", "align": "\n" * 6}, "fr, line 2: found 7 words, expected at most 6"),
        ({"fr": ""}, "fr: found an empty file"),
    ],
)
def test_unusable_text_is_an_error_at_its_line(files, out, changed, message):
    for name, text in changed.items():
        (files / name).write_text(text)
    (out / "table").write_text("before")
    with pytest.raises(InputError, match=message):
        extracted(files, out / "table", max_sentence_length=6)
    assert os.listdir(out) == ["table"] and (out / "table").read_text() == "before"


def test_unusable_pairs_are_left_out_with_their_links(files, out):
    unusable = [("", "rien", ""), ("x " * 9, "y", "0-0"), ("x", "", "")]
    write(files, [unusable[0], *SENTENCES[:3], *unusable[1:], *SENTENCES[3:]])
    options = {"alignment": files / "align", "on_error": "keep", "max_sentence_length": 8, "number_of_processes": 1}
    summary = extract_phrase_table(files / "fr", out / "table", source=files / "en", **options)
    assert (out / "table").read_text().splitlines() == in_memory(SENTENCES)
    assert (summary.sentence_pairs, summary.left_out) == (6, 3)
    assert " from 6 sentence pairs, 3 lines left out in " in str(summary)
    write(files, unusable)
    with pytest.raises(InputError, match="found 3 lines, all .* longer than 8 words, .* raise --max_sentence_length"):
        extract_phrase_table(files / "fr", out / "table", source=files / "en", **options)


def test_text_without_links_gives_an_empty_table_and_a_warning(files, out):
    write(files, [("a b", "x", ""), ("c", "y", "")])
    options = {"alignment": files / "align", "number_of_processes": 1}
    summary = extract_phrase_table(files / "fr", out / "table", source=files / "en", **options)
    assert (out / "table").read_bytes() == b"" and "the table is empty" in summary.notices[0]


def test_an_extraction_that_fails_keeps_no_tables_in_memory(files, out):
    write(files, [("a", "x", "0-0")])
    with pytest.raises(InputError, match="no phrase pair that was extracted twice"):
        extracted(files, out / "table", smoothing="kneser_ney")
    assert not sentence_batches.read_vocabulary.cache_info().currsize


def test_unusable_arguments_are_refused(files, out):
    for wrong, value in {
        "max_phrase_length": 0,
        "max_sentence_length": 0,
        "smoothing": "some",
        "aligner": "giza",
        "symmetrization": "both",
    }.items():
        with pytest.raises(ConfigurationError, match=f"found {wrong}={value!r}, expected"):
            extracted(files, out / "table", **{"alignment": None, wrong: value})
    for given in ({"aligner": "hmm"}, {"symmetrization": "union"}):
        with pytest.raises(ConfigurationError, match=f"found {next(iter(given))} with alignment, whose links are used"):
            extracted(files, out / "table", **given)
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        extracted(files, files / "align")
    pytest.importorskip("thot", reason="sil-thot is not installed")
    with pytest.raises(ConfigurationError, match="max_sentence_length=201, expected at most 200, .* aligner hmm takes"):
        extracted(files, out / "table", alignment=None, aligner="hmm", max_sentence_length=201)
    assert os.listdir(out) == []


def test_each_step_reports_its_progress(files, out):
    shown = []

    def progress(lines, unit):
        shown.append(ReadingProgress(lines, unit, io.StringIO(), pause=math.inf))
        return shown[-1]

    table = extracted(files, out / "table", progress=progress)
    assert [(step.unit, step.count) for step in shown] == [
        ("sentence pairs", 6),
        ("sentence pairs", 6),
        ("phrase pairs", len(table)),
        ("lines", len(table)),
    ]
    assert all(step.lines.size_done == step.lines.size for step in shown)


# An extraction whose processes sleep.
SCRIPT = """
import multiprocessing, sys, time
from keras_encdec.cli.extract import COMMAND
from keras_encdec.smt.extraction.extract import ExtractionJob

def extract_slowly(job, *arguments):
    waiting = job._in_parallel(time.sleep, [0.01, 0.01, 600, 600])
    next(waiting)
    print(*[process.pid for process in multiprocessing.active_children()], flush=True)
    next(waiting)

ExtractionJob.extract = extract_slowly
if __name__ == "__main__":
    COMMAND.run()
"""


def test_a_killed_extraction_leaves_no_process_and_the_next_one_removes_its_files(files, out, signals_obeyed):
    flags = f"--source={files}/en", f"--target={files}/fr", f"--alignment={files}/align", f"--output={out}/table"
    for number, status in ((signal.SIGKILL, -9), (signal.SIGTERM, 143)):
        command = [sys.executable, "-c", SCRIPT, *flags, "--processes=2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pids = list(map(int, process.stdout.readline().split()))
        assert pids and any(os.path.isdir(out / name) for name in os.listdir(out)), process.stderr.read()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)  # which ends when no process has the pipes any longer
        assert process.returncode == status
    assert errors == "encdec-extract: interrupted; no unfinished output is left.\n"
    assert os.listdir(out) == []


def test_a_pipe_may_be_named_by_its_descriptor(files):
    """As `--output=>(xz > table.xz)` in a shell names it."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb"):
        summary = extract_phrase_table(
            files / "fr", f"/dev/fd/{writing}", source=files / "en", alignment=files / "align", number_of_processes=1
        )
        lines = pipe.read1(1 << 16).splitlines()
    assert len(lines) == summary.lines > 0


def test_a_full_disk_is_named_with_the_output(files, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(extract.ExtractionJob, "align", refuse)
    with pytest.raises(InputError, match="table.gz: found the disk full when trying to write temporary files"):
        extract_phrase_table(files / "fr", files / "table.gz", source=files / "en")


def test_a_full_folder_for_temporary_files_is_named_if_the_output_is_not_a_file(files, full_temporary_folder):
    with pytest.raises(InputError, match=full_temporary_folder):
        extract_phrase_table(files / "fr", "/dev/null", source=files / "en", number_of_processes=1)
