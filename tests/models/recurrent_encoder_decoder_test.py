"""The recurrent encoder-decoder with each of its choices."""

import itertools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import recurrent_oracle
from gradients import assert_finite_differences, double_precision, gradients_by, in_one_program
from layer_checks import numpy
from recurrent_toys import PAIRS, SOURCE, TARGET, nested_weights, toy, toy_language_model

from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.models import RecurrentEncoderDecoder, RNNEncoderDecoder
from keras_encdec.models.recurrent_encoder import words_reversed

DOUBLE = 1e-9

NAMES = ("cell", "bidirectional", "condition", "reverse_source")
CHOICES = list(
    itertools.product(("lstm", "gru", "rnn"), ("none", "concat", "sum"), ("states", "context"), (False, True))
)
# A third of the choices: every pair of a cell and directions, and each of the two with every pair of the other choices.
SOME_CHOICES = [
    choice for i, choice in enumerate(CHOICES) if (i // 12 + i // 4 % 3 + i // 2 % 2 + 2 * (i % 2)) % 3 == 0
]
if keras.backend.backend() == "jax":  # which compiles everything again for each choice
    SOME_CHOICES = CHOICES[::9]


def model_of(choices, **arguments):
    return toy(**dict(zip(NAMES, choices, strict=True)), **arguments)


def expected_of(model, weights=None):
    weights = weights or nested_weights(model)
    choices = {name: getattr(model.config, name) for name in (*NAMES, "units")}
    return [recurrent_oracle.token_log_probs(weights, x, y, choices) for x, y in PAIRS]


@pytest.mark.parametrize("choices", SOME_CHOICES, ids=lambda choices: "-".join(map(str, choices)))
def test_every_choice_follows_the_equations_alone_in_a_batch_and_word_by_word(choices):
    with double_precision():
        model = model_of(choices, dtype="float64")
        # A row that is all padding does not change the others.
        source, target = (np.pad(ids, [[0, 1], [0, 3]]) for ids in (SOURCE, TARGET))
        tokens = keras.ops.convert_to_numpy(model.token_log_probs(source, target))
        alone = keras.ops.convert_to_numpy(model.token_log_probs(SOURCE[3:, :2], TARGET[3:, :4]))
        expected = expected_of(model)
        by_word = log_probs_by_word(model, SOURCE, TARGET)
    assert not tokens[-1].any()
    for row, stepped, of in zip(tokens, by_word, expected, strict=False):
        np.testing.assert_allclose(row[: len(of)], of, atol=DOUBLE)
        np.testing.assert_allclose(stepped[: len(of)], of, atol=DOUBLE)
    np.testing.assert_allclose(alone[0], expected[3], atol=DOUBLE)


def log_probs_by_word(model, source, target):
    """log p of each token, computed by `start` and `step`, beginning with the id 0."""
    state, memory = in_one_program(model.start)(source)
    assert {tensor.shape[0] for tensor in (*state.values(), *memory.values())} == {len(source)}
    assert state.keys() == model.decoder.state_spec.keys() and memory.keys() == model.decoder.memory_spec.keys()
    step = in_one_program(model.decoder.next_log_probs)
    previous, rows = np.zeros(len(source), "int32"), []
    for t in range(target.shape[1]):
        log_probs, state = step(keras.ops.convert_to_tensor(previous), state, memory)
        log_probs = keras.ops.convert_to_numpy(log_probs)
        previous = target[:, t]
        rows.append(log_probs[range(len(source)), previous])
    return np.stack(rows, axis=1)


@pytest.mark.parametrize(
    "choices",
    [
        ("gru", "none", "states", False),
        ("gru", "sum", "context", False),
        ("lstm", "concat", "context", True),
        ("rnn", "concat", "states", False),
    ],
)
def test_gradients_are_finite_differences_of_the_equations(choices):
    with double_precision():
        model = model_of(choices, dtype="float64")
        weights = nested_weights(model)
        found = gradients_by(nested_weights, model, SOURCE, TARGET)
    assert_finite_differences(
        found, lambda arrays: sum(of.sum() for of in expected_of(model, arrays)), weights, elements=4
    )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow has unknown lengths")
def test_it_trains_on_batches_of_unknown_length():
    import tensorflow as tf

    shapes = {"source": (None, None), "target": (None, None)}
    batches = [{"source": SOURCE, "target": TARGET}, {"source": SOURCE[:2, :4], "target": TARGET[:2, :3]}]
    data = tf.data.Dataset.from_generator(
        lambda: batches, output_signature={name: tf.TensorSpec(shape, "int32") for name, shape in shapes.items()}
    )
    model = toy(bidirectional="sum", condition="context", layers=1)
    model.compile(keras.optimizers.SGD(0.01), jit_compile=False)
    before = numpy(model.score(SOURCE, TARGET)).sum()
    model.fit(data, verbose=0)
    assert numpy(model.score(SOURCE, TARGET)).sum() > before


def test_words_are_reversed_before_the_end_of_sequence():
    source = np.array([[5, 6, 7, 2, 0], [4, 2, 0, 0, 0], [2, 0, 0, 0, 0], [3, 4, 5, 6, 2], [0] * 5])
    ids = words_reversed(source, source > 0)
    wanted = [[7, 6, 5, 2, 0], [4, 2, 0, 0, 0], [2, 0, 0, 0, 0], [6, 5, 4, 3, 2], [0] * 5]
    np.testing.assert_array_equal(numpy(ids), wanted)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
@pytest.mark.parametrize("choices", CHOICES[::5])
def test_config_round_trips(choices):
    model = model_of(choices, dropout=0.3, initial_scale=0.2)
    again = RecurrentEncoderDecoder.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert {name: getattr(again.config, name) for name in NAMES} == dict(zip(NAMES, choices, strict=True))
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]


