"""encdec-generate: how flags choose the sampler, the options and the files."""

import os
import subprocess
import sys

import pytest
import toy_models
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.generate import COMMAND
from keras_encdec.decoding import BeamSampler, RandomSampler, TextGenerator

SOURCE_WORDS = [f"s{i}" for i in range(9)]
TARGET_WORDS = [f"t{i}" for i in range(10)] + ['"']
LINES = ["s1 s2 s3", "", "s8"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy_models.save_model(tmp_path_factory.mktemp("model") / "0", SOURCE_WORDS, TARGET_WORDS)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_text("\n".join(LINES) + "\n")
    return path


def generate(*flags):
    return in_process(COMMAND, *flags)


def test_flags_choose_the_sampler_and_what_is_written(model, source, tmp_path):
    out, generator = tmp_path / "out", TextGenerator([model])
    flags = f"--model_dir={model}", f"--input={source}", f"--output={out}", "--format=tsv"
    search = "--beam_size=4", "--nbest=3", "--length_penalty=0.5", "--suppress_unknown"
    done = succeed(generate(*flags, *search))
    assert "3 lines in " in done.stderr and str(out) in done.stderr
    expected = generator.generate(LINES, BeamSampler(4, num_best=3, length_penalty=0.5, suppress_unknown=True))
    assert [line.split("\t")[1] for line in out.read_text().splitlines()] == [
        " ".join(hypothesis.words) for hypotheses in expected for hypothesis in hypotheses
    ]
    sampling = "--mode=sample", "--num_samples=9", "--temperature=0.7", "--top_k=6", "--top_p=0.9", "--seed=3"
    succeed(generate(*flags, *sampling))
    expected = generator.generate(LINES, RandomSampler(9, 0.7, 6, 0.9, 3))
    assert [line.split("\t")[1:] for line in out.read_text().splitlines()] == [
        [" ".join(each.words), f"{each.log_prob:.6f}", str(each.count)]
        for hypotheses in expected
        for each in hypotheses[:5]
    ]


def test_standard_output_into_a_file_is_written_to_that_file(model, source, tmp_path):
    flags = f"--model_dir={model} --input={source} --mode=greedy"
    command = f'echo before; "{sys.executable}" -m keras_encdec.cli.generate {flags}'
    with open(tmp_path / "out", "w") as out:
        subprocess.run(command, shell=True, stdout=out, check=True, env={**os.environ})
    assert (tmp_path / "out").read_text().splitlines()[0] == "before"
    assert len((tmp_path / "out").read_text().splitlines()) == 1 + len(LINES)


@pytest.mark.parametrize(
    "flags, texts",
    [
        (["--beam_size=0"], ["beam_size=0"]),
        (["--beam_size=2", "--nbest=3", "--format=tsv"], ["--nbest=3, expected 1 to --beam_size, 2"]),
        (["--nbest=3"], ["--nbest with --format=text"]),
        (["--num_samples=3"], ["--num_samples with --mode=beam"]),
        (["--mode=sample", "--nbest=2", "--format=tsv"], ["--nbest with --mode=sample"]),
        (["--mode=sample", "--top_p=1.5"], ["top_p=1.5", "1 or less"]),
        (["--mode=sample", "--temperature=0"], ["temperature=0"]),
        (["--model_weight=1", "--model_weight=2"], ["2 --model_weight for 1 --model_dir"]),
        (["--model_weight=-1"], ["--model_weight=[-1.0], expected numbers in a list, above 0"]),
        (["--model_weight=nan"], ["--model_weight=nan: expected a finite number"]),
        (["--model_weight=1e31"], ["--model_weight=[1e+31], expected numbers in a list, above 0, 1e+30 or less"]),
        (["--model_weight=inf"], ["--model_weight=inf: expected a finite number"]),
        (["--average=geometric"], ["--average with one --model_dir, expected several"]),
        (["--max_length_factor=inf"], ["--max_length_factor=inf: expected a number, 0 or more"]),
        (["--max_length=0"], ["--max_length=0: expected a whole number, 1 or more"]),
        (["--length_penalty=nan"], ["length_penalty=nan: expected a number"]),
        (["--top=2", "--format=tsv"], ["--top with --mode=beam, expected it with --mode=sample"]),
        (["--dtype=float16"], ["--dtype=float16: expected one of float32, bfloat16"]),
        (["--mode=sample", "--top=2"], ["--top with --format=text"]),
        (
            ["--replace_unknown=a.tsv", "--dictionary=b.tsv"],
            ["found a file in both --replace_unknown and --dictionary"],
        ),
        (["--replace_unknown=a.tsv", "--suppress_unknown"], ["--replace_unknown with --suppress_unknown"]),
        (["--alignments=-"], ["--alignments=- with --output=-, expected a file for one of them"]),
        (["--replace_unknown="], ["found an empty --replace_unknown, expected a value"]),
        (["--noreplace_unknown", "--dictionary=b.tsv"], ["--dictionary without --replace_unknown"]),
        (["--feature_name=LM0"], ["--feature_name with --format=text"]),
        (["--format=moses_nbest", "--feature_name=a_b|||=x"], ["--feature_name='a_b|||=x', expected a name"]),
    ],
)
def test_wrong_use_is_an_error(model, source, flags, texts):
    fail(generate(f"--model_dir={model}", f"--input={source}", *flags), 2, *texts)


def test_missing_inputs_and_models_are_errors(model, tmp_path):
    fail(generate(f"--model_dir={model}", f"--input={tmp_path / 'none'}"), 1, tmp_path / "none")
    fail(generate(f"--model_dir={tmp_path}", f"--input={model / 'config.json'}"), 1, "encdec-train")


def test_replacement_takes_a_dictionary_or_none(tmp_path):
    words = ["t0", "unkpos_0", "unkpos_1", "unkpos_null"]
    model = toy_models.save_model(tmp_path / "0", SOURCE_WORDS, words, cell="rnn", layers=1, attention="global")
    (tmp_path / "in").write_text("s1 s2 s3\ns0 other s0 s7 s7 s7 s7\n")
    dictionary = tmp_path / "words.tsv"
    dictionary.write_text("other\tautre\ns7\tS7\n")

    def found(*flags):
        files = f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}"
        succeed(generate(f"--model_dir={model}", *files, "--mode=greedy", *flags))
        return (tmp_path / "out").read_text()

    with_file = found(f"--replace_unknown={dictionary}")
    assert "S7" in with_file and with_file == found("--replace_unknown", f"--dictionary={dictionary}")
    assert "s7" in found("--replace_unknown") and "unk" in found("--replace_unknown=false")
