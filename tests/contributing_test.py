"""The examples of CONTRIBUTING.md run: each part is added as written there and taken through all that uses it."""

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import sys
from unittest import mock

import numpy as np
import pytest
from eagerly import eagerly, uncompiled

from keras_encdec.architectures.architecture_registry import ARCHITECTURES
from keras_encdec.cli import generate as generate_command
from keras_encdec.cli import train as train_command
from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import open_pairs
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.decoding import Generator, TextGenerator, generate_file
from keras_encdec.decoding.sampler_registry import SAMPLERS
from keras_encdec.errors import InputError
from keras_encdec.export import export_model, verify_export
from keras_encdec.formats.format_registry import FORMATS
from keras_encdec.layers.attention import ATTENTIONS
from keras_encdec.layers.recurrent_cell import CELLS
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.translation_model import MODELS
from keras_encdec.scoring import Scorer, TextScorer
from keras_encdec.scoring.score_file import score_file
from keras_encdec.trainers import TrainingConfig, TrainingData, train

PAGE = pathlib.Path(__file__).parents[1] / "CONTRIBUTING.md"
# Removed from the registries at the end: other tests check what is registered.
REGISTERED = {
    "minimal_gated": [CELLS],
    "wait_k": [ATTENTIONS],
    "min_p": [SAMPLERS],
    "json_lines": [FORMATS],
    "window": [MODELS, ARCHITECTURES],
}
QUICK = {"updates": 3, "batch_size": 16, "jit_compile": "false", "tensorboard": False}
SOURCES = [[5, 7, 2], [4, 2], [5, 7, 8, 2]]
TARGETS = [[6, 2], [8, 9, 2], [6, 9, 4, 2]]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The modules of the page, by the names of their files."""
    folder, parts = tmp_path_factory.mktemp("parts"), {}
    with mock.patch.dict(sys.modules):
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
            path = pathlib.PurePosixPath(block.splitlines()[0].removeprefix("# "))
            (folder / path.name).write_text(block, encoding="utf-8")
            name = ".".join(path.with_suffix("").parts)
            spec = importlib.util.spec_from_file_location(name, folder / path.name)
            sys.modules[name] = parts[path.stem] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(parts[path.stem])
        yield parts
        for name, registries in REGISTERED.items():
            for registry in registries:
                registry.unregister(name)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a hundred pairs: pairs.tsv, pairs.jsonl, and sources.en with three sources."""
    folder, data = tmp_path_factory.mktemp("files"), libreoffice_en_fr()
    sides = [pathlib.Path(side).read_text(encoding="utf-8").splitlines() for side in (data.dev_source, data.dev_target)]
    pairs = [pair for pair in zip(*sides, strict=True) if max(len(side.split()) for side in pair) <= 6][:100]
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    lines = [json.dumps({"source": source, "target": target}) for source, target in pairs]
    (folder / "pairs.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "sources.en").write_text("".join(f"{source}\n" for source, _ in pairs[:3]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def window_model(parts, files):
    """Directory of a trained model of the page."""
    config = TrainingConfig(architecture="window", model={"window": 2, "embedding_dim": 8, "units": 8}, **QUICK)
    with contextlib.redirect_stdout(io.StringIO()), eagerly():
        train(config, TrainingData(tsv=str(files / "pairs.tsv"), held_out_pairs=10), files / "window")
    return files / "window"


@pytest.fixture(scope="module")
def window_export(parts, window_model, files):
    """Folder of its export, made when everything of the page was registered."""
    export_model(window_model, files / "served_window")
    return files / "served_window"


def test_every_addition_is_in_the_page(parts):
    assert list(parts) == [
        "window_config",
        "minimal_gated_cell",
        "wait_k_attention",
        "min_p_sampler",
        "json_lines",
        "window_encoder_decoder",
    ]


def test_a_hyperparameter_is_a_flag_with_checks_and_help(parts):
    config = parts["window_config"].WindowConfig
    assert config().window == 3
    with pytest.raises(ConfigurationError, match="found window=0, expected a whole number, 1 or more"):
        config(window=0)
    flag = train_command.COMMAND.flag_values()["window"]
    assert "Target words before the next that are read." in flag.help
    assert next(config.hyperparameters()).published == {"Bengio et al., 2003, section 4": 5}
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        assert train_command.COMMAND.main(["--model_dir=none", "--architecture=window", "--window=0"]) == 2
    assert "window" in errors.getvalue()


def test_a_cell_and_an_attention_are_trained_scored_searched_and_exported(parts, scores_here, files):
    """Together, as each use takes a while: the cell within the attention's recurrence, with input feeding."""
    hyperparameters = {"cell": "minimal_gated", "attention": "wait_k", "layers": 1, "units": 8, "embedding_dim": 8}
    config = TrainingConfig(architecture="recurrent", model=hyperparameters, **QUICK)
    with contextlib.redirect_stdout(io.StringIO()), eagerly():
        train(config, TrainingData(tsv=str(files / "pairs.tsv"), held_out_pairs=10), files / "waiting")
    # What searches with every sampler is the model below.
    with mock.patch("keras_encdec.export.served_model.registered_samplers", lambda: {"beam": SAMPLERS["beam"]}):
        export_model(files / "waiting", files / "served_waiting")
    through_everything(files / "waiting", files / "served_waiting", files)
    with uncompiled():
        score_file(
            files / "waiting",
            files / "pairs.tsv",
            files / "heard.tsv",
            format="tsv",
            alignments=files / "heard.align",
            alignment_format="weights",
        )
    for line in (files / "heard.align").read_text(encoding="utf-8").splitlines():
        weights = np.array(json.loads(line)["weights"])
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-3)
        assert all(not row[step + 3 :].any() for step, row in enumerate(weights))


