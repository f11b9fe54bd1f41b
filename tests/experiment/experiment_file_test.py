"""How the configuration of an experiment is read and its stages planned, and errors for mistakes in it."""

import json
import os
import shutil

import pytest

from keras_encdec.errors import InputError
from keras_encdec.experiment.experiment import StagePlan
from keras_encdec.experiment.experiment_file import experiment_names, load_experiment
from keras_encdec.experiment.moses import PROGRAMS, TUNER
from keras_encdec.experiment.stage_runner import check_outputs
from keras_encdec.model_config import model_path
from keras_encdec.runtime.remote_folders import LocalFiles

FILES = ("train.en", "train.fr", "dev.en", "dev.fr", "test.en", "test.fr", "table.gz", "dev.nbest", "test.nbest", "ini")
DATA = """
[data]
dev_source = "dev.en"
dev_target = "dev.fr"
test_source = "test.en"
test_target = "test.fr"
"""
TEXT = """
train_source = "train.en"
train_target = "train.fr"
"""
LISTS = """
[baseline]
system = "lists"
phrase_table = "table.gz"
dev_nbest = "dev.nbest"
test_nbest = "test.nbest"
weights = "ini"
"""
RNN = """
[features.RNN]
preset = "small"
training = { updates = 2 }
"""
ROWS = """
[[rows]]
name = "Baseline"
[[rows]]
name = "+ RNN"
features = ["RNN"]
"""


@pytest.fixture
def load(tmp_path):
    for name in FILES:
        (tmp_path / name).write_text("0 ||| a ||| TM0= -1 ||| -1\n" if name.endswith(".nbest") else "a\n")

    def load(text):
        (tmp_path / "experiment.toml").write_text(text)
        return load_experiment(tmp_path / "experiment.toml")

    return load


def names(config, folder):
    return [stage.name for stage in StagePlan(config, folder, LocalFiles()).stages()]


def test_a_model_of_phrases_is_trained_and_its_score_added_to_given_lists(load, tmp_path):
    config = load(DATA + LISTS + RNN + ROWS)
    assert config.title == "experiment" and config.data.dev_source == str(tmp_path / "dev.en")
    assert names(config, tmp_path) == [
        "tune-0",
        "train-RNN",
        "score-RNN",
        "add-RNN-dev",
        "add-RNN-test",
        "tune-1",
        "evaluate",
    ]


def test_a_model_that_is_given_is_not_trained(load, tmp_path):
    shutil.copytree(model_path("libreoffice_en_fr"), tmp_path / "model")
    given = 'model_dir = "model"\n'
    config = load(DATA + LISTS + RNN.split("preset")[0] + 'model_dir = "libreoffice_en_fr"\n' + ROWS)
    assert "train-RNN" not in names(config, tmp_path), "a packaged model"
    config = load(DATA + LISTS + RNN.split("preset")[0] + given + ROWS)
    assert "train-RNN" not in names(config, tmp_path) and "score-RNN" in names(config, tmp_path)
    config = load(DATA + LISTS + RNN.split("preset")[0] + 'kind = "language_model"\n' + given + ROWS)
    with pytest.raises(InputError, match=r"model: found a translation model, .* check \[features.RNN\]"):
        names(config, tmp_path)


def test_a_translation_feature_needs_a_translation_model(load, tmp_path):
    for name, direction, found in (("lm", "forward", "a language model"), ("back", "reverse", "a model of p.source")):
        shutil.copytree(model_path("libreoffice_en_fr"), tmp_path / name)
        known = json.loads((tmp_path / name / "config.json").read_text())
        known |= {"direction": direction, "has_source": name != "lm"}
        (tmp_path / name / "config.json").write_text(json.dumps(known))
        for kind in ("phrases", "sentences"):
            feature = f'[features.RNN]\nkind = "{kind}"\nmodel_dir = "{name}"\n'
            with pytest.raises(InputError, match=rf"{name}: found {found}.*; check \[features.RNN\]"):
                names(load(DATA + LISTS + feature + ROWS), tmp_path)


