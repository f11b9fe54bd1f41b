"""Every command and every Python block of README.md and of docs/ runs, in order, with short training."""

import contextlib
import importlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import fsspec
import pytest
from eagerly import eagerly, uncompiled
from scores_here import scores_here
from serving_process import ServingProcess
from undrawn import undrawn
from unprobed import unprobed
from unserved import unserved

from keras_encdec.cli.command import Command
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.experiment import load_experiment
from keras_encdec.formats import InputLines, open_output

ROOT = pathlib.Path(__file__).parents[1]
# In the order of the navigation: later pages use the files that a page makes.
PAGES = ["README.md", "docs/tutorial.md"] + [
    f"docs/guides/{name}.md"
    for name in (
        "extraction",
        "decoding",
        "phrase-table",
        "training",
        "nbest",
        "tuning",
        "experiment",
        "moses",
        "sentences",
        "multi-task",
        "language-models",
        "pruning",
        "data-selection",
        "generating",
        "report",
        "trying",
        "large-work",
        "serving",
        "python",
        "backends",
        "progress",
        "troubleshooting",
    )
]
ALL_PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
ALL_PAGES.remove("CHANGELOG.md")  # which may name commands and flags that no longer exist
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
MODULES = [vars(importlib.import_module(f"keras_encdec.cli.{place.partition(':')[2]}")) for place in SCRIPTS.values()]
COMMANDS = {value.name: value for module in MODULES for value in module.values() if isinstance(value, Command)}
# Lines of an indented or fenced block that are run, a variable of the environment in front or not.
COMMAND_LINE = re.compile(r"^(?: {4,})?((?:[A-Z_]+=\S+ )?(?:encdec-|curl ).*)", re.MULTILINE)
# The phrases of the n-best list below, whose scores have the logarithms -1 -2 -1 -2.
NBEST_PHRASES = """\
open the file ||| le fichier ||| 0.367879 0.135335 0.367879 0.135335 ||| 1-0 2-1 ||| 1 1 1 ||| |||
open the file ||| ouvrir le fichier ||| 0.367879 0.135335 0.367879 0.135335 ||| 0-0 1-1 2-2 ||| 1 1 1 ||| |||
the next page ||| la page suivante ||| 0.367879 0.135335 0.367879 0.135335 ||| 0-0 2-1 1-2 ||| 1 1 1 ||| |||
"""
# Makes training short and models small, whatever is trained.
SHORT = "--updates=1 --jit_compile=false"
SMALL = "--units=16"


@contextlib.contextmanager
def eagerly_and_uncompiled():
    with eagerly(), uncompiled():
        yield


# With few updates or lines, most of the time goes into compiling, and into importing TensorFlow in a separate process.
QUICKLY = {
    "encdec-train": eagerly,
    "encdec-distill": eagerly_and_uncompiled,
    "encdec-doctor": unprobed,
    "encdec-generate": uncompiled,
    "encdec-score": uncompiled,
    "encdec-select": uncompiled,
    "encdec-verify": scores_here,
    "encdec-report": undrawn,
    "encdec-serve": unserved,
}


# In place of the package's experiment, of ten minutes.
EXPERIMENT = """
[data]
dev_source = "input.en"
dev_target = "input.fr"
test_source = "input.en"
test_target = "input.fr"
[baseline]
system = "lists"
phrase_table = "phrase-table.gz"
dev_nbest = "nbest.gz"
test_nbest = "nbest.gz"
weights = "moses.ini"
[features.RNN]
model_dir = "model"
[[rows]]
name = "Baseline"
[[rows]]
name = "+ RNN"
features = ["RNN"]
"""


