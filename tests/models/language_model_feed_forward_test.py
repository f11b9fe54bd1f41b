import feed_forward_oracle
import keras
import numpy as np
import pytest
from gradients import assert_finite_differences, double_precision, gradients_by
from layer_checks import numpy
from recurrent_toys import padded, stirred

from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.models import FeedForwardLanguageModel, from_symbols, to_symbols

SIZES = {"ngram_order": 4, "embedding_dim": 3, "hidden_units": (6, 5)}
TARGETS = [[5, 3, 2], [2], [1, 6, 4, 4, 8, 9, 2], [7, 8, 3, 2]]
TARGET = padded(TARGETS)
DOUBLE = 1e-9


def toy(**arguments):
    return stirred(FeedForwardLanguageModel(7, **{**SIZES, **arguments}))


def model_and_weights(dtype, **arguments):
    model = toy(dtype=dtype, **arguments)
    return model, {name: array.astype("float64") for name, array in to_symbols(model).items()}


def test_log_probabilities_and_gradients_are_the_oracles():
    with double_precision():
        model, weights = model_and_weights("float64")
        tokens = keras.ops.convert_to_numpy(model.token_log_probs(np.pad(TARGET, [[0, 0], [0, 3]])))
        gradients = gradients_by(to_symbols, model, TARGET, TARGET)
    assert tokens.dtype == "float64"
    for target, row in zip(TARGETS, tokens, strict=True):
        expected = feed_forward_oracle.token_log_probs(weights, target, 4)
        np.testing.assert_allclose(row[: len(target)], expected, atol=DOUBLE)
        assert not row[len(target) :].any(), "padding counts nothing"

    def total(arrays):
        return sum(feed_forward_oracle.token_log_probs(arrays, target, 4).sum() for target in TARGETS)

    assert min(np.abs(gradient).max() for gradient in gradients.values()) > 0.01, "the test would show nothing"
    assert_finite_differences(gradients, total, weights)


def test_a_bigram_model_is_the_oracles_in_single_precision():
    model, weights = model_and_weights("float32", ngram_order=2, hidden_units=(4,))
    for target, score in zip(TARGETS, numpy(model.score(TARGET)), strict=True):
        assert abs(score - feed_forward_oracle.token_log_probs(weights, target, 2).sum()) < 1e-5


@pytest.mark.usefixtures("uncompiled")
def test_beams_have_the_models_score():
    model = toy()
    model.decoder.output_matrix.bias.assign([-40.0, *[0.0] * 9])  # padding is never predicted
    [found] = Generator(model).generate([[2]], BeamSampler(4, num_best=3), max_length=5)
    assert len(found) == 3
    for hypothesis in found:
        assert hypothesis.log_prob == pytest.approx(float(numpy(model.score([hypothesis.ids]))[0]), abs=1e-4)


def test_fit_learns_and_dropout_applies_only_in_training():
    keras.utils.set_random_seed(0)
    sentences = np.array([[3, 4, 5, 6, 2], [5, 6, 2, 0, 0]] * 16, "int32")
    model = FeedForwardLanguageModel(5, **SIZES, initial_scale=0.1, dropout=0.2)
    model.compile(keras.optimizers.Adam(0.05), jit_compile=keras.backend.backend() == "jax")
    history = model.fit({"target": sentences}, epochs=20, verbose=0).history
    assert history["perplexity"][0] > 5 and history["perplexity"][-1] < 4
    assert np.exp(-numpy(model.score(sentences)).sum() / np.count_nonzero(sentences)) < history["perplexity"][-1]


def test_weights_are_drawn_as_published_and_are_read_and_set_by_symbol(tmp_path):
    model = FeedForwardLanguageModel(300)
    symbols = to_symbols(model)
    assert {name: array.shape for name, array in symbols.items()} == {
        "target.E": (303, 512),
        "decoder.W.1": (3072, 1536),
        "decoder.b.1": (1536,),
        "decoder.W.2": (1536, 1024),
        "decoder.b.2": (1024,),
        "output.W_hy": (1024, 303),
        "output.b_hy": (303,),
    }
    for name, array in symbols.items():
        weights = array[1:] if name == "target.E" else array
        assert np.abs(array).max() == 0 if ".b" in name else 0.0099 < np.abs(weights).max() <= 0.01
    one, other = toy(), FeedForwardLanguageModel(7, **SIZES)
    from_symbols(other, to_symbols(one)).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.config == one.config
    np.testing.assert_array_equal(numpy(again.score(TARGET)), numpy(one.score(TARGET)))


def test_wrong_hyper_parameters_are_refused():
    for arguments in ({"ngram_order": 1}, {"hidden_units": (4, 0)}, {"hidden_units": 5}):
        with pytest.raises(ValueError, match="found .*expected"):
            FeedForwardLanguageModel(7, **arguments)