def test_rows_share_their_first_features(load, tmp_path):
    more = '[features.CSLM]\nkind = "language_model"\npreset = "cslm"\n'
    more += '[features.WP]\nkind = "unknown_words"\nof = "RNN"\n'
    rows = '[[rows]]\nname = "a"\nfeatures = ["RNN", "CSLM"]\n[[rows]]\nname = "b"\nfeatures = ["RNN", "CSLM", "WP"]\n'
    found = names(load(DATA + TEXT + LISTS + RNN + more + ROWS + rows), tmp_path)
    added = [name for name in found if name.endswith("-dev")]
    assert added == ["add-RNN-dev", "add-RNN-CSLM-dev", "add-RNN-CSLM-WP-dev"]
    assert found.count("train-RNN") == 1


def test_the_packages_decoder_makes_the_lists(load, tmp_path):
    found = names(load(DATA + TEXT + ROWS.replace('["RNN"]', "[]")), tmp_path)
    assert found == ["extract", "ngrams", "tune-decoder", "decode-test", "tune-0", "tune-1", "evaluate"]


@pytest.fixture
def moses_dir(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "perl").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for program in (*PROGRAMS, TUNER):
        path = tmp_path / "moses" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755 if program in PROGRAMS else 0o644)
    return tmp_path / "moses"


@pytest.fixture
def with_moses(moses_dir):
    return f'[baseline]\nsystem = "moses"\nmoses_dir = "{moses_dir}"\n'


def test_moses_is_tuned_and_decodes_with_the_packages_models(load, with_moses, tmp_path):
    found = names(load(DATA + TEXT + with_moses + RNN + ROWS), tmp_path)
    assert found == [
        "escape-dev_source",
        "escape-dev_target",
        "escape-test_source",
        "extract",
        "escape-train_target",
        "ngrams",
        "moses-ini",
        "tune-moses",
        "decode-dev",
        "decode-test",
        "tune-0",
        "train-RNN",
        "score-RNN",
        "add-RNN-dev",
        "add-RNN-test",
        "tune-1",
        "evaluate",
    ]


@pytest.mark.parametrize("name", experiment_names())
def test_the_packages_experiments_can_be_planned(name, tmp_path):
    assert names(load_experiment(name), tmp_path)