def read(page):
    """A page's text, continued lines joined."""
    return (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the pages use."""
    folder = tmp_path_factory.mktemp("docs")
    data = libreoffice_en_fr()
    with InputLines(data.phrase_table) as lines, open_output(folder / "phrase-table.gz") as table:
        table.write(b"".join(line + b"\n" for _, line in zip(range(150), lines, strict=False)))
        table.write(NBEST_PHRASES.encode())
    shutil.copy(data.moses_ini, folder / "moses.ini")
    sides = [pathlib.Path(side).read_text(encoding="utf-8").splitlines() for side in (data.dev_source, data.dev_target)]
    # What trains and searches here is not compiled, so that each word takes its time.
    short = [pair for pair in zip(*sides, strict=True) if max(len(side.split()) for side in pair) <= 4]
    pairs = list(zip(*short, strict=True))
    text = "".join(f"{source}\t{target}\n" for source, target in short[:50])
    (folder / "phrases.en").write_text("open the file\nthe number of\n")
    (folder / "dictionary.tsv").write_text("file\tfichier\npage\tpage\t3\n")
    (folder / "pairs.tsv").write_text(text, encoding="utf-8")
    for language, side in zip(("en", "fr"), pairs, strict=True):
        for name, lines in (("train", side[:40]), ("val", side[40:46]), ("test", side[46:51])):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "gold.align").write_text("0-0 1?1\n" * 5)
    shutil.copy(folder / "train.fr", folder / "train.de")
    for name, like in (("clean", "val"), ("noisy", "train"), ("domain", "val")):
        for language in ("en", "fr"):
            shutil.copy(folder / f"{like}.{language}", folder / f"{name}.{language}")
    (tasks,) = re.findall(r"```toml\n(.*?)```", read("docs/guides/multi-task.md"), re.DOTALL)
    (folder / "tasks.toml").write_text(tasks, encoding="utf-8")
    (folder / "input.en").write_text("open the file\nthe next page\n", encoding="utf-8")
    features = "WordPenalty0= -3 PhrasePenalty0= 1 TranslationModel0= -1 -2 -1 -2 Distortion0= 0"
    hypotheses = {"0 ||| ouvrir le fichier": -4.4, "0 ||| le fichier": -5, "1 ||| la page suivante": -3.5}
    with open_output(folder / "nbest.gz") as nbest:
        nbest.write("".join(f"{text}  ||| {features} ||| {total}\n" for text, total in hypotheses.items()).encode())
    (folder / "input.fr").write_text("ouvrir le fichier\nla page suivante\n", encoding="utf-8")
    for name in ("test.moses.fr", "test.scored.fr"):
        (folder / name).write_text("".join(f"{line}\n" for line in pairs[1][46:51]), encoding="utf-8")
    with open_output(folder / "test.rescored.gz") as nbest:
        scored = f"{features} RNN0= -3 Length0= 4"
        lines = [f"{number} ||| {line}  ||| {scored} ||| -4\n" for number, line in enumerate(pairs[1][46:51])]
        nbest.write("".join(lines).encode())
    return folder


def fill_bucket(folder):
    """Puts the trained model and the table into the bucket of the pages: here a store in memory."""
    store = fsspec.filesystem("memory")
    if not store.exists("/bucket"):
        store.put(os.fspath(folder / "model"), "/bucket/model", recursive=True)
        store.put(os.fspath(folder / "phrase-table.gz"), "/bucket/table.gz")


@pytest.fixture(scope="module")
def served(folder):
    """A function that replaces the ports in a page by those of a running server."""
    with contextlib.ExitStack() as running:
        server = []

        def addressed(text):
            if "localhost" not in text:
                return text
            if not server:
                flags = {"model_config_file": folder / "served" / "models.config", "rest_api_port": 0}
                process = ServingProcess(**flags, allow_version_labels_for_unavailable_models=True)
                server.append(process)
                running.callback(process.close)
            rest = server[0].rest_address.removeprefix("http://")
            return text.replace("localhost:8500", server[0].grpc_address).replace("localhost:8501", rest)

        yield addressed


@pytest.fixture(scope="module")
def outputs(folder, served):
    """What each command line wrote to standard output; a line that several pages have is run once."""
    outputs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        text = read("docs/guides/generating.md")
        (segment,) = re.findall(r"```python\n(import sentencepiece\n.*?)```", text, re.DOTALL)
        exec(segment, {})
        for page in PAGES:
            for line in COMMAND_LINE.findall(read(page)):
                if line not in outputs:
                    outputs[line] = run(prepared(line, served))
    return outputs


def prepared(line, served):
    """The command line as it is run here: training short and small, servers where they are."""
    if line.startswith("encdec-train"):
        line = re.sub(r"--(minutes|epochs)=\S+", SHORT, line)
        if re.search("--preset=small(_sentences)? |hybrid|--units", line) and "cslm" not in line:
            line += f" {SMALL}"
    if line.startswith("encdec-distill"):
        line += " --updates=1 --beam_size=4" + " --students=2" * ("--students" in line)
    if "--config=libreoffice" in line:
        pathlib.Path("quick.toml").write_text(EXPERIMENT)
        line = line.replace("=libreoffice", "=quick.toml")
    if line.startswith("encdec-report"):
        line += " --map_words=20" + " --samples=2 --map_phrases=20" * ("--phrase_table" in line)
    if line.startswith("encdec-verify") and "--input" not in line:
        line += " --pairs=20"
    if line.startswith("encdec-serve"):
        line += " --port=0"
    # The same shards in threads: tests/scoring and tests/decoding start the processes, tests/runtime Ray.
    line = re.sub(r"--processes=\d+|--engine=ray( --ray_address=auto)?", "--shard_lines=131072", line)
    line = re.sub(r"--seconds=\S+", "--seconds=0.2", line)
    if "s3://bucket/" in line:
        fill_bucket(pathlib.Path.cwd())
        line = line.replace("s3://", "memory://")
    if "--stable_version=2" in line:  # as after a second run of `encdec-export`, which the page mentions
        shutil.copytree("served/1", ".made")
        os.rename(".made", "served/2")
    return served(line)


def run(line):
    """What a command writes to standard output, run here or, with environment variables, in a separate process."""
    words = shlex.split(line)
    if words[0] in COMMANDS:
        with contextlib.redirect_stdout(Output()) as output, QUICKLY.get(words[0], contextlib.nullcontext)():
            status = COMMANDS[words[0]].main(words[1:])
        assert status == 0, line
        return output.getvalue()
    if words[0] == "curl" and not shutil.which("curl"):
        return None
    variables, words = ({}, words) if "=" not in words[0] else (dict([words[0].split("=", 1)]), words[1:])
    program = str(pathlib.Path(sys.executable).parent / words[0]) if words[0] in COMMANDS else words[0]
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


class Output(io.TextIOWrapper):
    """Standard output in memory, for text and for bytes."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8")

    def getvalue(self):
        self.flush()
        return self.buffer.getvalue().decode("utf-8")


