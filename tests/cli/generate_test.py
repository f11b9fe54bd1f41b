"""encdec-generate through its entry point."""

import gzip
import os
import subprocess
import sys

import pytest
import toy_models
from commands import Command, fail, succeed

from keras_encdec.decoding import BeamSampler, RandomSampler, TextGenerator
from keras_encdec.formats import escape
from keras_encdec.scoring import TextScorer

SOURCE_WORDS = [f"s{i}" for i in range(9)]
TARGET_WORDS = [f"t{i}" for i in range(10)] + ['"']
LINES = ["s1 s2 s3", "", "s4 &quot; s5", "s8", "s0 other s0 s7 s7 s7 s7"]


@pytest.fixture(scope="module")
def generate():
    command = Command("keras_encdec.cli.generate", "encdec-generate")
    yield command
    command.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [toy_models.save_model(folder / str(seed), SOURCE_WORDS, TARGET_WORDS, seed=seed) for seed in (0, 1)]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_text("\n".join(LINES) + "\n")
    return path


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


def test_a_line_gets_the_best_target(generate, models, source, tmp_path):
    done = succeed(generate(f"--model_dir={models[0]}", f"--input={source}"))
    expected = TextGenerator([models[0]]).generate(LINES, BeamSampler(12))
    assert done.stdout.splitlines() == [" ".join(found[0].words) for found in expected]
    assert done.stdout.splitlines()[1] == "" and "5 lines in " in done.stderr

    out = tmp_path / "out.gz"
    succeed(generate(f"--model_dir={models[0]}", f"--input={source}", f"--output={out}", "--mode=greedy"))
    greedy = TextGenerator([models[0]]).generate(LINES)
    assert gzip.decompress(out.read_bytes()).decode().splitlines() == [" ".join(found[0].words) for found in greedy]


def test_the_best_hypotheses_have_their_scores(generate, models, source):
    flags = f"--model_dir={models[0]}", f"--input={source}", "--format=tsv", "--nbest=3", "--beam_size=4"
    found = rows(succeed(generate(*flags)).stdout)
    scorer = TextScorer(models[0])
    assert [row[0] for row in found] == [line for line in LINES for _ in range(3 if line else 1)]
    for text, target, log_prob in found:
        [expected] = scorer.score([scorer.words(text, target)])
        assert float(log_prob) == pytest.approx(expected, abs=1e-4)


def test_distinct_samples_are_counted_and_ranked(generate, models, source):
    flags = f"--model_dir={models[0]}", f"--input={source}", "--format=tsv", "--mode=sample", "--temperature=0.5"
    found = rows(succeed(generate(*flags, "--num_samples=30", "--top=4", "--seed=7")).stdout)
    expected = TextGenerator([models[0]]).generate(LINES, RandomSampler(30, temperature=0.5, seed=7))
    assert found == [
        [line, " ".join(one.words), f"{one.log_prob:.6f}", str(one.count)]
        for line, some in zip(LINES, expected, strict=True) for one in some[:4]
    ]  # fmt: skip
    assert any(int(row[3]) > 1 for row in found if row[0])
    assert all(sum(one.count for one in some) == 30 for some in expected)
    other = succeed(generate(*flags, "--num_samples=30", "--top=4", "--seed=8")).stdout
    assert rows(other) != found


def test_a_moses_list_has_a_feature_a_total_and_escapes(generate, models, source):
    flags = f"--model_dir={models[0]}", f"--input={source}", "--format=moses_nbest", "--nbest=5", "--beam_size=5"
    lines = succeed(generate(*flags, "--feature_name=Rnn")).stdout.splitlines()
    assert [line.split(" ||| ")[0] for line in lines] == [n for n in "01234" for _ in range(1 if n == "1" else 5)]
    for line in lines:
        number, target, feature, total = line.split(" ||| ")
        assert target.endswith(" ") and '"' not in target
        name, value = feature.split()
        assert name == "Rnn=" and float(value) == pytest.approx(float(total), rel=1e-4)
    samples = "--mode=sample", "--temperature=5", "--top=50"
    done = succeed(generate(*flags[:2], "--format=moses_nbest", *samples))
    assert "&quot;" in done.stdout and '"' not in done.stdout and " RNN0= -" in done.stdout
    plain, escaped = (
        succeed(generate(*flags[:2], *samples[:2], "--num_samples=1", *more)).stdout for more in ([], ["--escape"])
    )
    assert '"' in plain and escaped == escape(plain)


def test_an_ensemble_is_neither_of_its_models(generate, models, source):
    flags = f"--input={source}", "--format=tsv"
    alone = [rows(succeed(generate(*flags, f"--model_dir={model}")).stdout) for model in models]
    both = [f"--model_dir={model}" for model in models]
    together = [
        rows(succeed(generate(*flags, *both, f"--average={average}", "--model_weight=1", "--model_weight=3")).stdout)
        for average in ("arithmetic", "geometric")
    ]
    assert len({str(found) for found in (*alone, *together)}) == 4
    expected = TextGenerator(models, [1, 3], "geometric").generate(LINES, BeamSampler(12))
    assert [row[2] for row in together[1]] == [f"{found[0].log_prob:.6f}" for found in expected]