WHOLE = DATA + LISTS + RNN + ROWS
COUNTS = "".join(f'[features.{name}]\nkind = "sentences"\nmodel_dir = "."\ncounts = true\n' for name in "AB")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data", r"experiment.toml: found a file that cannot be read \(.*\), expected an experiment in TOML"),
        ('title = ["a"]\n' + WHOLE, r"found title = \['a'\], expected text"),
        ("[date]\n" + WHOLE, "found the unknown section date, expected title, data, baseline"),
        ("data = 3\n" + LISTS + ROWS, "found data = 3, expected a table"),
        (
            WHOLE.replace("training =", "model = 3 #"),
            r"found features.RNN.model = 3, expected a table .features.RNN.mo",
        ),
        (WHOLE.replace("training = {", "training = 3 #"), "found features.RNN.training = 3, expected a table"),
        (WHOLE.replace("training =", "data = 3 #"), "found features.RNN.data = 3, expected a table"),
        (WHOLE.replace("training =", "data = [] #"), r"found features.RNN.data = \[\], expected a table"),
        (
            WHOLE.replace("training =", "data = { reverse = true } #"),
            r"found reverse, expected a model of p\(target . source\).* in \[features.RNN\]",
        ),
        (
            WHOLE.replace("training =", 'data = { source = "train.en" } #'),
            r"found source in its table data, expected none: kind decides what .* in \[features.RNN\]",
        ),
        (
            WHOLE.replace("training =", 'data = { validation = ["dev.en", "dev.fr"] }\ntraining ='),
            r"found 2 files in validation, expected 1 as for training in \[features.RNN\]",
        ),
        (
            WHOLE.replace("training =", 'data = { validation = "no.gz" }\ntraining ='),
            r"validation='.*no.gz', expected .* in \[features.RNN\]",
        ),
        (
            WHOLE.replace("training =", 'data = { validation = ["no.gz"] }\ntraining ='),
            r"found no file .*no.gz for validation in \[features.RNN\]",
        ),
        (
            WHOLE.replace("updates = 2", 'updates = 2, initial_model = "none"'),
            r"found no file .*none for initial_model in \[features.RNN\], expected a file",
        ),
        (
            DATA + TEXT + "[baseline]\nngram_order = 7\n" + ROWS.replace('["RNN"]', "[]"),
            r"found ngram_order=7 with system=decoder, expected at most 6, which KenLM reads in \[baseline\]",
        ),
        (
            DATA + TEXT + RNN.replace("RNN", "LM") + ROWS.replace('"RNN"', '"LM"'),
            r"found the feature LM0 in \[features.LM\], which the lists of \[baseline\] already have, .*another name",
        ),
        (
            WHOLE.replace("RNN", "Length").replace('["Length"]', '["Length", "A"]') + COUNTS,
            "found the feature Length in the row . Length, expected another name, as the counts of A are Unknown0 and",
        ),
        (WHOLE.replace("dev_source", "dev_sauce"), "found the unknown hyper-parameter 'dev_sauce', .* in .data"),
        (WHOLE.replace('dev_source = "dev.en"', ""), r"found no dev_source, expected a file in \[data\]"),
        (WHOLE.replace("dev.en", "dev.de"), r"found no file .*dev.de for dev_source in \[data\], expected a file"),
        (WHOLE.replace("table.gz", "tables"), r"found no file .*tables for phrase_table in \[baseline\]"),
        (WHOLE.replace('weights = "ini"', ""), r"found system=lists without weights, expected both in \[baseline\]"),
        (WHOLE.replace('"lists"', '"list"'), r"found system='list', expected one of lists, decoder, moses"),
        (WHOLE.replace('"lists"', '"decoder"'), "found dev_nbest with system=decoder, expected it with lists"),
        (WHOLE.replace('"lists"', '"lists"\nrounds = 2'), "found rounds with system=lists, expected it with deco"),
        (WHOLE.replace('"lists"', '"lists"\naligner = "hmm"'), "found aligner with system=lists, expected it with"),
        (
            DATA + TEXT + '[baseline]\nphrase_table = "table.gz"\naligner = "hmm"\n' + ROWS,
            "found aligner and the file phrase_table, expected one of them",
        ),
        (WHOLE.replace('phrase_table = "table.gz"', ""), r"found kind=phrases in .*, expected phrase_table"),
        (WHOLE.replace("RNN]", "R_N]"), r"found the name R_N in \[features.R_N\], expected a letter, then letters"),
        (
            WHOLE.replace("training =", 'data = { encoding = "latin-1" }\ntraining ='),
            r"found encoding=latin-1, expected UTF-8, as all text of an experiment in \[features.RNN\]",
        ),
        (WHOLE.replace('["RNN"]', '["CSLM"]'), "found the feature CSLM in the row . RNN, expected one of RNN"),
        (
            WHOLE.replace('["RNN"]', '["RNN", "RNN"]'),
            "found a feature twice in the row . RNN, expected each feature once",
        ),
        (
            WHOLE.replace('["RNN"]', '["A", "B"]') + COUNTS,
            "found counts of A and B in the row . RNN, expected the counts of",
        ),
        (WHOLE.replace("+ RNN", "Baseline"), r"found two \[\[rows\]\] with the same name"),
        (DATA + LISTS + RNN, r"found no table \[\[rows\]\]"),
        (WHOLE.replace('preset = "small"', ""), r"found neither model_dir nor preset.* in \[features.RNN\]"),
        (
            WHOLE.replace('"small"', '"cslm"'),
            r"found kind=phrases with architecture=cslm, which has no source; give another kind or preset in \[feat",
        ),
        (
            WHOLE.replace("[baseline]", TEXT + "[baseline]").replace("preset", 'kind = "language_model"\npreset'),
            "found kind=language_model with architecture=encdec, which has a source; give another kind or preset",
        ),
        (WHOLE.replace('"small"', '"smal"'), r"found preset='smal', expected one of .* in \[features.RNN\]"),
        (WHOLE.replace("updates = 2", "update = 2"), r"hyper-parameter 'update', .* in \[features.RNN\]"),
        (WHOLE.replace("training =", 'kind = "sentences"\ntraining ='), "found a model to train .*, expected train_s"),
        (WHOLE.replace("preset", 'kind = "unknown_words"\nof = "RNN" #'), r"found a model with kind=unknown_words"),
        (
            WHOLE + '[features.WP]\nkind = "unknown_words"\n',
            r"found kind=unknown_words without of, expected the name of a feature in \[features.WP\]",
        ),
        (
            WHOLE + '[features.WP]\nkind = "unknown_words"\nof = "RNN"\ncounts = true\n',
            r"found counts with kind=unknown_words, expected it with sentences in \[features.WP\]",
        ),
        (WHOLE.replace("preset", 'of = "RNN"\npreset'), "found of with kind=phrases, expected it with unknown_words"),
        (
            WHOLE.replace("preset", "counts = true\npreset"),
            "found counts with kind=phrases, expected it with sentences",
        ),
        (WHOLE.replace("preset", 'model_dir = "."\npreset'), "found model_dir and preset, expected one of them"),
        (WHOLE.replace('name = "Baseline"', ""), r"found a row without name, expected the name"),
        (DATA + ROWS.replace('["RNN"]', "[]"), r"found no train_source .*, expected them to extract a phrase table"),
        (DATA + TEXT.replace("train_target", "#") + ROWS, "found one of train_source and train_target, expected both"),
        ('[data]\ndataset = "libreoffice_en_fr"\ndev_source = "dev.en"\n' + ROWS, "found dataset and files of text"),
    ],
)
def test_a_mistake_in_the_configuration_is_an_error_that_names_it(load, text, message):
    with pytest.raises(InputError, match=message):
        load(text)


