"""Models of other architectures go through the same commands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command, fail, succeed

FLAGS = ["--units=8", "--embedding_dim=8", "--optimizer=adam", "--learning_rate=0.02", "--batch_size=16",
         "--round_updates=30", "--seed=5", "--jit_compile=false", "--notensorboard"]  # fmt: skip
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def train():
    command = Command("keras_encdec.trainers.train", "encdec-train")
    yield command
    command.close()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs where a source word s7 is always a target word t7."""
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    numbers = [[(i * j) % 11 for j in range(1, 2 + i % 6)] for i in range(1, 300)]
    path.write_text("".join(f"{' '.join(f's{n}' for n in row)}\t{' '.join(f't{n}' for n in row)}\n" for row in numbers))
    return path


def run(program, *flags):
    done = subprocess.run([BIN / program, *map(str, flags)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ["--architecture=lstm", "--layers=2", "--dropout=0.1"],
        ["--architecture=gru", "--layers=1", "--bidirectional=sum", "--condition=context", "--reverse_source"],
    ],
)
def test_a_recurrent_model_is_trained_resumed_scored_and_generates(train, pairs, tmp_path, flags):
    model, common = tmp_path / "model", [*FLAGS, *flags]
    table = f"--tsv={pairs}"
    succeed(train(table, f"--model_dir={model}", "--updates=60", *common))
    succeed(train(table, f"--model_dir={model}", "--updates=120", "--resume", *common))
    perplexities = [one["perplexity"] for one in json.loads((model / "history.json").read_text())["rounds"]]
    assert len(perplexities) == 4 and perplexities[-1] < perplexities[0]
    fail(train(table, f"--model_dir={model}", "--updates=130", "--resume", *common, "--units=9"), 2, "--units=9")

    run("encdec-score", f"--model_dir={model}", f"--input={pairs}", "--format=tsv", f"--output={tmp_path}/scored",
        "--token_scores")  # fmt: skip
    lines = [line.split("\t") for line in (tmp_path / "scored").read_text().splitlines()]
    assert all(float(row[2]) == pytest.approx(sum(map(float, row[3].split())), abs=1e-5) for row in lines)
    (tmp_path / "source").write_text("s1 s2\ns3\n")
    found = run("encdec-generate", f"--model_dir={model}", f"--input={tmp_path}/source", "--format=tsv")
    assert [row.split("\t")[0] for row in found.splitlines()] == ["s1 s2", "s3"]
    run("encdec-export", f"--model_dir={model}", f"--export_dir={tmp_path}/served")
    assert "exported: 30 pairs" in run(
        "encdec-verify", f"--model_dir={model}", f"--export_dir={tmp_path}/served", "--pairs=30"
    )


def test_flags_of_another_architecture_are_told(train, pairs, tmp_path):
    common = f"--tsv={pairs}", f"--model_dir={tmp_path}/model", "--updates=1"
    fail(train(*common, "--architecture=lstm", "--maxout_units=4"), 2, "--maxout_units", "--architecture=encdec")
    fail(train(*common, "--layers=3"), 2, "--layers with --architecture=encdec", "--architecture=lstm, gru or rnn")
    fail(train(*common, "--architecture=transformer"), 2, "architecture")