def test_more_lines_than_are_decoded_together_keep_their_order(generate, models, tmp_path):
    path = tmp_path / "many"
    path.write_text("".join(f"s{i % 9} s{i % 7}\n" for i in range(2500)))
    flags = f"--model_dir={models[0]}", f"--input={path}", "--mode=greedy", "--format=tsv"
    found = rows(succeed(generate(*flags)).stdout)
    assert [row[0] for row in found] == path.read_text().splitlines()
    for row in (found[0], found[2100], found[2499]):
        assert row[1:] == next(other[1:] for other in found if other[0] == row[0])


def test_the_shells_file_is_written_to_and_not_replaced(models, source, tmp_path):
    command = f'echo before; "{sys.executable}" -m keras_encdec.cli.generate --model_dir={models[0]} --input={source}'
    with open(tmp_path / "out", "w") as out:
        subprocess.run(command, shell=True, stdout=out, check=True, env={**os.environ})
    assert (tmp_path / "out").read_text().splitlines()[0] == "before"
    assert len((tmp_path / "out").read_text().splitlines()) == 1 + len(LINES)


def test_another_encoding_is_read_and_written(generate, tmp_path):
    model = toy_models.save_model(tmp_path / "model", ["é"], ["ç", "œ"], seed=4)
    (tmp_path / "source").write_bytes("é\n".encode("latin-1") * 2)
    flags = f"--model_dir={model}", f"--input={tmp_path / 'source'}", f"--output={tmp_path / 'out'}"
    fail(generate(*flags), 1, tmp_path / "source", "line 1", "--encoding=latin-1")
    fail(generate(*flags, "--encoding=latin-1", "--format=tsv", "--nbest=9"), 1, "'œ'", "leave --encoding out")
    assert not (tmp_path / "out").exists()
    succeed(generate(*flags, "--encoding=cp1252", "--format=tsv", "--nbest=9"))
    assert "é\tç" in (tmp_path / "out").read_bytes().decode("cp1252")


def test_models_of_other_words_are_no_ensemble(generate, models, source, tmp_path):
    other = toy_models.save_model(tmp_path / "other", SOURCE_WORDS, [*TARGET_WORDS[:-1], "t10"])
    done = generate(f"--model_dir={models[0]}", f"--model_dir={other}", f"--input={source}")
    fail(done, 1, other, "another target vocabulary", models[0])
    other = toy_models.save_model(tmp_path / "back", SOURCE_WORDS, TARGET_WORDS, reverse=True)
    fail(generate(f"--model_dir={models[0]}", f"--model_dir={other}", f"--input={source}"), 1, "another direction")


@pytest.mark.parametrize(
    "flags, texts",
    [
        (["--beam_size=0"], ["beam_size=0"]),
        (["--beam_size=2", "--nbest=3", "--format=tsv"], ["--nbest=3, expected 1 to --beam_size, 2"]),
        (["--nbest=3"], ["--nbest with --format=text"]),
        (["--num_samples=3"], ["--num_samples with --mode=beam"]),
        (["--mode=sample", "--nbest=2", "--format=tsv"], ["--nbest with --mode=sample"]),
        (["--mode=sample", "--top_p=1.5"], ["top_p=1.5", "at most 1"]),
        (["--mode=sample", "--temperature=0"], ["temperature=0"]),
        (["--model_weight=1", "--model_weight=2"], ["2 --model_weight for 1 --model_dir"]),
        (["--model_weight=-1"], ["--model_weight=-1.0"]),
        (["--model_weight=nan"], ["--model_weight=nan, expected positive numbers"]),
        (["--model_weight=inf"], ["--model_weight=inf, expected positive numbers"]),
        (["--average=geometric"], ["--average with one --model_dir, expected several"]),
        (["--max_length_factor=inf"], ["--max_length_factor=inf, expected a number"]),
        (["--length_penalty=nan"], ["length_penalty=nan, expected a number"]),
        (["--mode=sample", "--top=2"], ["--top with --format=text"]),
        (["--feature_name=LM0"], ["--feature_name with --format=text"]),
        (["--format=moses_nbest", "--feature_name=a_b|||=x"], ["--feature_name='a_b|||=x', expected a name"]),
    ],
)
def test_wrong_use_is_told(generate, models, source, flags, texts):
    fail(generate(f"--model_dir={models[0]}", f"--input={source}", *flags), 2, *texts)


def test_an_input_that_is_not_there_is_told(generate, models, tmp_path):
    fail(generate(f"--model_dir={models[0]}", f"--input={tmp_path / 'none'}"), 1, tmp_path / "none")
    fail(generate(f"--model_dir={tmp_path}", f"--input={models[0] / 'config.json'}"), 1, "encdec-train")