WEIGHTS = "LM0= 1\nDistortion0= 1\nWordPenalty0= 1\nPhrasePenalty0= 1\nTranslationModel0= 1 1 1 1\n"


def test_weights_that_do_not_suit_the_decoder_are_an_error_before_a_table_is_extracted(load, tmp_path):
    text = DATA + TEXT + '[baseline]\nweights = "ini"\n%s' + ROWS.replace('["RNN"]', "[]")
    (tmp_path / "ini").write_text(WEIGHTS)
    load(text % "")
    (tmp_path / "table.gz").write_text("a ||| b ||| 1 1 1 1 1\n")
    with pytest.raises(InputError, match="/ini: found 4 weights of TranslationModel0, expected 5"):
        load(text % 'phrase_table = "table.gz"\n')
    (tmp_path / "ini").write_text(f"{WEIGHTS}LexicalReordering0= 1\n")
    with pytest.raises(InputError, match="/ini: found weights of LexicalReordering0, expected weights of the decoder"):
        load(text % "")


@pytest.mark.parametrize(
    "baseline", ['weights = "out/baseline/weights"', 'phrase_table = "out/baseline/table.gz"'], ids=["weights", "table"]
)
def test_the_results_of_an_earlier_run_cannot_be_its_inputs(baseline, load, tmp_path):
    file = tmp_path / "out" / "baseline" / baseline.split("/")[-1].rstrip('"')
    file.parent.mkdir(parents=True)
    file.write_text(WEIGHTS)
    config = load(DATA + TEXT + f"[baseline]\n{baseline}\n" + ROWS.replace('["RNN"]', "[]"))
    with pytest.raises(InputError, match="found an input in the output .*baseline, expected inputs that the stages"):
        check_outputs(StagePlan(config, tmp_path / "out", LocalFiles()).stages(), tmp_path / "out" / "stages")


