"""Stages that run Moses, with programs in its place that record their arguments."""

import os
import re

import fsspec
import pytest

from keras_encdec.errors import InputError
from keras_encdec.experiment import experiment, moses
from keras_encdec.formats import read_weights

# Argument after a flag, in shell.
AFTER = 'after() { flag=$1; shift; while [ "$1" != "$flag" ]; do shift; done; echo "$2"; }\n'
TUNER = """use strict; my %flag; my @given = @ARGV; my @files = splice(@ARGV, 0, 4);
while (@ARGV) { my $name = shift @ARGV; $flag{$name} = $name eq "--predictable-seeds" ? 1 : shift @ARGV; }
mkdir $flag{"--working-dir"}; chdir $flag{"--working-dir"};
open(my $out, ">", "arguments"); print $out join("\\n", @given), "\\n"; close $out;
open(my $in, "<", $files[3]) or die "no ini\\n"; my $text = join("", <$in>);
$text =~ s/LM0= 0.5/LM0= 0.7/; open($out, ">", "moses.ini"); print $out $text; close $out;
"""
DECODER = (
    "#!/bin/sh\n" + AFTER + 'list=$(after -n-best-list "$@"); input=$(after -input-file "$@")\n'
    'echo "$@" > "$list.arguments"\n'
    'awk \'{ print NR - 1 " ||| " $0 "  ||| LM0= -1 ||| -1 ||| 0=0" }\' "$input" > "$list"\n'
)


@pytest.fixture
def files(tmp_path):
    for folder in ("moses/bin", "moses/scripts/training"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "moses" / moses.TUNER).write_text(TUNER)
    decoder = tmp_path / "moses" / moses.DECODER
    decoder.write_text(DECODER)
    decoder.chmod(0o755)
    (tmp_path / "dev.en").write_text("a | b\nl&apos;eau [x]\n")
    (tmp_path / "dev.fr").write_text("a &amp; b\n")
    (tmp_path / "table.gz").write_text("a ||| b ||| 1 1 1 1 0.5 ||| 0-0 ||| 1 1 1\n")
    return tmp_path


def test_text_gets_the_escapes_that_it_lacks(files):
    moses.escape_text(files / "dev.en", files / "out")
    assert (files / "out").read_text() == "a &#124; b\nl&apos;eau &#91;x&#93;\n"
    moses.escape_text(files / "out", files / "again")
    assert (files / "again").read_text() == (files / "out").read_text()


def test_only_words_of_a_text_reach_moses(files):
    (files / "dev.en").write_bytes(b"\xef\xbb\xbfa b\r\n\r\nc\r\n")
    moses.escape_text(files / "dev.en", files / "out")
    assert (files / "out").read_bytes() == b"a b\n\nc\n"


def test_text_that_is_not_utf_8_is_an_error_with_its_line(files):
    (files / "dev.en").write_bytes(b"a b\ncaf\xe9\n")
    with pytest.raises(InputError, match="dev.en, line 2: found bytes that are not UTF-8"):
        moses.escape_text(files / "dev.en", files / "out")
    assert not (files / "out").exists()


def test_the_configuration_has_a_weight_for_each_score(files):
    moses.write_moses_ini(files / "table.gz", files / "lm.arpa", files / "moses.ini", order=4)
    text = (files / "moses.ini").read_text()
    assert f"num-features=5 path={files / 'table.gz'} " in text and f"path={files / 'lm.arpa'} order=4" in text
    weights = read_weights(files / "moses.ini")
    assert weights["TranslationModel0"] == [0.2] * 5 and weights["LM0"] == [0.5]


def test_the_files_of_a_moses_ini_are_those_that_exist(files):
    moses.write_moses_ini(files / "table.gz", files / "missing.arpa", files / "moses.ini", order=4)
    assert moses.files_of_ini(files / "moses.ini") == [files / "table.gz"]


def test_a_folder_that_moses_ini_cannot_name_is_an_error_before_the_first_stage(files):
    for program in moses.PROGRAMS:
        (files / "moses" / program).touch()
        (files / "moses" / program).chmod(0o755)
    (files / "dev.fr").write_text("a &amp; b\nc\n")
    text = "".join(f'{part}_source = "dev.en"\n{part}_target = "dev.fr"\n' for part in ("train", "dev", "test"))
    config, begun = files / "experiment.toml", []
    config.write_text(f'[data]\n{text}[baseline]\nsystem = "moses"\nmoses_dir = "moses"\n[[rows]]\nname = "Baseline"\n')
    for folder in ("my results", "results#2"):
        with pytest.raises(InputError, match=f"{folder}/phrase-table.gz: found this path .* without spaces and #; .*"):
            experiment(str(config), files / folder, begun=lambda *stage: begun.append(stage))
    assert not begun


