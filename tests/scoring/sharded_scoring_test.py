"""Tests of scoring in shards: the output is that of a single run, even if an earlier run was killed."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from interrupted import interrupted
from plain_or_gzipped import read, write
from scored_tables import INI, LINES

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.scoring import TextScorer, record_scorer, score_file, sharded_scoring
from keras_encdec.text.lexical_shortlist import LexicalShortlist

OPTIONS = {
    "phrase_table": {"unknown_count": True, "length": True},
    "tsv": {"token_scores": True},
    "parallel": {"length": True},
    "nbest": {"unknown_count": True},
}
PAIRS = [(f"le chat {'noir ' * (i % 4)}", f"the cat {i % 7} {'house ' * (i % 3)}") for i in range(50)]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(record_scorer, "WINDOW_LINES", 4)
    monkeypatch.setattr(sharded_scoring, "WINDOW_LINES", 4)


@pytest.fixture(params=OPTIONS)
def job(request, tmp_path):
    """Arguments of score_file for a file of each format; its last line has no line feed."""
    name = request.param
    sources, targets = zip(*PAIRS, strict=True)
    arguments = {"format": name, **OPTIONS[name]}
    if name == "phrase_table":
        lines = [f"{source} ||| {target} ||| 0.5 0.25" for source, target in PAIRS]
    elif name == "nbest":
        lines = [f"{i // 3} ||| {target} ||| LM0= -{i} ||| -1" for i, target in enumerate(targets)]
    else:
        lines = targets if name == "parallel" else [f"{source}\t{target}" for source, target in PAIRS]
    if name in ("nbest", "parallel"):
        arguments["source"] = write(tmp_path / "source.gz", "\n".join(sources).encode())
    return {"input": write(tmp_path / "input.gz", "\n".join(lines).encode()), **arguments}


@pytest.mark.parametrize("name", ["output", "output.gz"])
def test_an_interrupted_job_continues_to_the_same_output(forward_scorer, reverse_scorer, job, out, name):
    models = {"model_dir": forward_scorer, "reverse_model_dir": reverse_scorer}
    whole = score_file(output=out / f"whole{name}", **models, **job)
    expected = (out / f"whole{name}").read_bytes()
    os.unlink(out / f"whole{name}")
    for shards in (0, 1, 2):
        with interrupted(shards):
            score_file(output=out / name, **models, **job, shard_lines=5)
        assert os.listdir(out) == ([f"{name}.shards"] if shards else [])
    said = []
    summary = score_file(output=out / name, **models, **job, shard_lines=5, show=said.append)
    assert (out / name).read_bytes() == expected and os.listdir(out) == [name]
    already = f"An interrupted command had already scored {summary.before} line"
    assert summary.before > 0 and already in " ".join(summary.notices)
    assert (summary.lines, summary.unknown_words) == (len(PAIRS), whole.unknown_words)
    assert len(said) == 1 and "disk space" in said[0]


def test_malformed_and_long_lines_are_counted_once(forward_scorer, tmp_path, out):
    lines = [line if i % 5 else "bad" for i, line in enumerate([*LINES] * 4)] + [f"le ||| {'the ' * 30}||| 1"]
    table = write(tmp_path / "table", "\n".join(lines).encode())
    options = {"on_error": "keep", "max_tokens": 20}
    whole = score_file(forward_scorer, table, out / "whole", **options)
    with interrupted(2):
        score_file(forward_scorer, table, out / "table", **options, shard_lines=4)
    summary = score_file(forward_scorer, table, out / "table", **options, shard_lines=4)
    assert read(out / "table") == read(out / "whole")
    assert (summary.malformed, summary.too_long) == (whole.malformed, whole.too_long)
    assert summary.malformed > 1 and summary.too_long > 0


@pytest.mark.parametrize("number_of_processes", [1, 2])
def test_progress_counts_each_malformed_line_that_is_kept_once(forward_scorer, tmp_path, number_of_processes):
    lines = [f"le ||| the ||| 0.{i}" for i in range(30)]
    lines[0] = lines[1] = lines[20] = "le"
    table = write(tmp_path / "table", "\n".join(lines).encode())
    options = {"on_error": "keep", "shard_lines": 4, "number_of_processes": number_of_processes}
    with ProgressRecord("scoring") as record:
        score_file(forward_scorer.directory.path, table, tmp_path / "out", **options)
    assert record.state.errors == 3 and record.state.last_error.startswith(f"{table}, line 21: ")


def test_errors_name_the_line_of_the_file(forward_scorer, tmp_path, out):
    lines = ["le ||| the ||| 0.5 0.5"] * 30
    for number, line, found in (
        (20, "le ||| the ||| 0.5", "found 1 score, expected 2 as on line 1"),
        (2, "le ||| the ||| 0.5", "found 1 score, expected 2 as on line 1"),
        (29, "le", "found 1 field"),
        (17, "\ufeffle ||| the ||| 0.5 x", 'found the score "x"'),
    ):
        changed = [*lines[: number - 1], line, *lines[number:]]
        table = write(tmp_path / "table", "\n".join(changed).encode())
        with pytest.raises(InputError, match=f"{table}, line {number}: {found}"):
            score_file(forward_scorer, table, out / "table", shard_lines=4)
        for name in os.listdir(out):
            assert name == "table.shards" and number > 4
            for part in (out / name).iterdir():
                part.unlink()
            (out / name).rmdir()


def test_moses_ini_and_alignments_come_with_the_table(forward_scorer, table, tmp_path, out):
    ini = write(tmp_path / "ini", INI.encode())
    for name, shards in (("whole", {}), ("sharded", {"shard_lines": 4})):
        (out / name).mkdir()
        score_file(
            forward_scorer, table, out / name / "table", moses_ini=ini, moses_ini_out=out / name / "ini", **shards
        )
    for name in ("table", "ini"):
        whole = (out / "whole" / name).read_text()
        assert (out / "sharded" / name).read_text() == whole.replace(str(out / "whole"), str(out / "sharded"))


def test_jobs_that_cannot_be_run_or_resumed_are_refused(forward_scorer, table, tmp_path, out, monkeypatch):
    for output, options, sentence in (
        ("-", {}, "found the output - with shards"),
        ("/dev/stdout", {}, "found the output /dev/stdout with shards"),
        ("/dev/null", {}, "found the output /dev/null with shards"),
        (out / "table", {"dry_run": True}, "found dry_run with work in shards"),
        (out / "table", {"ray_address": "auto"}, "found ray_address without engine=ray"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            score_file(forward_scorer, table, output, shard_lines=4, **options)
    with interrupted(1):
        score_file(forward_scorer, table, out / "table", shard_lines=4)
    with pytest.raises(InputError, match="found the settings length true, expected false"):
        score_file(forward_scorer, table, out / "table", shard_lines=4, length=True)
    with pytest.raises(InputError, match="found the settings dtype .*bfloat16"):
        score_file(TextScorer(forward_scorer.directory, "bfloat16"), table, out / "table", shard_lines=4)
    with monkeypatch.context() as patch, pytest.raises(InputError, match="found the model "):
        patch.setattr(ModelDirectory, "checksums", lambda directory: {"best.keras": "other"})
        score_file(forward_scorer, table, out / "table", shard_lines=4)
    shortlist = write(tmp_path / "shortlist", b"le\tthe\t1\n")
    own = TextScorer(
        forward_scorer.directory, lexical_shortlist=LexicalShortlist({}, forward_scorer.directory.target_vocabulary)
    )
    with pytest.raises(ConfigurationError, match="found a TextScorer with a lexical shortlist and work in shards"):
        score_file(own, table, out / "table", shard_lines=4)
    with pytest.raises(InputError, match="found the lexical shortlist "):
        score_file(forward_scorer, table, out / "table", shard_lines=4, lexical_shortlist=shortlist)
    assert score_file(forward_scorer, table, out / "table", shard_lines=4).before == 4


@pytest.mark.parametrize("repair", [True, False], ids=["repaired", "kept"])
def test_a_job_that_a_malformed_line_stopped_continues(forward_scorer, tmp_path, out, repair):
    # Three shards are scored at the same time: others are done before that with the malformed line is begun.
    lines = [f"le chat ||| the {i} ||| 1" for i in range(48)]
    table = write(tmp_path / "table", "\n".join([*lines[:40], "bad", *lines[40:]]).encode())
    with pytest.raises(InputError, match="line 41: found 1 field"):
        score_file(forward_scorer, table, out / "table", shard_lines=4)
    assert list(out.glob("table.shards/*.done.json"))
    if repair:
        write(table, "\n".join(lines).encode())
    options = {} if repair else {"on_error": "keep"}
    assert score_file(forward_scorer, table, out / "table", shard_lines=4, **options).before > 0
    score_file(forward_scorer, table, out / "whole", **options)
    assert read(out / "table") == read(out / "whole")


def test_the_share_of_unknown_words_is_that_of_the_whole_file(forward_scorer, tmp_path, out):
    known, unknown = ["le chat ||| the cat ||| 1"] * 8, ["x y ||| x y ||| 1"] * 4
    options = {"max_unknown": 0.4, "shard_lines": 4}
    table = write(tmp_path / "table", "\n".join([*known, *unknown]).encode())
    assert score_file(forward_scorer, table, out / "table", **options).lines == 12  # only the last shard has too many
    table = write(tmp_path / "table", "\n".join([*known[:4], *unknown, *unknown, *known]).encode())
    with pytest.raises(InputError, match=r"found (50.0|66.7) % of the (16|24) source words so far outside"):
        score_file(forward_scorer, table, out / "other", **options)
    with pytest.raises(InputError, match=r"found (50.0|66.7) % of the"):  # also if the shards are already done
        score_file(forward_scorer, table, out / "other", **options)
    assert score_file(forward_scorer, table, out / "other", shard_lines=4, max_unknown=1).before >= 8


def test_a_full_disk_loses_nothing_that_is_done(forward_scorer, table, out, disk):
    score_file(forward_scorer, table, out / "whole")
    small = disk("16k")  # four blocks; a finished shard takes two
    with pytest.raises(InputError, match=r"/table\.shards/.*: found the disk full when trying to write; free space"):
        score_file(forward_scorer, table, small / "table", shard_lines=4)
    done = len(list(small.glob("table.shards/*.done.json")))
    assert done and not list(small.glob("table.shards/.*"))
    subprocess.run(["mount", "-o", "remount,size=1m", small], check=True)
    assert score_file(forward_scorer, table, small / "table", shard_lines=4).before == 4 * done
    assert read(small / "table") == read(out / "whole")


def test_a_killed_command_continues_with_several_processes(model_dirs, tmp_path, out, monkeypatch):
    monkeypatch.undo()  # other processes have the package's windows, which make three shards
    table = write(tmp_path / "table.gz", "\n".join(f"le chat ||| the {i % 50} ||| 1" for i in range(70_000)).encode())
    score_file(model_dirs / "forward", table, out / "whole.gz", length=True)
    flags = [f"--model_dir={model_dirs / 'forward'}", f"--input={table}", "--length"]
    program = pathlib.Path(sys.executable).with_name("encdec-score")
    command = [program, *flags, f"--output={out / 'table.gz'}", "--processes=2"]
    folder = out / "table.gz.shards"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not list(folder.glob("*.done.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.random() / 10)
        process.send_signal(signal.SIGKILL)
    if not (out / "table.gz").exists():  # otherwise, the command ended before it was killed
        assert list(folder.glob("*.done.json"))
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "An interrupted command had already scored " in result.stderr
    assert (out / "table.gz").read_bytes() == (out / "whole.gz").read_bytes()
    assert sorted(os.listdir(out)) == ["table.gz", "whole.gz"]
