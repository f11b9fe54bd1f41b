"""Which stages run again, and which are up to date."""

import json

import pytest

from keras_encdec.errors import InputError
from keras_encdec.experiment.stage_runner import Stage, checksum, run_stages
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.runtime.progress import CountedWork, Progress

CALLS = []


def join(first, second, output, between=" "):
    CALLS.append(output.name)
    output.write_text(first.read_text() + between + second.read_text())
    return {"length": len(output.read_text())}


def double(text, output):
    """Writes a directory in two steps; fails between them while its input says so."""
    CALLS.append(output.name)
    output.mkdir(exist_ok=True)
    steps = output / "steps"
    steps.write_text((steps.read_text() if steps.exists() else "") + "x")
    if len(steps.read_text()) == 1 and "fail" in text.read_text():
        raise KeyboardInterrupt
    (output / "twice").write_text(text.read_text() * 2)


@pytest.fixture
def files(tmp_path):
    CALLS.clear()
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    return tmp_path


def stages(folder, **settings):
    joined, doubled = folder / "out" / "joined", folder / "out" / "doubled"
    return [
        Stage("join", join, {"first": folder / "a", "second": folder / "b"}, {"output": joined}, settings),
        Stage("double", double, {"text": joined}, {"output": doubled}),
    ]


def run(folder, **settings):
    CALLS.clear()
    results = run_stages(stages(folder, **settings), folder / "records")
    assert [result.name for result in results if result.was_run] == [
        {"joined": "join", "doubled": "double"}[name] for name in CALLS
    ]
    return CALLS


def count_words(text, output, progress=Progress):
    with progress(CountedWork(2), "words") as counted:
        counted.add(2)
    output.write_text("2")


def test_a_stage_shows_its_progress(files):
    steps = []

    def shown(work, unit):
        steps.append((work.size, unit))
        return Progress(work, unit)

    stage = Stage("count", count_words, {"text": files / "a"}, {"output": files / "count"})
    run_stages([stage], files / "records", progress=shown)
    assert steps == [(2, "words")]
    assert not run_stages([stage], files / "records", progress=shown)[0].was_run


def decode_then_fail(text, output):
    FileEncoding().decode_line(text.read_bytes(), text, 1)
    raise InputError("found UTF-8", "", "leave --encoding out", text)


def test_only_the_error_about_text_that_is_not_utf8_advises_to_convert_it(files):
    """A stage has no encoding that could be declared."""
    stage = Stage("fail", decode_then_fail, {"text": files / "a"}, {"output": files / "output"})
    with pytest.raises(InputError, match="a: found UTF-8; leave --encoding out"):
        run_stages([stage], files / "records")
    (files / "a").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match="a, line 1: found bytes that are not UTF-8 .*; convert the file to UTF-8"):
        run_stages([stage], files / "records")


def test_runs_each_stage_once(files):
    assert run(files) == ["joined", "doubled"]
    assert (files / "out" / "doubled" / "twice").read_text() == "a ba b"
    assert run(files) == []


def test_the_result_and_time_of_an_earlier_run_are_kept(files):
    first = run_stages(stages(files), files / "records")
    second = run_stages(stages(files), files / "records")
    assert first[0].result == second[0].result == {"length": 3}
    assert first[0].seconds == second[0].seconds


def test_runs_the_stages_again_that_depend_on_a_changed_input(files):
    run(files)
    (files / "b").write_text("c")
    assert run(files) == ["joined", "doubled"]
    assert (files / "out" / "doubled" / "twice").read_text() == "a ca c"
    assert (files / "out" / "doubled" / "steps").read_text() == "x", "the old output was not removed"


def test_runs_nothing_after_a_stage_that_writes_the_same_output(files):
    run(files)
    (files / "a").write_text("a b")
    (files / "b").write_text("")
    (files / "out" / "joined").unlink()
    assert run(files, between="") == ["joined"]


def test_a_file_that_is_merely_rewritten_changes_nothing(files):
    run(files)
    (files / "a").write_text("a")
    assert run(files) == []


def test_runs_a_stage_again_if_a_setting_has_changed(files):
    run(files)
    assert run(files, between="-") == ["joined", "doubled"]
    assert run(files, between="-") == []


def test_a_stage_does_not_run_again_because_of_its_resources(files):
    inputs, outputs = {"first": files / "a", "second": files / "b"}, {"output": files / "out" / "joined"}
    for between, was_run in (("1", True), ("2", False)):
        stage = Stage("join", join, inputs, outputs, {"between": None}, {"between": between})
        assert [result.was_run for result in run_stages([stage], files / "records")] == [was_run]
    assert outputs["output"].read_text() == "a1b"


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("other")])
def test_runs_a_stage_again_if_an_output_has_changed(files, damage):
    run(files)
    damage(files / "out" / "doubled" / "twice")
    assert run(files) == ["doubled"]
    assert (files / "out" / "doubled" / "twice").read_text() == "a ba b"


def test_an_interrupted_stage_continues_its_outputs(files):
    (files / "a").write_text("fail")
    with pytest.raises(KeyboardInterrupt):
        run(files)
    assert run(files) == ["doubled"]
    assert (files / "out" / "doubled" / "steps").read_text() == "xx", "the half-made output was not kept"