def test_tunes_and_decodes(files, monkeypatch):
    moses.write_moses_ini(files / "table.gz", files / "lm.arpa", files / "moses.ini", order=5)
    monkeypatch.chdir(files)  # the stages' paths may be relative
    here = type(files)()
    moses.tune_moses(here / "dev.en", here / "dev.fr", here / "moses.ini", here / "tuned", "moses", 50)
    assert read_weights(files / "tuned" / "moses.ini")["LM0"] == [0.7]
    given = (files / "tuned" / "arguments").read_text().splitlines()
    assert given[:4] == [str(files / name) for name in ("dev.en", "dev.fr", "moses/bin/moses", "moses.ini")]
    assert given[given.index("--nbest") + 1] == "50" and given[given.index("--mertdir") + 1] == str(files / "moses/bin")

    moses.decode_with_moses(here / "dev.en", here / "tuned", here / "dev.nbest", "moses", 50)
    assert (files / "dev.nbest").read_text().splitlines()[0] == "0 ||| a | b  ||| LM0= -1 ||| -1 ||| 0=0"
    arguments = (files / "dev.nbest.unfinished.arguments").read_text()
    assert f"-f {files / 'tuned' / 'moses.ini'} " in arguments and " 50 distinct -include-segmentation" in arguments


def test_tables_may_have_moved_since_the_file_was_made(files):
    """Copies of remote tables, and of a remote folder of results, are elsewhere in each run."""
    ini, moved = files / "moses.ini", {"phrase_table": files / "b.gz", "language_model": files / "b.arpa"}
    moses.write_moses_ini(files / "table.gz", files / "lm.arpa", ini, order=5)
    moses.tune_moses(files / "dev.en", files / "dev.fr", ini, files / "tuned", files / "moses", 50, **moved)
    assert read_paths(files / "tuned" / "moses.ini") == [str(path) for path in moved.values()]

    decoder = files / "moses" / moses.DECODER
    decoder.write_text(DECODER + 'cp "$(after -f "$@")" "$list.ini"\n')
    moved = {"phrase_table": files / "c.gz", "language_model": files / "c.arpa"}
    moses.decode_with_moses(files / "dev.en", files / "tuned", files / "dev.nbest", files / "moses", 50, **moved)
    assert read_paths(files / "dev.nbest.unfinished.ini") == [str(path) for path in moved.values()]
    before = (files / "tuned" / "moses.ini").read_text()
    assert (
        before.replace("b.gz", "c.gz").replace("b.arpa", "c.arpa") == (files / "dev.nbest.unfinished.ini").read_text()
    ), "all the rest stays"


def read_paths(ini):
    return re.findall(r"path=(\S+)", ini.read_text())


def test_an_experiment_in_a_store_continues_after_a_failure_of_moses(files):
    for program in moses.PROGRAMS:
        if program != moses.DECODER:
            (files / "moses" / program).touch()
            (files / "moses" / program).chmod(0o755)
    (files / "lm.arpa").write_text("kept in the store\n")
    for name in ("table.gz", "lm.arpa"):
        with fsspec.open(f"memory://moses/{name}", "wb") as file:
            file.write((files / name).read_bytes())
    (files / "dev.fr").write_text("a &amp; b\nc\n")
    config = files / "experiment.toml"
    text = "".join(f'{part}_source = "dev.en"\n{part}_target = "dev.fr"\n' for part in ("dev", "test"))
    tables = 'phrase_table = "memory://moses/table.gz"\nlanguage_model = "memory://moses/lm.arpa"\n'
    baseline = f'[baseline]\nsystem = "moses"\nmoses_dir = "moses"\n{tables}'
    config.write_text(f'[data]\n{text}{baseline}[tuning]\nseeds = 1\n[[rows]]\nname = "Baseline"\nfeatures = []\n')
    decoder = files / "moses" / moses.DECODER
    decoder.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(InputError, match="found the exit status 3 of moses"):
        experiment(str(config), "memory://moses/results")
    features = "LM0= -1 WordPenalty0= -1 PhrasePenalty0= 1 Distortion0= 0 TranslationModel0= 0 0 0 0 0"
    reads = 'for path in $(sed -n "s/.* path=\\([^ ]*\\).*/\\1/p" "$(after -f "$@")"); do cat "$path" || exit 4; done\n'
    decoder.write_text(DECODER.replace("LM0= -1", features) + reads)
    result = experiment(str(config), "memory://moses/results")
    assert {stage.name: stage.was_run for stage in result.stages}["tune-moses"] is False
    with fsspec.open("memory://moses/results/results.md", "rt") as file:
        assert "Baseline" in file.read()


def test_a_failure_of_moses_names_its_messages(files):
    with pytest.raises(InputError, match=r"tuning.log: found the exit status \d+ of mert-moses.pl, expected 0; read"):
        moses.tune_moses(files / "dev.en", files / "dev.fr", files / "none", files / "tuned", files / "moses", 50)
    assert "no ini" in (files / "tuning.log").read_text()
    os.remove(files / "moses" / moses.DECODER)
    with pytest.raises(InputError, match="bin/moses: could not be run .*, expected a program of Moses"):
        moses.decode_with_moses(files / "dev.en", files / "tuned", files / "dev.nbest", files / "moses", 50)
    assert not (files / "dev.nbest").exists()