# Worked out on paper, with E embedding 3, H units 4, 9 source and 10 target ids, two layers:
#   embeddings (9 + 10) 3 = 57, output 4 10 + 10 = 50
#   an LSTM over F features: 4 (F H + H H + H), 128 over 3, 144 over 4, 208 over 8
@pytest.mark.parametrize(
    "bidirectional, condition, cells",
    [
        ("none", "states", 2 * (128 + 144)),
        # Both projections of both layers: 2 2 (8 4 + 4).
        ("concat", "states", 2 * 128 + 2 * 208 + 4 * 36 + 128 + 144),
        ("sum", "states", 2 * 128 + 2 * 144 + 4 * 36 + 128 + 144),
        # The summary, 4 4 + 4; the first states, 2 (4 8 + 8); c at every step, 4 16.
        ("none", "context", 2 * (128 + 144) + 20 + 80 + 64),
    ],
)
def test_the_number_of_weights_follows_from_the_sizes(bidirectional, condition, cells):
    assert toy(bidirectional=bidirectional, condition=condition).count_params() == 57 + 50 + cells


@pytest.mark.parametrize(
    "choices",
    [
        {"bidirectional": "sum"},
        {"bidirectional": "concat", "condition": "context", "cell": "gru"},
        {"attention": "local_p", "attention_score": "concat"},
        {"attention": "global", "characters": "both", "character_units": 16},
    ],
)
def test_initial_weights_are_uniform_and_forget_gates_are_open(choices):
    sizes = {"layers": 1, "units": 16, "embedding_dim": 16}
    model = RecurrentEncoderDecoder(50, 50, **sizes, **choices, initial_scale=0.3)
    for variable in model.trainable_variables:
        values = numpy(variable)
        if variable.name == "bias":
            np.testing.assert_array_equal(values, [0] * 16 + [1] * 16 + [0] * 32 if len(values) == 64 else 0)
        else:
            # All 16 numbers of a vector may be far below the bound.
            assert (0.28 if values.size > 16 else 0.1) < np.abs(values).max() <= 0.3, variable.path
            assert values.size == 16 or abs(values[values != 0].std() - 0.3 / 3**0.5) < 0.02, variable.path


@pytest.mark.parametrize("arguments", [{"layers": 0}, {"cell": "lsmt"}, {"bidirectional": "both"}, {"condition": "c"}])
def test_wrong_arguments_are_refused(arguments):
    [(name, value)] = arguments.items()
    with pytest.raises(ValueError, match=f"found {name}='?{value}'?, expected"):
        RecurrentEncoderDecoder(5, 5, **arguments)


random = np.random.default_rng(0)
LONG = np.concatenate([random.integers(3, 9, (32, 19)), np.full((32, 1), 2)], 1).astype("int32")
TRAINING = {"source": LONG, "target": np.concatenate([LONG[:, :6] + 1, LONG[:, -1:]], 1)}


@pytest.mark.parametrize(
    "layers, choices", [(2, ("lstm", "none", "states", True)), (1, ("gru", "concat", "context", False))]
)
def test_a_compiled_training_step_lowers_the_loss(layers, choices):
    choices = dict(zip(NAMES, choices, strict=True))
    model = RecurrentEncoderDecoder(6, 7, layers=layers, units=8, embedding_dim=4, dropout=0.1, **choices)
    model.compile(keras.optimizers.SGD(0.1, global_clipnorm=5.0))
    if keras.backend.backend() == "tensorflow":
        # As the trainer does, with XLA.
        from keras_encdec.backend.training_step import compile_by_shape

        compile_by_shape(model)
    before = model.evaluate(TRAINING, verbose=0, return_dict=True)
    history = model.fit(TRAINING, epochs=4, batch_size=16, verbose=0).history
    after = model.evaluate(TRAINING, verbose=0, return_dict=True)
    assert after["loss"] < before["loss"] * 0.95 and after["perplexity"] < before["perplexity"]
    assert set(history) == {"loss", "perplexity", "log_likelihood"}


@pytest.mark.parametrize("choices", [{}, {"attention": "global"}, {"attention": "global", "input_feeding": False}])
def test_dropout_applies_only_in_training(choices):
    model, without = toy(dropout=0.5, **choices), toy(**choices)
    inputs = {"source": SOURCE, "target": TARGET}
    inferred = numpy(model(inputs))
    np.testing.assert_allclose(inferred, numpy(without(inputs)), atol=1e-5)
    assert np.abs(numpy(model(inputs, training=True)) - inferred).max() > 0.1


