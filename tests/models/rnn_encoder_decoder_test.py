import keras
import numpy as np
import pytest
from layer_checks import check_published_start, numpy

from keras_encdec.architectures import preset_names
from keras_encdec.models import RNNEncoderDecoder, from_symbols, published_optimizer, to_symbols

SIZES = {"embedding_dim": 6, "units": 16, "maxout_units": 8, "output_rank": 6}
rng = np.random.default_rng(0)
SOURCE = np.concatenate([rng.integers(3, 13, (64, 4)), np.full((64, 1), 2)], 1).astype("int32")
TARGET = SOURCE[:, ::-1][:, 1:].copy()  # the source's words backwards ...
TARGET = np.concatenate([TARGET, np.full((64, 1), 2)], 1).astype("int32")  # ... closed again
PAIRS = {"source": SOURCE, "target": TARGET}


def toy(**kwargs):
    return RNNEncoderDecoder(10, 10, **{**SIZES, **kwargs})


# Worked out on paper, with V = 15,003 ids, E embedding, H hidden, M maxout, R rank:
#   embeddings  2 V E
#   encoder     3 (E H + H H + H) + H H + H
#   decoder     H H + H + 3 (E H + H H + H H + H)
#   readout     2M (H + E + H + 1) + M R + R V + V
# cho2014: E 100, H 1000, M 500, R 100
#   3,000,600 + 4,304,000 + 7,304,000 + (2,101,000 + 50,000 + 1,500,300 + 15,003)     = 18,274,903
# cho2014_supplement: E 500, H 1000, M 1000, R 500
#   15,003,000 + 5,504,000 + 8,504,000 + (5,002,000 + 500,000 + 7,501,500 + 15,003)   = 42,029,503
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
@pytest.mark.parametrize("preset, weights", [("cho2014", 18_274_903), ("cho2014_supplement", 42_029_503)])
def test_presets_have_the_published_number_of_weights(preset, weights):
    model = RNNEncoderDecoder.from_preset(preset, source_words=15_000, target_words=15_000)
    assert model.count_params() == weights
    assert model.config.reset_after == (preset == "cho2014_supplement")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
def test_the_number_of_weights_of_small_follows_from_its_sizes():
    model = RNNEncoderDecoder.from_preset("small", source_words=1000, target_words=2000)
    config = model.config
    E, H, M, R = config.embedding_dim, config.units, config.maxout_units, config.output_rank
    expected = (1003 + 2003) * E + 3 * (E * H + H * H + H) + H * H + H
    expected += H * H + H + 3 * (E * H + 2 * H * H + H)
    expected += 2 * M * (2 * H + E + 1) + M * R + (R + 1) * 2003
    assert model.count_params() == expected


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the same with every backend")
def test_arguments_override_a_preset_and_unknown_ones_are_refused():
    assert RNNEncoderDecoder.from_preset("small", source_words=5, target_words=5, units=7).config.units == 7
    assert {"cho2014", "cho2014_supplement", "small"} <= set(preset_names())
    with pytest.raises(ValueError, match="preset='big', expected one of cho2014"):
        RNNEncoderDecoder.from_preset("big", source_words=5, target_words=5)


def test_matrices_start_normal_or_orthogonal():
    sizes = {"embedding_dim": 40, "units": 40, "maxout_units": 20, "output_rank": 40}
    model = RNNEncoderDecoder(60, 60, **sizes, initial_stddev=0.03)
    check_published_start(model.trainable_variables, stddev=0.03)