@pytest.mark.parametrize("part", ["dev", "test"])
def test_a_text_with_sides_of_different_lengths_is_an_error_before_the_first_stage(part, load, tmp_path):
    (tmp_path / f"{part}.fr").write_text("a\nb\n")
    with pytest.raises(InputError, match=f"{part}.en: found 1 line, and 2 lines in .*{part}.fr, expected the same"):
        load(WHOLE)


def test_a_feature_that_the_lists_have_is_an_error(load, tmp_path):
    (tmp_path / "dev.nbest").write_text("0 ||| a ||| LM0= -1 RNN0= -2 ||| -3\n")
    with pytest.raises(InputError, match="found the feature RNN0 in .features.RNN., which the lists of"):
        load(WHOLE)
    (tmp_path / "dev.nbest").write_text("0 ||| a ||| LM0= -1 Length0= 2 ||| -3\n")
    load(WHOLE)
    with pytest.raises(InputError, match="found the feature Length0 in .features.A., .*; drop counts"):
        load(WHOLE + COUNTS)
    load(WHOLE + COUNTS.replace("counts = true", ""))


def test_a_higher_order_is_for_other_systems(load, with_moses):
    load(DATA + TEXT + with_moses + "ngram_order = 9\n" + ROWS.replace('["RNN"]', "[]"))


def test_the_initial_model_and_validation_pairs_are_inputs_of_training(load, tmp_path, monkeypatch):
    (tmp_path / "initial").mkdir()
    (tmp_path / "initial" / "file").write_text("x")
    mine = RNN.replace("updates = 2", 'updates = 2, initial_model = "initial"')
    mine += 'data = { validation = ["dev.nbest"] }\n'
    sentences = mine.replace("RNN", "S").replace("preset", 'kind = "sentences"\npreset').replace('"small"', '"gru"')
    sentences = sentences.replace("gru", "small_sentences").replace('"dev.nbest"', '"dev.en", "test.fr"')
    own = RNN.replace("RNN", "P").replace("updates = 2", 'updates = 2, initial_model = "libreoffice_en_fr"')
    rows = ROWS.replace('["RNN"]', '["RNN", "S", "P"]')
    config = load(DATA + TEXT + LISTS + mine + sentences + own + rows)
    monkeypatch.chdir("/")
    stages = {stage.name: stage for stage in StagePlan(config, tmp_path / "out", LocalFiles()).stages()}
    training = stages["train-RNN"]
    assert training.inputs["configured_model"] == tmp_path / "initial"
    assert training.settings["config"]["initial_model"] == str(tmp_path / "initial")
    assert training.inputs["validation"] == tmp_path / "dev.nbest" and "validation" not in training.settings["data"]
    inputs = stages["train-S"].inputs
    assert inputs["validation_source"] == tmp_path / "dev.en" and inputs["validation_target"] == tmp_path / "test.fr"
    assert (stages["train-P"].inputs["configured_model"] / "config.json").is_file()
    before = training.key()
    (tmp_path / "initial" / "file").write_text("y")
    assert training.key() != before


def test_the_settings_are_the_same_from_every_folder(load, tmp_path, monkeypatch):
    (tmp_path / "initial").mkdir()
    text = DATA + TEXT + LISTS + RNN.replace("updates = 2", 'updates = 2, initial_model = "initial"') + ROWS
    expected = load(text)
    for folder, file in ((tmp_path, "experiment.toml"), (tmp_path.parent, f"{tmp_path.name}/experiment.toml")):
        monkeypatch.chdir(folder)
        assert load_experiment(file) == expected


def test_a_missing_configuration_is_an_error(tmp_path):
    with pytest.raises(InputError, match="none.toml: found no such file, expected an experiment in TOML, or one of"):
        load_experiment(tmp_path / "none.toml")


