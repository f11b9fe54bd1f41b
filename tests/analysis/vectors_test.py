import numpy as np
import pytest
from keras import ops
from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

from keras_encdec.analysis import PhraseGates, UnitGates, phrase_gates
from keras_encdec.analysis.gates import has_gates
from keras_encdec.analysis.page.state_sections import map_regions, projector_files
from keras_encdec.analysis.vectors import Vectors, phrase_vectors, project, word_vectors
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import to_symbols

PHRASES = ["le chat &lt;b&gt;", "la|DET maison|N le chat l&apos; été le chat", "chien"]


@pytest.fixture(scope="module")
def directory(model_dirs):
    return ModelDirectory.load(model_dirs / "forward")


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


def test_phrase_vectors_of_a_recurrent_model_are_the_last_states_of_all_layers(tmp_path):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="lstm", layers=2, attention="global")
    assert phrase_vectors(ModelDirectory.load(path), PHRASES).array.shape == (3, 4 * 8)


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


def test_regions_are_dense_and_apart():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-50, 50, (200, 2)), rng.normal((20, 20), 0.5, (30, 2))])
    boxes = map_regions(points, size=10)
    assert len(boxes) == 3
    left, bottom, right, top = boxes[0]
    assert left > 17 and right < 23 and bottom > 17 and top < 23
    for i, one in enumerate(boxes):
        assert ((points >= one[:2]) & (points <= one[2:])).all(axis=1).sum() >= 10
        for other in boxes[:i]:
            assert one[2] < other[0] or one[0] > other[2] or one[3] < other[1] or one[1] > other[3]
    assert map_regions(points[:30]) == []


def test_projector_files_have_a_line_per_vector():
    files = projector_files(Vectors(["le chat", "a\tb", ""], np.arange(6, dtype="float32").reshape(3, 2) / 2))
    assert files["vectors.tsv"] == b"0\t0.5\n1\t1.5\n2\t2.5\n"
    assert files["metadata.tsv"] == b"le chat\na b\n(empty)\n"


GATED_PHRASES = ["le chat la maison", "l&apos; été"]


def last_state(directory, gates, suffix="", reset_after=False):
    """h after the last word, by the equations, with the gates that were found."""
    weights = {name.removesuffix(suffix): array for name, array in to_symbols(directory.model).items()}
    hidden = np.zeros(gates.update.shape[1])
    ids = directory.source_vocabulary.encode(gates.words[:-1])
    for one, update, reset in zip(ids, gates.update, gates.reset, strict=True):
        before = hidden @ weights["encoder.U"] * reset if reset_after else (reset * hidden) @ weights["encoder.U"]
        new = np.tanh(weights["source.E"][one] @ weights["encoder.W"] + weights["encoder.b"] + before)
        hidden = update * hidden + (1 - update) * new
    return hidden, weights


@pytest.mark.parametrize("reset_after", [False, True])
def test_the_gates_reproduce_the_encoders_state(tmp_path, reset_after):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, reset_after=reset_after)
    directory = ModelDirectory.load(path)
    assert has_gates(directory)
    for gates in phrase_gates(directory, GATED_PHRASES):
        hidden, weights = last_state(directory, gates, reset_after=reset_after)
        source = np.array([directory.source_vocabulary.encode(gates.words[:-1])])
        summary = ops.convert_to_numpy(directory.model.encode(source)["summary"])[0]
        np.testing.assert_allclose(np.tanh(hidden @ weights["encoder.V"] + weights["encoder.b_V"]), summary, atol=1e-5)


def test_gates_of_a_model_that_reads_sentences_from_right_to_left(tmp_path):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="gru", reverse_source=True)
    directory = ModelDirectory.load(path)
    first, second = phrase_gates(directory, GATED_PHRASES)
    assert first.words == ["maison", "la", "chat", "le", "(end)"] and second.words == ["été", "l'", "(end)"]
    source = np.array([directory.source_vocabulary.encode(first.words[-2::-1])])
    state = ops.convert_to_numpy(directory.model.encode(source)["hidden_1"])[0]
    np.testing.assert_allclose(last_state(directory, first, suffix=".1")[0], state, atol=1e-5)


def test_an_lstm_has_no_gates_to_show(tmp_path):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="lstm")
    assert not has_gates(ModelDirectory.load(path))


def test_units_over_a_corpus():
    words = ["a", "b", "a", "(end)"]
    update = np.array([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [1.0, 0.4]])
    reset = np.array([[0.9, 0.4], [0.9, 0.1], [0.9, 0.4], [0.4, 0.6]])
    units = UnitGates.of([PhraseGates(words, update, reset)] * 3)
    np.testing.assert_allclose(units.kept, [0.9, 0.2])
    np.testing.assert_allclose(units.resets, [0.25, 0.75])
    assert units.tokens == 12 and units.words == ["a", "b", "(end)"]
    assert units.keep_longest(1).tolist() == [0] and units.reset_most(1).tolist() == [1]
    assert units.taken_in(0, 1) == ["b"] and units.reset_at(0, 1) == ["(end)"] and units.reset_at(1, 2) == ["b", "a"]