def test_fit_learns_and_reports_perplexity_and_log_likelihood():
    keras.utils.set_random_seed(1)
    model = toy(initial_stddev=0.1)
    model.compile(keras.optimizers.Adam(0.02))
    before = model.evaluate(PAIRS, verbose=0, return_dict=True)
    history = model.fit(PAIRS, batch_size=16, epochs=30, verbose=0, validation_data=(PAIRS,)).history
    after = model.evaluate(PAIRS, verbose=0, return_dict=True)
    scores = numpy(model.score(SOURCE, TARGET))
    assert after["perplexity"] < before["perplexity"] / 2
    assert abs(after["log_likelihood"] - scores.mean()) < 1e-3
    assert abs(after["perplexity"] - np.exp(-scores.sum() / TARGET.size)) < 1e-3
    assert abs(history["val_perplexity"][-1] - after["perplexity"]) < 1e-3


def test_the_loss_is_the_sum_over_the_words_of_the_batch():
    model = toy()
    model.compile(published_optimizer())
    loss = model.evaluate(PAIRS, batch_size=64, verbose=0, return_dict=True)["loss"]
    assert abs(loss + numpy(model.score(SOURCE, TARGET)).sum()) < 1e-2


def test_sample_weights_weigh_pairs():
    model = toy()
    model.compile("sgd")
    weights = np.zeros(64, "float32")
    weights[3] = 2
    expected = -2 * numpy(model.score(SOURCE[3:4], TARGET[3:4]))[0]
    for column in (weights, weights[:, None]):
        loss = model.evaluate(PAIRS, TARGET, sample_weight=column, batch_size=64, verbose=0, return_dict=True)["loss"]
        assert abs(loss - expected) < 1e-4
    with pytest.raises(ValueError, match=r"found sample_weight of shape \(64, 5\), expected one weight for each pair"):
        model.fit(PAIRS, TARGET, sample_weight=np.ones((64, 5)), verbose=0)
    with pytest.raises(ValueError, match=r"found sample_weight of shape \(64, 5\), expected one weight for each pair"):
        model.train_on_batch(PAIRS, TARGET, sample_weight=np.ones((64, 5)))
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"found a list as sample_weight, expected an array \(pairs,\)"):
            method(PAIRS, TARGET, sample_weight=weights.tolist(), verbose=0)
    expected = "expected the target of {} again as {}: without it, Keras ignores the weights"
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="found sample_weight without y, " + expected.format("x", "y")):
            method(PAIRS, sample_weight=weights, verbose=0)
    with pytest.raises(ValueError, match=r"found sample_weight without validation_data\[1\], expected the target of"):
        model.fit(PAIRS, validation_data=(PAIRS, None, weights), verbose=0)
    with pytest.raises(ValueError, match="found class_weight=, expected none: .* weigh pairs with sample_weight="):
        model.fit(PAIRS, TARGET, class_weight={0: 1.0, 1: 2.0}, verbose=0)
    with pytest.raises(ValueError, match="found class_weight=, expected none"):
        model.train_on_batch(PAIRS, TARGET, class_weight={0: 1.0, 1: 2.0})


def test_validation_data_is_split_off_the_pairs_and_their_target():
    model = toy()
    model.compile("sgd")
    arguments = {"sample_weight": np.ones(64), "validation_split": 0.25, "batch_size": 16, "verbose": 0}
    [loss] = model.fit(PAIRS, TARGET, **arguments).history["val_loss"]
    assert abs(loss + numpy(model.score(SOURCE[48:], TARGET[48:])).sum()) < 1e-3
    model.fit((SOURCE, TARGET), keras.ops.convert_to_tensor(TARGET), batch_size=64, verbose=0)


def triple_sum(values):
    return 3 * keras.ops.sum(values)


class Penalized(RNNEncoderDecoder):
    def call(self, inputs, training=None):
        self.add_loss(triple_sum(self.decoder.readout.output_bias))
        return super().call(inputs, training)