def test_files_of_a_feature_are_relative_to_the_configuration_and_inputs_of_its_training(load, tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text('[data]\nvalidation = ["of_another_text"]\n')
    (tmp_path / "v.vocab").touch()
    mine = RNN.replace('"small"', '"mine.toml"') + 'data = { target_vocabulary = "v.vocab", shortlist = 5 }\n'
    config = load(DATA + LISTS + mine + ROWS)
    monkeypatch.chdir("/")
    assert config.features["RNN"].preset == str(tmp_path / "mine.toml")
    (training,) = (
        stage for stage in StagePlan(config, tmp_path / "out", LocalFiles()).stages() if stage.name == "train-RNN"
    )
    assert training.inputs["target_vocabulary"] == tmp_path / "v.vocab"
    assert "validation" not in training.inputs, "a preset's validation files belong to another text"
    assert "target_vocabulary" not in training.settings["data"] and training.settings["data"]["shortlist"] == 5
    with pytest.raises(InputError, match="no.vocab for target_vocabulary in .features.RNN."):
        load(DATA + LISTS + mine.replace("v.vocab", "no.vocab") + ROWS)


@pytest.mark.parametrize("program", [*PROGRAMS, TUNER])
def test_a_missing_program_of_moses_is_an_error_before_the_first_stage(
    load, with_moses, moses_dir, program, monkeypatch
):
    text = DATA + TEXT + with_moses + RNN + ROWS
    path = moses_dir / program
    path.chmod(0o644)
    if program in PROGRAMS:
        with pytest.raises(InputError, match=f"{path}: found a file that cannot be executed, expected a program of"):
            load(text)
    path.unlink()
    with pytest.raises(InputError, match=f"{path}: found no such file, expected a program of Moses; build Moses"):
        load(text)
    path.touch(0o755)
    monkeypatch.setenv("PATH", str(moses_dir))
    with pytest.raises(InputError, match="found no perl on the PATH, expected Perl, to run"):
        load(text)


def test_a_system_with_a_moses_ini_needs_no_training_text_and_uses_no_other_models(load, with_moses, tmp_path):
    baseline, rows = with_moses + 'weights = "ini"\n', ROWS.replace('["RNN"]', "[]")
    with pytest.raises(InputError, match="/ini: found no features in a section .feature., expected the moses.ini of a"):
        load(DATA + baseline + rows)
    (tmp_path / "ini").write_text("[feature]\nDistortion\n")
    found = names(load(DATA + baseline + rows), tmp_path)
    assert found[3:-1] == ["tune-moses", "decode-dev", "decode-test", "tune-0", "tune-1"]
    for setting in ('language_model = "table.gz"', "ngram_order = 3", 'aligner = "hmm"'):
        message = f"found {setting.split()[0]} and weights with system=moses, expected one of them: this moses.ini"
        with pytest.raises(InputError, match=message):
            load(DATA + TEXT + baseline + setting + rows)
    with pytest.raises(InputError, match=r"found kind=phrases in .*, expected phrase_table in \[baseline\] with it"):
        load(DATA + TEXT + baseline + RNN + ROWS)
    assert "extract" not in names(load(DATA + baseline + 'phrase_table = "table.gz"\n' + RNN + ROWS), tmp_path)


def test_stages_of_moses_depend_on_the_files_that_the_ini_names(load, with_moses, tmp_path):
    moses, rows = with_moses, ROWS.replace('["RNN"]', "[]")

    def inputs(text):
        stages = {stage.name: stage for stage in StagePlan(load(text), tmp_path / "out", LocalFiles()).stages()}
        return [{*stages[name].inputs.values()} for name in ("tune-moses", "decode-dev", "decode-test")]

    out = tmp_path / "out"
    for found in inputs(DATA + TEXT + moses + rows):
        assert found >= {out / "phrase-table.gz", out / "ngrams.arpa"}
    (tmp_path / "ini").write_text(f"[feature]\nX path={tmp_path / 'table.gz'} order=3\nY path=/no/such/file\n")
    for found in inputs(DATA + TEXT + moses + 'weights = "ini"\n' + rows):
        assert tmp_path / "table.gz" in found
