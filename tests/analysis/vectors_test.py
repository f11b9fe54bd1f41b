import numpy as np
import pytest
from keras import ops
from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

from keras_encdec.analysis import TablePair, phrase_gates, sampled_targets
from keras_encdec.analysis.page.score_sections import pair_words
from keras_encdec.analysis.vectors import Vectors, phrase_vectors, project, word_vectors
from keras_encdec.decoding import TextGenerator

PHRASES = ["le chat &lt;b&gt;", "la|DET maison|N le chat l&apos; été le chat", "chien"]


def test_word_vectors_are_the_embeddings(directory):
    vectors = word_vectors(directory, 3)
    assert vectors.names == SOURCE_WORDS[:3]
    expected = ops.convert_to_numpy(directory.model.encoder.embedding.embeddings)[3:6]
    np.testing.assert_array_equal(vectors.array, expected)


def test_phrase_vectors_do_not_depend_on_the_batch(directory):
    vectors = phrase_vectors(directory, PHRASES)
    assert vectors.names == ["le chat <b>", "la maison le chat l' été le chat", "chien"]
    for words, vector in zip(vectors.names, vectors.array, strict=True):
        ids = np.array([directory.source_vocabulary.encode(words.split())])
        np.testing.assert_allclose(vector, ops.convert_to_numpy(directory.model.encode(ids)["summary"])[0], atol=1e-6)


@pytest.mark.parametrize("function", [phrase_vectors, phrase_gates, sampled_targets])
def test_a_text_in_place_of_a_list_is_an_error(directory, function):
    with pytest.raises(ValueError, match="found the text 'le chat', expected a list of texts"):
        function(directory, "le chat")


def test_a_phrase_table_has_tokens_even_for_a_model_of_raw_text(tmp_path):
    path = save_model(tmp_path / "raw", SOURCE_WORDS, TARGET_WORDS, tokenization={"lowercase": True})
    assert phrase_vectors(path, PHRASES).names == ["le chat <b>", "la maison le chat l' été le chat", "chien"]
    [gates] = phrase_gates(path, PHRASES[:1])
    assert gates.words == ["le", "chat", "<b>", "(end)"]
    [sampled] = sampled_targets(TextGenerator([path]), PHRASES[:1], samples=1)
    assert sampled.distinct[0].source_words == ["le", "chat", "<b>"]
    assert pair_words([TablePair("l&apos; été|NN", "the cat", 1.0, 1.0)]) == [(["l'", "été"], ["the", "cat"])]


def test_phrase_vectors_of_a_recurrent_model_are_the_last_states_of_all_layers(tmp_path):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="lstm", layers=2, attention="global")
    assert phrase_vectors(path, PHRASES).array.shape == (3, 4 * 8)
    assert word_vectors(path, 2).names == SOURCE_WORDS[:2]


def test_neighbours_are_those_of_the_highest_cosine():
    rng = np.random.default_rng(0)
    vectors = Vectors([str(i) for i in range(30)], rng.normal(0, 1, (30, 4)).astype("float32"))
    indices, similarities = vectors.neighbours(5)
    units = vectors.array / np.linalg.norm(vectors.array, axis=1, keepdims=True)
    cosines = units @ units.T - 9 * np.eye(30)
    np.testing.assert_array_equal(indices, np.argsort(-cosines, axis=1)[:, :5])
    np.testing.assert_allclose(similarities, np.take_along_axis(cosines, indices, 1), atol=1e-6)
    assert Vectors(["a", "b"], np.eye(2, dtype="float32")).neighbours()[0].tolist() == [[1], [0]]


def test_a_projection_keeps_groups_together():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 20)
    vectors = np.eye(3)[groups] * 10 + rng.normal(0, 0.1, (60, 3))
    vectors[1] = vectors[0]
    points = project(vectors)
    middles = np.array([points[groups == group].mean(axis=0) for group in range(3)])
    nearest = np.linalg.norm(points[:, None] - middles, axis=-1).argmin(axis=1)
    np.testing.assert_array_equal(nearest, groups)
    assert np.isfinite(points).all()
    np.testing.assert_array_equal(points, project(vectors))


def test_few_points_are_projected_too():
    for number in (1, 2, 7):
        points = project(np.arange(3 * number, dtype="float32").reshape(number, 3))
        assert points.shape == (number, 2) and np.isfinite(points).all()
    assert np.isfinite(project(np.zeros((12, 4)))).all()