def test_commands_of_all_kinds_are_found():
    lines = [line for page in PAGES for line in COMMAND_LINE.findall(read(page))]
    run_here = {name for name in COMMANDS for line in lines if name in line}
    assert run_here == set(COMMANDS) - {"encdec-demo"}  # which `make demo` runs
    assert len(lines) >= 25 and any(line.startswith("curl") for line in lines)


def test_commands_do_what_the_pages_say(folder, outputs):
    for made in ("model/best.keras", "scored.gz", "scored.ini", "scored.tsv", "served.gz", "served.tsv", "gru", "lm"):
        assert (folder / made).exists(), made
    with InputLines(folder / "scored.gz") as lines:
        assert all(len(line.split(b"|||")[2].split()) == 5 for line in lines)
    assert (folder / "test.fr").read_text(encoding="utf-8").count("\n") == 5
    with InputLines(folder / "lm.gz") as lines:
        assert [line.count(b"LM1= -") for line in lines] == [1, 1, 1]
    with InputLines(folder / "phrases.gz") as lines:
        assert [line.count(b" RNN0= -") for line in lines] == [1, 1, 1]
    with InputLines(folder / "reranked.gz") as lines:
        assert [line.count(b"RNN0= -") for line in lines] == [1, 1, 1]
    for line, output in outputs.items():
        if line.startswith("curl") and output is not None:
            assert json.loads(output)["predictions"][0]["log_prob"] < 0


def test_the_experiment_of_the_guide_can_be_read(folder, outputs):
    for name in ("val.nbest.gz", "test.nbest.gz"):
        (folder / name).write_text("0 ||| le chat ||| LM0= -4.5 ||| -4.5\n")
    (block,) = re.findall(r"```toml\n(.*?)```", read("docs/guides/experiment.md"), re.DOTALL)
    (folder / "experiment.toml").write_text(block, encoding="utf-8")
    config = load_experiment(folder / "experiment.toml")
    assert [row.features for row in config.rows] == [(), ("RNN",), ("RNN", "Sentence")]


@pytest.mark.parametrize("page", [page for page in PAGES if "```python" in read(page)])
def test_python_runs_as_written(page, folder, outputs, served, monkeypatch):
    monkeypatch.chdir(folder)
    for block in re.findall(r"```python\n(.*?)```", read(page), re.DOTALL):
        quickly = undrawn() if "report(" in block else contextlib.nullcontext()
        with contextlib.redirect_stdout(io.StringIO()) as output, quickly:
            exec(compile(served(block), page, "exec"), {"__name__": "__main__"})
        assert output.getvalue()


def test_servers_are_started_with_files_and_flags_that_exist(folder, outputs):
    """What pages hand to TensorFlow Serving is what the test server is started with, or named in its files."""
    text = read("docs/guides/serving.md") + read("docs/tutorial.md")
    for name in re.findall(r"served/(\w+\.\w+)", text):
        assert (folder / "served" / name).exists(), name
    commands = "".join(re.findall(r"^ {4,}(?:docker|tensorflow_model).*", text, re.MULTILINE))
    flags = set(re.findall(r"--(\w+)=", commands))
    peer = (pathlib.Path(__file__).parent / "helpers" / "serving_peer.py").read_text(encoding="utf-8")
    assert flags and all(f"--{flag}" in peer for flag in flags), flags


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_flag_and_target_that_pages_name_exists(page):
    others = r"^ {4,}(?:docker|tensorflow_model|perl MOSES|MOSES).*"  # not commands of the package
    known = {"nproc_per_node", "no", "nnodes", "node_rank", "master_addr", "master_port"}  # of torchrun
    text = re.sub(others, "", read(page), flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`| {4})make ([\w-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    known |= {name for command in COMMANDS.values() for name in command.flag_values()}
    # Of benchmarks/.
    known |= {"before", "full", "repeats", "automatic", "backends", "nbest", "rate", "student_dir", "help", "works"}
    known |= {"peer", "record_durations", "whole", "xla_cpu_max_isa", "xla_gpu_enable_triton_gemm"}
    known |= {"tf_xla_persistent_cache_directory"}  # of tests/run.py, and of XLA
    known |= {"directory", "cpus"}  # of Python's http.server, and of Docker
    known |= {"batch", "to"}  # of mert-moses.pl, and of jupytext
    examples = {"min_p", "window"} if page == "CONTRIBUTING.md" else set()
    for flag in set(re.findall(r"(?<![\w-])--(\w+)", text)) - examples:
        assert flag in known or flag.removeprefix("no") in known, flag
