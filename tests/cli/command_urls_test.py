"""Every file and folder of every command may be a URL: the results are those with paths."""

import importlib
import re

import pytest
from commands import succeed
from in_process import in_process
from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

from keras_encdec.runtime.remote_folders import local_copy
from keras_encdec.smt import estimate_ngrams

pytest.importorskip("fsspec", reason="the extra remote is not installed")

TABLE = """le ||| the ||| 0.5 0.25 0.5 1 ||| 0-0 ||| 2 2 1
le chat ||| the cat ||| 0.7 0.3 0.2 1 ||| 0-0 1-1 ||| 2 1 1
maison ||| house ||| 1 1 1 1 ||| 0-0 ||| 1 1 1
"""
NBEST = "".join(
    f"{i} ||| {text} ||| LM0= -{i + 1} TM0= -{len(text)} -2 ||| -{i + 2} ||| 0=0 1=1\n"
    for i in range(2)
    for text in ("the cat", "cat the", "house")
)
TRAINING = 'updates = 1, jit_compile = "false", tensorboard = false, batch_size = 2'
MODEL = "units = 4, embedding_dim = 4, maxout_units = 2, output_rank = 2"
PRESET = f"[model]\n{MODEL}\n[training]\n{TRAINING}\n".replace(", ", "\n")
EXPERIMENT = """
[data]
train_source = "fr"
train_target = "en"
dev_source = "fr"
dev_target = "en"
test_source = "fr"
test_target = "en"
[baseline]
system = "decoder"
phrase_table = "table"
language_model = "arpa"
rounds = 1
[tuning]
algorithm = "pro"
seeds = 1
[features.RNN]
preset = "preset.toml"
[features.Sentence]
kind = "sentences"
model_dir = "attention"
[[rows]]
name = "all"
features = ["RNN", "Sentence"]
"""
TASKS = """
main = "a"
[tasks.a]
source = "fr"
target = "en"
encoder = "a"
decoder = "a"
source_vocabulary = "words"
[tasks.b]
kind = "autoencoder"
text = "fr"
encoder = "a"
decoder = "b"
ratio = 0.5
"""
FILES = {
    "fr": "le chat\nla maison\n",
    "en": "the cat\nthe house\n",
    "tsv": "le chat\tthe cat\nla maison\tthe house\n",
    "links": "0-0 1-1\n0-0 1-1\n",
    "table": TABLE,
    "nbest": NBEST,
    "nbest2": NBEST,
    "weights": "LM0= 0.5\nTM0= 0.2 0.1\n",
    "moses.ini": "[feature]\nPhraseDictionaryMemory name=TM0 num-features=4 path=table\n\n[weight]\nTM0= 1 1 1 1\n",
    "words.tsv": "le\tthe\nchat\tcat\n",
    "shortlist.tsv": "le\tthe\t0.5\nchat\tcat\t0.5\n",
    "words": "\n".join(SOURCE_WORDS) + "\n",
    "preset.toml": PRESET,
    "tasks.toml": TASKS,
    "experiment.toml": EXPERIMENT,
}
# By command, a list of calls. {name} is the path or URL of an input, and {>name} that of an output. encdec-export and
# encdec-verify are tested in `export/exporting_remote_test.py`.
CALLS = {
    "score": [
        "--model_dir={model} --reverse_model_dir={reverse} --input={table} --output={>scored.gz} "
        "--moses_ini={moses.ini} --moses_ini_out={>scored.ini} --progress_file={>progress}",
        "--model_dir={model} --format=parallel --source={fr} --input={en} --output={>scored} --shard_lines=1",
        "--model_dir={model} --format=nbest --source={fr} --input={nbest} --output={>scored}",
        "--model_dir={attention} --format=tsv --input={tsv} --output={>scored} --alignments={>links}",
    ],
    "generate": [
        "--model_dir={attention} --input={fr} --output={>en} --mode=greedy --alignments={>links} --replace_unknown "
        "--dictionary={words.tsv}",
        "--model_dir={model} --input={fr} --output={>en} --mode=greedy --lexical_shortlist={shortlist.tsv}",
    ],
    "select": [
        "--model_dir={model} --reverse_model_dir={reverse} --source={fr} --target={en} --output={>en} "
        "--source_output={>fr} --scores={>scores} --top=1",
        "--method=moore_lewis --in_domain_source={arpa} --general_source={arpa2} --tsv={tsv} --output={>tsv} --top=1",
    ],
    "decode": [
        "--source={fr} --phrase_table={table} --language_model={arpa} --output={>nbest} --processes=1 "
        "--progress_file={>p}"
    ],
    "dictionary": [
        "--source={fr} --target={en} --alignment={links} --output={>words}",
        "--tsv={tsv} --output={>words}",
    ],
    "extract": [
        "--source={fr} --target={en} --alignment={links} --output={>table.gz}",
        "--tsv={tsv} --output={>table}",
    ],
    "ngram": ["--input={en} --output={>arpa.gz} --order=2"],
    "ngram_posteriors": ["--input={nbest} --translations={nbest2} --output={>nbest.gz}"],
    "phrase_features": [
        "--input={nbest} --source={fr} --phrase_table={table} --output={>nbest.gz} --feature=X0=1 --on_error=keep"
    ],
    "rerank": ["--input={nbest} --weights={weights} --output={>best}"],
    "evaluate": [
        "--reference={en} --hypotheses=a={en} --baseline={fr} --json_out={>json}",
        "--alignments=a={links} --reference_alignments={links} --possible_alignments={links} --json_out={>json}",
    ],
    "tune": [
        "--nbest={nbest} --reference={en} --weights={weights} --test_nbest={nbest} --test_reference={en} --seeds=2 "
        "--weights_out={>best} --json_out={>json} --all_weights_out={>seeds} --progress_file={>p}",
    ],
    "train": [
        "--tsv={tsv} --validation={tsv} --preset={preset.toml} --model_dir={>model}",
        "--tasks={tasks.toml} --model_dir={>both} --preset={preset.toml}",
        "--tsv={tsv} --initial_model={>model} --model_dir={>more}",
    ],
    "prune": ["--model_dir={model} --output={>pruned}"],
    "average": ["--model_dir={model} --model_dir={model} --output={>average}"],
    "doctor": ["--path={model} --output={>json}"],
    "distill": [
        "--model_dir={model} --source={fr} --target={en} --dev_source={fr} --dev_target={en} "
        "--output={>distilled} --preset={preset.toml} --length_penalty=1 --beam_size=4"
    ],
    "experiment": ["--config={experiment.toml} --output={>table1}"],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for name in ("arpa", "arpa2"):
        estimate_ngrams(folder / "fr", folder / name, order=2)
    save_model(folder / "model", SOURCE_WORDS, TARGET_WORDS)
    save_model(folder / "reverse", TARGET_WORDS, SOURCE_WORDS, reverse=True)
    save_model(folder / "attention", SOURCE_WORDS, TARGET_WORDS, cell="rnn", layers=1, attention="global")
    return folder


def run(name, calls, inputs, output):
    """Runs a command, with inputs and outputs in folders or at URLs."""
    command = importlib.import_module(f"keras_encdec.cli.{name}").COMMAND
    for call in calls:
        flags = re.sub(r"{(>?)([^}]*)}", lambda path: f"{output if path[1] else inputs}/{path[2]}", call).split()
        succeed(in_process(command, *flags))


@pytest.mark.usefixtures("eager", "uncompiled")
@pytest.mark.parametrize("name", CALLS)
def test_urls_do_what_paths_do(inputs, tmp_path, name):
    paths, urls = tmp_path / "paths", tmp_path / "urls"
    for folder in (paths, urls):
        folder.mkdir()
    local_copy.cache_clear()
    run(name, CALLS[name], inputs, paths)
    run(name, CALLS[name], f"file://{inputs}", f"file://{urls}")
    written, uploaded = (
        {
            path.relative_to(folder).as_posix(): path
            for path in folder.rglob("*")
            if path.is_file() and "logs" not in path.parts
        }
        for folder in (paths, urls)
    )
    assert written.keys() == uploaded.keys()
    for name, path in written.items():
        if "/" not in name and not name.startswith("p") and name != "json":
            assert path.read_bytes() == uploaded[name].read_bytes().replace(b"file://%s" % bytes(urls), bytes(paths))