def test_an_interrupted_stage_begins_anew_if_an_input_has_changed(files):
    (files / "a").write_text("fail")
    with pytest.raises(KeyboardInterrupt):
        run(files)
    (files / "a").write_text("a")
    assert run(files) == ["joined", "doubled"]
    assert (files / "out" / "doubled" / "steps").read_text() == "x"


@pytest.mark.parametrize("damage", [None, {"paths": 1}, {"paths": [1]}, {"outputs": 1}, {"result": 1}, {"seconds": ""}])
def test_runs_a_stage_again_if_its_record_is_damaged(files, damage):
    run(files)
    path = files / "records" / "double.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}) if damage else '{"function":')
    assert run(files) == ["doubled"]


def test_two_stages_of_one_name_are_an_error(files):
    with pytest.raises(ValueError, match="found two stages with the name 'join', expected another name for each"):
        run_stages(stages(files)[:1] * 2, files / "records")


def test_an_input_in_an_output_is_an_error_and_is_kept(files):
    run(files)
    for text in (files / "out" / "doubled", files / "out" / "doubled" / "twice", files / "link"):
        if text.name == "link":
            text.symlink_to(files / "out" / "doubled" / "twice")
        stage = Stage("double", double, {"text": text}, {"output": files / "out" / "doubled"})
        with pytest.raises(InputError, match="found an input .* output.*, expected inputs that the stages neither"):
            run_stages([*stages(files)[:1], stage], files / "records")
    assert (files / "out" / "doubled" / "twice").read_text() == "a ba b"


def test_an_input_in_the_output_of_an_earlier_stage_is_not_an_error(files):
    last = Stage(
        "last",
        join,
        {"first": files / "a", "second": files / "out" / "doubled" / "twice"},
        {"output": files / "out" / "last"},
    )
    run_stages([*stages(files), last], files / "records")
    assert (files / "out" / "last").read_text() == "a a ba b"


def test_an_existing_file_at_the_path_of_an_output_is_an_error_and_is_kept(files):
    (files / "out" / "doubled").mkdir(parents=True)
    (files / "out" / "doubled" / "mine").write_text("mine")
    with pytest.raises(InputError, match="doubled: found a file or folder that no earlier run made, .*--output"):
        run(files)
    assert (files / "out" / "doubled" / "mine").read_text() == "mine"
    assert not (files / "records").exists() and not (files / "out" / "joined").exists()


def test_a_file_in_the_place_of_a_report_is_an_error_before_the_first_run(files):
    def last(first):
        inputs = {"first": first, "second": files / "b"}
        return Stage("last", join, inputs, {"output": files / "last"}, reports=[report])

    report = files / "report"
    report.write_text("mine")
    with pytest.raises(InputError, match="report: found a file or folder that no earlier run made, .*--output"):
        run_stages([last(files / "a")], files / "records")
    with pytest.raises(InputError, match="report: found an input that is also an output"):
        run_stages([last(report)], files / "records")
    assert CALLS == [] and report.read_text() == "mine"
    report.unlink()
    for number in range(2):
        run_stages([last(files / "a")], files / "records")
        report.write_text(f"written by run {number}")


def test_a_stage_may_replace_the_output_of_another_stage(files):
    run(files)
    run_stages(
        [Stage("other", double, {"text": files / "a"}, {"output": files / "out" / "doubled"})], files / "records"
    )
    assert (files / "out" / "doubled" / "twice").read_text() == "aa"
    assert run(files) == ["doubled"]


def remove_paths(files):
    """Makes the records those of an earlier version, which had no paths."""
    for path in (files / "records").iterdir():
        record = json.loads(path.read_text())
        del record["paths"]
        path.write_text(json.dumps(record))


def test_records_of_earlier_versions_without_paths_still_count(files):
    run(files)
    remove_paths(files)
    assert run(files) == []
    (files / "a").write_text("other")
    assert run(files) == ["joined", "doubled"]


@pytest.mark.parametrize("has_paths", [True, False])
def test_an_output_that_an_earlier_run_of_the_stage_did_not_have_is_not_removed(files, has_paths):
    run(files)
    if not has_paths:
        remove_paths(files)
    (files / "out" / "more").write_text("mine")
    outputs = {"output": files / "out" / "joined", "more": files / "out" / "more"}
    with pytest.raises(InputError, match="more: found a file or folder that no earlier run made"):
        run_stages([Stage("join", join, {"first": files / "a", "second": files / "b"}, outputs)], files / "records")
    assert (files / "out" / "more").read_text() == "mine"


def test_the_seconds_that_a_function_returns_count_if_they_are_more(files):
    def trained(output):
        output.write_text("x")
        return {"seconds": 3600.0}

    (result,) = run_stages([Stage("train", trained, {}, {"output": files / "model"})], files / "records")
    assert result.seconds == 3600.0
    assert json.loads((files / "records" / "train.json").read_text())["seconds"] == 3600.0


def test_a_missing_input_is_named(files):
    (files / "b").unlink()
    with pytest.raises(InputError, match="b: found no such file or directory when trying to read a file; check"):
        run(files)


def test_only_the_model_counts_in_a_model_directory(tmp_path):
    for name in ("config.json", "best.keras", "target.vocab"):
        (tmp_path / name).write_text(name)
    before = checksum(tmp_path)
    (tmp_path / "last.keras").write_text("x")
    assert checksum(tmp_path) == before
    (tmp_path / "best.keras").write_text("x")
    assert checksum(tmp_path) != before