def test_dropout_applies_only_to_connections_that_are_not_recurrent():
    model = toy(dropout=0.5)
    trained = [numpy(tensor) for tensor in model.encoder(SOURCE, training=True).values()]
    untrained = [numpy(tensor) for tensor in model.encoder(SOURCE).values()]
    assert all(np.abs(a - b).max() > 0.01 for a, b in zip(trained, untrained, strict=True))
    for (cell,) in model.encoder.cells:
        cell.kernel.assign(np.zeros(cell.kernel.shape))  # only the recurrent connections are left
    trained, untrained = model.encoder(SOURCE, training=True), model.encoder(SOURCE)
    for name in trained:
        np.testing.assert_allclose(numpy(trained[name]), numpy(untrained[name]), atol=1e-6)


def test_low_precision_trains_and_scores_in_float32():
    choices = ("lstm", "none", "states", False)
    keras.utils.set_random_seed(0)
    model = model_of(choices, dtype="mixed_bfloat16", dropout=0.5, layers=1)
    model.compile("adam")
    before = numpy(model.score(SOURCE, TARGET)).sum()
    [loss] = model.fit({"source": SOURCE, "target": TARGET}, verbose=0).history["loss"]
    assert abs(loss + before) > 0.1, "fit drops out, scoring does not"
    scores = model.score(SOURCE, TARGET)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32" and np.isfinite(numpy(scores)).all()
    wide = model_of(choices, layers=1)
    wide.set_weights(model.get_weights())
    np.testing.assert_allclose(numpy(scores), numpy(wide.score(SOURCE, TARGET)), rtol=0.1)


def test_beam_search_finds_what_the_model_scores():
    model = toy(bidirectional="concat", condition="context", reverse_source=True)
    sources = [[4, 6, 2], [7, 5, 2]]
    for source, [best] in zip(sources, Generator(model).generate(sources, BeamSampler(3)), strict=True):
        assert best.log_prob == pytest.approx(float(numpy(model.score([source], [best.ids]))[0]), abs=1e-4)


SCORE_IN_A_NEW_PROCESS = """
import sys
import numpy as np
from keras_encdec.backend.startup import lean_imports
with lean_imports():
    import keras
import keras_encdec.models
if keras.backend.backend() != "tensorflow":
    assert "tensorflow" not in sys.modules, "TensorFlow was imported"
pairs = np.load(sys.argv[1])
for path in sys.argv[2:]:
    model = keras.saving.load_model(path)
    sides = [pairs["source"], pairs["target"]][-2 if model.has_source else -1 :]
    np.save(path + ".npy", keras.ops.convert_to_numpy(model.score(*sides)))
"""


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
def test_saved_models_score_the_same_in_a_new_process(tmp_path):
    pair_model = model_of(("lstm", "concat", "context", True), dropout=0.2)
    pair_model.compile(keras.optimizers.SGD(0.1))
    models = {tmp_path / "0.keras": pair_model, tmp_path / "1.keras": toy_language_model(cell="gru", layers=1)}
    for path, model in models.items():
        model.save(path)
    np.savez(tmp_path / "pairs.npz", source=SOURCE, target=TARGET)
    command = [sys.executable, "-c", SCORE_IN_A_NEW_PROCESS, str(tmp_path / "pairs.npz"), *map(str, models)]
    subprocess.run(command, check=True, env={**os.environ})
    for path, model in models.items():
        expected = model.score(*(SOURCE, TARGET)[-2 if model.has_source else -1 :])
        np.testing.assert_allclose(np.load(f"{path}.npy"), numpy(expected), atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
def test_presets_have_their_sizes_and_those_of_the_other_model_are_refused():
    model = RecurrentEncoderDecoder.from_preset("luong2015", source_words=5, target_words=6, layers=2, units=7)
    config = model.config
    assert (config.cell, config.layers, config.units, config.embedding_dim) == ("lstm", 2, 7, 1000)
    assert config.reverse_source and config.dropout == 0.2
    assert RecurrentEncoderDecoder.from_preset("small_sentences", 5, 5).config.bidirectional == "sum"
    with pytest.raises(ValueError, match="'small' of the model RNNEncoderDecoder"):
        RecurrentEncoderDecoder.from_preset("small", 5, 5)
    with pytest.raises(ValueError, match="'luong2015' of the model RecurrentEncoderDecoder"):
        RNNEncoderDecoder.from_preset("luong2015", 5, 5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
def test_a_class_that_extends_a_model_has_its_presets():
    class Tagged(RecurrentEncoderDecoder):
        def __init__(self, *words, tag="", **arguments):
            super().__init__(*words, **arguments)
            self.tag = tag

    model = Tagged.from_preset("small_sentences", 5, 6, units=7, tag="mine")
    assert type(model) is Tagged and (model.tag, model.config.units, model.target_words) == ("mine", 7, 6)
    assert model.config.attention == "global"
    with pytest.raises(ValueError, match="'small' of the model RNNEncoderDecoder, expected one of Tagged"):
        Tagged.from_preset("small", 5, 5)
