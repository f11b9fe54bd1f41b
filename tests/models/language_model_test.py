import keras
import numpy as np
import pytest
from gradients import in_one_program
from layer_checks import numpy
from recurrent_toys import TARGET, toy, toy_language_model

from keras_encdec.decoding import Generator, RandomSampler
from keras_encdec.models import RecurrentLanguageModel


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_it_equals_the_decoder_of_a_translation_model_that_starts_from_zero(cell):
    model, other = toy_language_model(cell=cell), toy(cell=cell)
    model.decoder.set_weights(other.decoder.get_weights())
    for (one,) in other.encoder.cells:
        for variable in one.trainable_variables:  # the states of the encoder stay zero
            variable.assign(np.zeros(variable.shape))
    expected = numpy(other.token_log_probs(np.full((len(TARGET), 1), 2), TARGET))
    np.testing.assert_allclose(numpy(model.token_log_probs(TARGET)), expected, atol=1e-6)
    np.testing.assert_allclose(numpy(model.score(TARGET)), expected.sum(axis=1), atol=1e-5)


def test_start_and_step_score_and_the_source_does_not_matter():
    model = toy_language_model()
    tokens = numpy(model.token_log_probs(np.pad(TARGET, [[0, 0], [0, 4]])))
    step = in_one_program(model.decoder.next_log_probs)
    for source in (np.full((len(TARGET), 1), 2), np.random.default_rng(0).integers(3, 9, (len(TARGET), 5))):
        state, memory = model.start(source)
        previous = np.zeros(len(TARGET), "int32")
        for t in range(TARGET.shape[1]):
            log_probs, state = step(keras.ops.convert_to_tensor(previous), state, memory)
            log_probs = numpy(log_probs)
            previous = TARGET[:, t]
            stepped = np.where(previous == 0, 0, log_probs[range(len(TARGET)), previous])
            np.testing.assert_allclose(stepped, tokens[:, t], atol=1e-5)


def test_fit_learns_and_reports_perplexity():
    keras.utils.set_random_seed(0)
    sentences = np.array([[3, 4, 5, 6, 2], [5, 6, 2, 0, 0]] * 16, "int32")
    model = RecurrentLanguageModel(5, layers=1, units=8, embedding_dim=6)
    model.compile(keras.optimizers.Adam(0.1))
    history = model.fit({"target": sentences}, epochs=25, verbose=0).history
    assert history["perplexity"][0] > 5 and history["perplexity"][-1] < 2
    found = model.evaluate({"target": sentences}, verbose=0, return_dict=True)
    scores = numpy(model.score(sentences))
    assert found["perplexity"] == pytest.approx(np.exp(-scores.sum() / np.count_nonzero(sentences)), rel=1e-4)
    assert found["log_likelihood"] == pytest.approx(scores.mean(), rel=1e-4)
    assert found["loss"] == pytest.approx(-scores.sum(), rel=1e-4)


def test_dropout_applies_only_in_training():
    keras.utils.set_random_seed(0)
    model, without = toy_language_model(dropout=0.5, layers=1), toy_language_model(layers=1)
    scores = numpy(model.score(TARGET))
    np.testing.assert_allclose(scores, numpy(without.score(TARGET)), rtol=1e-6)
    model.compile(keras.optimizers.SGD(0.0))
    assert abs(model.fit({"target": TARGET}, verbose=0).history["loss"][0] + scores.sum()) > 0.1


def test_samples_are_as_frequent_as_they_are_probable():
    model = toy_language_model(layers=1)
    model.decoder.output_matrix.bias.assign([-40.0, *[0.0] * 9])  # padding is never predicted
    [samples] = Generator(model).generate([[2]], RandomSampler(600), max_length=30)
    sequences = {sample.ids: sample.log_prob for sample in samples}
    for ids, log_prob in [*sequences.items()][:5]:
        assert log_prob == pytest.approx(float(numpy(model.score([ids]))[0]), abs=1e-4)
    empty = np.exp(float(numpy(model.score([[2]]))[0]))
    share = sum(sample.ids == (2,) for sample in samples) / 600
    assert abs(share - empty) < 4 * (empty * (1 - empty) / 600) ** 0.5


def test_sequences_without_an_end_reach_the_length_limit():
    model = toy_language_model(layers=1)
    model.decoder.output_matrix.bias.assign([-40.0, 0, -40.0, *[0.0] * 7])  # neither padding nor the end is predicted
    for count, max_length in ((1, 0), (3, 4)):
        found = Generator(model).generate([[2]] * count, max_length=max_length)
        assert [len(one.ids) for (one,) in found] == [max_length + 1] * count


def test_config_round_trips_and_wrong_arguments_are_refused():
    model = RecurrentLanguageModel(7, cell="gru", layers=3, units=4, embedding_dim=3, dropout=0.2, initial_scale=0.3)
    again = RecurrentLanguageModel.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert (again.source_words, again.target_words, again.config.cell) == (0, 7, "gru")
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]
    for arguments in ({"layers": 0}, {"cell": "elman"}):
        with pytest.raises(ValueError, match="expected"):
            RecurrentLanguageModel(7, **arguments)
    with pytest.raises(ValueError, match="RecurrentLanguageModel owns its loss"):
        model.compile("sgd", loss="mse")