@pytest.mark.parametrize("kind", [RNNEncoderDecoder, Penalized])
def test_regularizers_and_added_losses_are_part_of_the_loss(kind):
    plain, penalized = toy(), kind(10, 10, **SIZES)
    penalized.set_weights(plain.get_weights())
    if kind is RNNEncoderDecoder:
        penalized.decoder.readout.output_bias.regularizer = triple_sum
    for model in (plain, penalized):
        model.compile(keras.optimizers.SGD(0.01))
        model.fit(PAIRS, batch_size=64, verbose=0)
    bias = numpy(penalized.decoder.readout.output_bias)
    np.testing.assert_allclose(bias, numpy(plain.decoder.readout.output_bias) - 0.03, atol=1e-5)
    loss = penalized.evaluate(PAIRS, batch_size=64, verbose=0, return_dict=True)["loss"]
    assert abs(loss - (3 * bias.sum() - numpy(penalized.score(SOURCE, TARGET)).sum())) < 1e-2


def test_quantization_is_refused():
    with pytest.raises(ValueError, match="found quantize, expected dtype=.int8. of TextScorer or TextGenerator, or "):
        toy().quantize("int8")


def test_compiling_without_an_optimizer_is_refused():
    with pytest.raises(ValueError, match="found optimizer=None, expected an optimizer"):
        toy().compile(None)


@pytest.mark.parametrize("argument", [{"loss": "mse"}, {"metrics": ["accuracy"]}, {"weighted_metrics": []}])
def test_a_custom_loss_and_metrics_are_refused(argument):
    [name] = argument
    with pytest.raises(ValueError, match=f"found {name}=, expected none: RNNEncoderDecoder owns its loss and its"):
        toy().compile("sgd", **argument)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((SOURCE, TARGET), r'found y, expected x={"source": source, "target": target} and y=None or this target'),
        ((PAIRS, TARGET + 1), "found y, expected x="),
        ((SOURCE,), r'found other inputs, expected {"source": ids, "target": ids}, or a tuple of the two; an object'),
        (({"source": SOURCE},), "found a dict of 'source', expected"),
        (({"source": SOURCE.tolist(), "target": TARGET},), "found a list as the source, expected an integer array"),
        (({"source": SOURCE[0], "target": TARGET},), "found a source of shape .* expected integer ids"),
        (({"source": SOURCE, "target": TARGET + 0.5},), "found a target of shape .* and dtype float64, expected"),
        (({"source": SOURCE[1:], "target": TARGET},), "found 63 rows of the source and 64 rows of the target"),
        (((np.array([[5, 6]]), np.array([[7, 2]])),), r"found the source \[5, 6\], expected ids from 1 to"),
        (((np.array([[5, 2]]), np.array([[999, 2]])),), r"found the target \[999, 2\], expected ids from 1 to"),
        (((np.array([[5, 2]]), np.array([[7, 0, 2]])),), r"found the target \[7, 0, 2\], expected"),
        (((np.array([[5, 2]]), np.array([[0, 0]])),), r"found the target \[\], expected"),
    ],
)
def test_invalid_training_data_is_refused(arguments, sentence):
    model = toy()
    model.compile("sgd")
    with pytest.raises(ValueError, match=sentence):
        model.fit(*arguments, verbose=0)
    with pytest.raises(ValueError, match=sentence):
        model.evaluate(*arguments, verbose=0)
    for method in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match=sentence):
            method(*arguments)
    if len(arguments) == 1:
        with pytest.raises(ValueError, match=sentence):
            model.fit(PAIRS, validation_data=arguments, verbose=0)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ([[5, 13]], "found the id 13 in the {}, expected ids from 0 to 12"),
        (np.array([[-3, 2]]), "found the id -3 in the {}, expected"),
        (np.array([[2**40, 2]]), "found the id 1099511627776 in the {}, expected"),
        (np.array([[5.0, 2.0]]), "found a {} of shape .* and dtype float64, expected integer ids"),
        ([5, 2], "found a {} of shape .* expected integer ids"),
        (np.zeros((0, 2), int), r"found a {} of shape \(0, 2\) .* expected integer ids \(rows, time\), at least one"),
        ([[5, 2], [2]], "found rows of different lengths as the {}, expected an integer array"),
    ],
)
def test_ids_out_of_range_are_refused(wrong, sentence):
    model, ids = toy(), [[5, 2]]
    for call in (model.score, model.token_log_probs):
        with pytest.raises(ValueError, match=sentence.format("source")):
            call(wrong, ids)
        with pytest.raises(ValueError, match=sentence.format("target")):
            call(ids, wrong)
    for call in (model.predict, model.predict_on_batch):  # with JAX, they would return NaN
        with pytest.raises(ValueError, match=sentence.format("source")):
            call({"source": wrong, "target": ids})
        with pytest.raises(ValueError, match=sentence.format("target")):
            call({"source": ids, "target": wrong})
    for call in (model.encode, model.start):
        with pytest.raises(ValueError, match=sentence.format("source")):
            call(wrong)


