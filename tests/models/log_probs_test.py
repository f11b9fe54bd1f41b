"""The training loss with label smoothing, against NumPy."""

import keras
import numpy as np
import pytest
from gradients import gradients_of
from layer_checks import numpy
from recurrent_toys import SOURCE, TARGET, stirred, toy, toy_language_model

from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.models.contract import Decoder
from keras_encdec.models.likelihood_model import LogLikelihood, Perplexity
from keras_encdec.models.log_probs import token_and_mean_log_probs, token_log_probs

SMOOTHING, WEIGHTS = 0.3, np.array([1.0, 0.5, 2.0, 0.0])
IDS = 10  # of the toy models' targets, padding included
INPUTS = {"source": SOURCE, "target": TARGET}


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def smoothed(target, ids=IDS):
    """The smoothed distribution of each target token; zero on padding."""
    even = np.where(np.arange(ids) > 0, SMOOTHING / (ids - 1), 0)
    return ((1 - SMOOTHING) * np.eye(ids)[target] + even) * (target > 0)[..., None]


def rnn_encoder_decoder(**arguments):
    return stirred(RNNEncoderDecoder(6, 7, embedding_dim=3, units=4, maxout_units=3, output_rank=2, **arguments))


def recurrent(**arguments):
    return toy(cell="rnn", layers=1, **arguments)


def language_model(**arguments):
    return toy_language_model(cell="rnn", layers=1, **arguments)


def test_the_mean_and_its_gradient_leave_out_padding():
    logits = np.random.default_rng(0).normal(0, 3, (*TARGET.shape, IDS)).astype("float32")
    wanted = smoothed(TARGET)

    def outputs(logits, target):
        return list(token_and_mean_log_probs(logits, target))

    def total(logits, target):
        log_probs, means = outputs(logits, target)
        return keras.ops.sum((SMOOTHING - 1) * log_probs - SMOOTHING * means)

    means = log_softmax(logits)[..., 1:].mean(axis=-1) * (TARGET > 0)
    gradient = np.exp(log_softmax(logits)) * (TARGET > 0)[..., None] - wanted
    for way, (_, found), (found_gradient,) in gradients_of(total, [logits, TARGET], outputs):
        np.testing.assert_allclose(found, means, atol=1e-5, err_msg=way)
        np.testing.assert_allclose(found_gradient, gradient, atol=1e-5, err_msg=way)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "make, dtype, atol",
    [
        (rnn_encoder_decoder, "float32", 1e-5),
        (language_model, "float32", 1e-5),
        (recurrent, "float32", 1e-5),
        (recurrent, "mixed_bfloat16", 0.05),
        (recurrent, "mixed_float16", 0.01),
    ],
)
def test_a_step_follows_the_smoothed_loss_and_metrics_are_not_smoothed(make, dtype, atol):
    model = make(dtype=dtype)
    model.compile(keras.optimizers.SGD(0.1), reduction="mean", label_smoothing=SMOOTHING)
    inputs = INPUTS if model.has_source else {"target": TARGET}
    source, target = model.sides(inputs)
    logits = numpy(model.decoder(Decoder.previous_words(target), model.encoder(source))).astype("float64")
    wanted, pairs, bias = smoothed(TARGET), len(TARGET), numpy(model.decoder.output_weights[1])
    losses = -(wanted * log_softmax(logits)).sum(axis=(1, 2))
    slope = (np.exp(log_softmax(logits)) * (TARGET > 0)[..., None] - wanted).sum(axis=1)
    scores = (np.eye(IDS)[TARGET] * log_softmax(logits))[TARGET > 0].sum()
    before = model.evaluate(inputs, batch_size=pairs, verbose=0, return_dict=True)
    history = model.fit(inputs, target, sample_weight=WEIGHTS, batch_size=pairs, shuffle=False, verbose=0).history
    assert history["loss"][0] == pytest.approx((WEIGHTS * losses).mean(), rel=atol)
    np.testing.assert_allclose(bias - numpy(model.decoder.output_weights[1]), 0.1 * WEIGHTS @ slope / pairs, atol=atol)
    for measured in ({name: values[0] for name, values in history.items()}, before):
        assert measured["log_likelihood"] == pytest.approx(scores / pairs, rel=atol)
        assert measured["perplexity"] == pytest.approx(np.exp(-scores / (TARGET > 0).sum()), rel=10 * atol)
    assert before["loss"] == pytest.approx(-scores / pairs, rel=atol)


def test_label_smoothing_is_saved_and_models_without_it_load(tmp_path):
    model = recurrent()
    model.compile("sgd", label_smoothing=SMOOTHING)
    model.save(tmp_path / "m.keras")
    assert keras.saving.load_model(tmp_path / "m.keras").label_smoothing == SMOOTHING
    config = model.get_compile_config()
    del config["label_smoothing"]
    model.compile_from_config(config)
    assert model.label_smoothing == 0 and numpy(model(INPUTS, training=True)).shape == TARGET.shape


@pytest.mark.parametrize("value", [-0.1, 1, float("nan"), "0.1"])
def test_label_smoothing_out_of_range_is_refused(value):
    with pytest.raises(ValueError, match=f"found label_smoothing={value!r}, expected a number from 0 to below 1"):
        recurrent().compile("sgd", label_smoothing=value)


def test_metrics_are_summed_in_float32_whatever_the_floatx_of_the_user():
    floatx = keras.config.floatx()
    keras.config.set_floatx("float16")
    try:
        perplexity, log_likelihood = Perplexity(), LogLikelihood()
        for _ in range(50):
            for metric in (perplexity, log_likelihood):
                metric.update_state(np.full((100, 20), -2.0, np.float32), np.ones((100, 20), np.int32))
    finally:
        keras.config.set_floatx(floatx)
    assert float(perplexity.result()) == pytest.approx(np.exp(2)) and float(log_likelihood.result()) == -40
    assert Perplexity.from_config(perplexity.get_config()).dtype == "float32"


def test_an_id_out_of_range_has_no_log_probability():
    """Compiled code would otherwise read the logit of another id."""
    logits, target = np.zeros((1, 2, IDS), "float32"), np.array([[3, IDS]])
    try:
        found = numpy(token_log_probs(logits, target))
    except Exception as error:  # PyTorch, and TensorFlow without XLA, raise one
        assert keras.backend.backend() != "jax" and f"{IDS}" in str(error)
    else:
        assert np.isnan(found[0, 1]) and found[0, 0] == pytest.approx(-np.log(IDS))


def test_large_logits_lose_no_precision():
    logits = np.array([[[1e4, 1e4 - 1, 1e4 - 3], [-1e4, -1e4 + 2, -1e4]]], "float32")
    log_probs = numpy(token_log_probs(logits, np.array([[1, 2]])))
    expected = logits - logits.max(-1, keepdims=True)
    expected = expected.astype("float64") - np.log(np.exp(expected.astype("float64")).sum(-1, keepdims=True))
    np.testing.assert_allclose(log_probs[0], [expected[0, 0, 1], expected[0, 1, 2]], rtol=1e-6)


@pytest.mark.parametrize("make", [rnn_encoder_decoder, recurrent, language_model])
def test_an_empty_batch_has_no_log_probs(make):
    model = make()
    inputs = {name: ids[:0] for name, ids in INPUTS.items() if name == "target" or model.has_source}
    assert tuple(model(inputs).shape) == TARGET[:0].shape