def test_a_model_is_trained_scored_searched_and_exported(window_model, window_export, scores_here, files):
    assert ModelDirectory.load(window_model).model.config.window == 2
    through_everything(window_model, window_export, files)


def test_a_model_keeps_the_contract(parts):
    """Scorer and model agree on every pair, also where pairs are padded or share sources and prefixes."""
    model = parts["window_encoder_decoder"].WindowEncoderDecoder(20, 30, window=2, embedding_dim=8, units=8)
    alone = [float(model.score([source], [target])[0]) for source, target in zip(SOURCES, TARGETS, strict=True)]
    np.testing.assert_allclose(Scorer(model).score(list(zip(SOURCES, TARGETS, strict=True))), alone, atol=1e-5)
    [[best]] = Generator(model).generate([SOURCES[0]])
    assert best.log_prob == pytest.approx(float(model.score([SOURCES[0]], [best.ids])[0]), abs=1e-4)


def test_a_sampler_draws_and_is_served(parts, window_model, window_export, files):
    sampler = parts["min_p_sampler"].MinPSampler(min_p=0.9, seed=3)
    generator = TextGenerator([window_model])
    first = generator.generate(["open the file"], sampler)
    assert first == generator.generate(["open the file"], sampler)
    generate_file(window_model, files / "sources.en", files / "drawn.tsv", sampler, format="tsv")
    assert len((files / "drawn.tsv").read_text(encoding="utf-8").splitlines()) == 3
    arguments = [f"--model_dir={window_model}", f"--input={files}/sources.en", f"--output={files}/min_p.fr"]
    assert generate_command.COMMAND.main([*arguments, "--mode=min_p", "--min_p=0.5"]) == 0
    assert len((files / "min_p.fr").read_text(encoding="utf-8").splitlines()) == 3

    import tensorflow as tf

    signature = tf.saved_model.load(str(window_export / "1")).signatures["min_p"]
    served = signature(source=tf.constant(["open the file", "the page"]), seed=tf.constant([1, 2], tf.int64))
    assert served["target"].shape == (2,) and (served["log_prob"].numpy() < 0).all()


def test_a_format_is_trained_on_and_written_with_scores(parts, window_model, files):
    data = TrainingData(input=str(files / "pairs.jsonl"), format="json_lines", held_out_pairs=10)
    sizes = {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4}
    config = TrainingConfig(model=sizes, learning_rate=0.01, **QUICK)
    with contextlib.redirect_stdout(io.StringIO()), eagerly():
        assert train(config, data, files / "from_json").last.updates > 0
    with open_pairs(files / "pairs.jsonl", "json_lines") as (pairs, reader):
        assert sum(1 for _ in pairs) == 100 and reader.malformed == 0
    score_file(window_model, files / "pairs.jsonl", files / "scored.jsonl", format="json_lines", unknown_count=True)
    score_file(window_model, files / "pairs.tsv", files / "scored.tsv", format="tsv")
    objects = [json.loads(line) for line in (files / "scored.jsonl").read_text(encoding="utf-8").splitlines()]
    columns = [line.split("\t") for line in (files / "scored.tsv").read_text(encoding="utf-8").splitlines()]
    added = [name for name in objects[0] if name not in ("source", "target")]
    assert len(added) == 2
    assert [scored[added[0]] for scored in objects] == pytest.approx([float(cells[2]) for cells in columns], abs=1e-4)
    (files / "wrong.jsonl").write_text('{"source": "a", "target": "b"}\n[]\n', encoding="utf-8")
    with pytest.raises(InputError, match="wrong.jsonl.*2"):
        score_file(window_model, files / "wrong.jsonl", files / "no.jsonl", format="json_lines")


def through_everything(model_dir, export_dir, files):
    """Scores with, searches, samples and averages a trained model, and verifies its export."""
    score_file(model_dir, files / "pairs.tsv", files / "scored.tsv", format="tsv")
    lines = [line.split("\t") for line in (files / "scored.tsv").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 100 and all(float(line[2]) < 0 for line in lines)
    for sampler in ("beam", "greedy", "sample"):
        with contextlib.nullcontext() if sampler == "beam" else uncompiled():  # one shows that it can be compiled
            generate_file(model_dir, files / "sources.en", files / "generated.tsv", sampler, format="tsv")
        assert (files / "generated.tsv").read_text(encoding="utf-8").strip(), sampler
    with uncompiled():
        generate_file([model_dir, model_dir], files / "sources.en", files / "ensemble.fr", "beam")
    assert len((files / "ensemble.fr").read_text(encoding="utf-8").splitlines()) == 3
    report = verify_export(model_dir, export_dir, made_pairs=20)
    assert report.comparisons and all(comparison.pairs for comparison in report.comparisons)
    scorer = TextScorer(model_dir)
    assert scorer.score([scorer.words("open the file", "ouvrir le fichier")])[0] < 0