@pytest.mark.parametrize("rows", [1, 2])
def test_different_numbers_of_sources_and_targets_are_refused(rows):
    model, pairs = toy(), {"source": SOURCE[:rows], "target": TARGET[:4]}
    for call in (lambda pairs: model.score(*pairs.values()), model.predict, model.predict_on_batch):
        with pytest.raises(ValueError, match=f"found {rows} rows of the source and 4 rows of the target"):
            call(pairs)


@pytest.mark.parametrize(
    "words, sentence",
    [((-1, 10), "source_words=-1"), ((10, 5.5), r"target_words=5\.5"), ((True, 10), "source_words=True")],
)
def test_invalid_numbers_of_words_are_refused(words, sentence):
    with pytest.raises(ValueError, match=f"found {sentence}, expected a whole number, 0 or more"):
        RNNEncoderDecoder(*words, **SIZES)


def test_scores_convert_to_numpy_and_training_calls_have_gradients():
    model = toy()
    for tensor in (model.score(SOURCE, TARGET), model.token_log_probs(SOURCE, TARGET), model.encode(SOURCE)["summary"]):
        assert np.isfinite(numpy(tensor)).all() and not getattr(tensor, "requires_grad", False)
    assert not any(getattr(tensor, "requires_grad", False) for tensor in keras.tree.flatten(model.start(SOURCE)))
    called = model(PAIRS)
    assert getattr(called, "requires_grad", True) or keras.backend.backend() != "torch"


def test_the_published_optimizer_has_the_published_settings():
    config = published_optimizer().get_config()
    wanted = {"learning_rate": 1.0, "rho": 0.95, "epsilon": 1e-6, "global_clipnorm": 1.0}
    assert {name: pytest.approx(config[name]) for name in wanted} == wanted


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_low_precision_trains_and_scores_in_float32(policy):
    model = toy(dtype=policy)
    model.compile("adam")
    model.fit(PAIRS, epochs=2, verbose=0)
    scores = model.score(SOURCE, TARGET)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert np.isfinite(numpy(scores)).all()


def test_symbols_round_trip_and_name_what_does_not_fit():
    model, other = toy(), toy()
    arrays = to_symbols(model)
    assert len(arrays) == 1 + 11 + 1 + 14 + 7
    from_symbols(other, arrays)
    np.testing.assert_array_equal(numpy(other.score(SOURCE, TARGET)), numpy(model.score(SOURCE, TARGET)))
    with pytest.raises(ValueError, match="without the symbols .*decoder.C_z.* unknown symbols .*decoder.C_q"):
        from_symbols(other, {("decoder.C_q" if k == "decoder.C_z" else k): v for k, v in arrays.items()})
    with pytest.raises(ValueError, match=r"readout.G_r: found shape \(6, 8\), expected \(8, 6\)"):
        from_symbols(other, {**arrays, "readout.G_r": arrays["readout.G_r"].T})
    from_symbols(other, {**arrays, "source.E": arrays["source.E"] + 1})
    assert not to_symbols(other)["source.E"][0].any()
