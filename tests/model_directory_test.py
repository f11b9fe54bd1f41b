"""Tests of a trained model on disk, and of the errors of one that does not load."""

import contextlib
import hashlib
import json
import os
import shutil
import zipfile

import keras
import numpy as np
import pytest
import toy_models

from keras_encdec import __version__, model_directory
from keras_encdec.backend import devices
from keras_encdec.data import pad
from keras_encdec.decoding import Generator, TextGenerator
from keras_encdec.errors import InputError
from keras_encdec.model_config import replace_weights
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.scoring import TextScorer
from keras_encdec.text import Vocabulary

SIZES = {"embedding_dim": 4, "units": 8, "maxout_units": 4, "output_rank": 4}
# A config.json whose checksums are of a file elsewhere.
CHECKSUMS = '{"format": 1, "direction": "forward", "tokenization": null, "model": {}, "sha256": {"../../secret": ""}}'
SOURCE, TARGET = ["le", "chat", "l'", "R&D"], ["the", "cat", "caf\udce9"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A complete model directory."""
    keras.utils.set_random_seed(3)
    path = tmp_path_factory.mktemp("models") / "model"
    ModelDirectory(path, Vocabulary(SOURCE), Vocabulary(TARGET)).save_config("encdec", SIZES)
    RNNEncoderDecoder(len(SOURCE), len(TARGET), **SIZES).save(path / "best.keras")
    return path


@pytest.fixture
def model(whole, tmp_path):
    """A copy of it to spoil."""
    return shutil.copytree(whole, tmp_path / "model")


def refused(path):
    with pytest.raises(InputError) as caught:
        ModelDirectory.load(path)
    return str(caught.value).removeprefix(str(path))


def test_a_directory_comes_back_as_it_was_saved(whole):
    directory = ModelDirectory.load(whole)
    assert directory.source_vocabulary.words == SOURCE and directory.target_vocabulary.words == TARGET
    assert (directory.reverse, directory.tokenization) == (False, None)
    assert directory.words(["a &amp;  b|c"]) == [["a", "&", "b|c"]]
    assert directory.model.config.units == 8
    assert ModelDirectory.load(str(whole), weights=False).model is None


def test_loading_a_low_precision_model_makes_no_second_copy(tmp_path, monkeypatch):
    path = toy_models.save_model(tmp_path / "model", SOURCE, TARGET, dtype="mixed_bfloat16")
    monkeypatch.setattr("keras_encdec.decoding.generator.Generator.__init__", None)
    model = ModelDirectory.load(path).model
    monkeypatch.undo()
    assert len(Generator(model).generate([[4, 5, 2]])) == 1


def test_it_is_readable_by_people(whole):
    config = json.loads((whole / "config.json").read_text())
    assert config["format"] == 1 and config["made_by"].startswith("keras-encdec ")
    assert config["direction"] == "forward" and config["model"] == SIZES
    assert (whole / "source.vocab").read_text() == "le\nchat\nl'\nR&D\n"


def test_text_is_scored_by_the_model_of_the_directory(whole):
    scorer = TextScorer(whole)
    assert scorer.words("le  chat", "the\tcat") == (["le", "chat"], ["the", "cat"])
    assert scorer.words("l&apos; R&amp;D", "") == (["l'", "R&D"], [])
    pairs = scorer.all_words([("le chat", "the cat"), ("chien R&amp;D", "dog dog cat"), ("", "")])
    ids = [[3, 4, 2], [1, 6, 2], [2]], [[3, 4, 2], [1, 1, 4, 2], [2]]
    expected = scorer.directory.model.score(*map(pad, ids))
    np.testing.assert_allclose(scorer.score(pairs), keras.ops.convert_to_numpy(expected), atol=1e-4)
    assert [len(row) for row in scorer.token_scores(pairs)] == [3, 4, 1]
    assert scorer.score_pairs(pairs, unknown_count=True).unknown_count == [0, 2, 0]
    np.testing.assert_array_equal(scorer.score(iter(pairs)), scorer.score(pairs))
    with pytest.raises(ValueError, match="found the text 'le chat', expected a list of words"):
        scorer.score([("le chat", "the cat")])
    with pytest.raises(ValueError, match="found the text '', expected a list of words"):
        scorer.score([("", "the cat")])


def test_one_text_in_place_of_a_list_is_not_translated_letter_by_letter(whole):
    generator = TextGenerator([whole])
    assert generator.generate_words(iter([["le", "chat"]])) == generator.generate(iter(["le chat"]))
    with pytest.raises(ValueError, match="found the text 'le chat', expected a list of texts"):
        generator.generate("le chat")
    with pytest.raises(ValueError, match="found the text 'le chat', expected a list of texts"):
        ModelDirectory.open(whole).words("le chat")
    for sources in (["", "le chat"], "le"):
        with pytest.raises(ValueError, match=f"found the text '{sources[0]}', expected a list of words"):
            generator.generate_words(sources)
    for sources in ([["le", None]], [[5, 2]], [b"le"], [None]):
        with pytest.raises(ValueError, match="expected a list of words, each a str; TextGenerator.generate splits"):
            generator.generate_words(sources)


def test_a_reverse_model_gives_the_probability_of_the_source(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "reverse")
    ModelDirectory(path, Vocabulary(SOURCE), Vocabulary(TARGET), reverse=True).save_config("encdec", SIZES)
    forward, reverse = TextScorer(whole), TextScorer(path)
    pairs = [(["le", "chat"], ["the"]), (["chien"], ["cat", "dog", "the"])]
    swapped = [(target, source) for source, target in pairs]
    np.testing.assert_allclose(reverse.score(swapped), forward.score(pairs), rtol=1e-6)
    # Words outside the shortlist are counted on the side that is the target to the user.
    assert reverse.score_pairs(swapped, unknown_count=True).unknown_count == [0, 1]


def test_raw_text_is_tokenized_as_the_directory_says(whole, tmp_path, monkeypatch):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    hidden = []

    def hide(*devices):
        hidden.append(devices)
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(devices, "backend_name", lambda: "jax")
    monkeypatch.setattr(tf.config, "set_visible_devices", hide)
    path = shutil.copytree(whole, tmp_path / "raw")
    directory = ModelDirectory(path, Vocabulary(SOURCE), Vocabulary(TARGET), tokenization={"lowercase": True})
    directory.save_config("encdec", SIZES)
    scorer = TextScorer(path)
    assert scorer.words("Le CHAT.", "l&apos;") == (["le", "chat", "."], ["l", "&", "apos", ";"])
    assert scorer.words("", "the") == ([], ["the"])
    # TensorFlow tokenizes whatever the backend, and would reserve the memory of the backend's GPU.
    assert hidden == [([], "GPU")]


def test_a_path_that_is_not_a_model_directory(tmp_path):
    assert refused(tmp_path / "none") == (
        ": found no such directory, expected a model directory made by encdec-train; check the path."
    )
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == (
        ": found no config.json in it, expected a model directory made by encdec-train; check the path."
    )
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file") == (
        ": found a file, expected a model directory made by encdec-train; check the path."
    )


def test_a_directory_of_another_version(model):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "format": 2, "made_by": "keras-encdec 3.0"}))
    assert refused(model) == (
        "/config.json: found a model directory of format 2, made by keras-encdec 3.0, expected format 1, which "
        f"{config['made_by']} reads; use the version that made it, or train again."
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        '{"format": 1}',
        '{"made_by": 1}',
        "\xff",
        CHECKSUMS,
        pytest.param("[" * 99_999, id="deep list"),
        pytest.param('{"a":' * 99_999, id="deep dict"),
        pytest.param(f'{{"format": {"9" * 5000}}}', id="huge number"),
    ],
)
def test_an_invalid_config(model, content):
    (model / "config.json").write_text(content, encoding="latin-1")
    sentence = refused(model)
    assert sentence.startswith("/config.json: found a file that cannot be read (")
    assert sentence.endswith(
        "), expected a model directory made by encdec-train; copy the directory again from where it worked, "
        "or train again."
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"model": []},
        {"training": 3},
        {"has_source": "no"},
        {"tokenization": {"lowercase": 3}},
        {"direction": ["forward"]},
    ],
)
def test_a_config_of_wrong_types(model, changed):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, **changed}))
    assert refused(model).startswith("/config.json: found a file that cannot be read (")


def test_a_model_directory_is_not_a_preset(whole):
    with pytest.raises(ValueError, match=r"expected a preset; load a trained model with .*ModelDirectory.load\(path\)"):
        RNNEncoderDecoder.from_preset(whole)


def test_a_new_model_needs_the_numbers_of_words():
    with pytest.raises(ValueError, match="found the preset 'small' without source_words and target_words"):
        RNNEncoderDecoder.from_preset("small")


@pytest.mark.parametrize(("name", "other"), [("source.vocab", ["le", "chat"]), ("target.vocab", SOURCE)])
def test_a_vocabulary_that_does_not_fit_the_weights(model, name, other):
    """The first versions kept no checksums."""
    config = json.loads((model / "config.json").read_text())
    del config["sha256"]
    (model / "config.json").write_text(json.dumps(config))
    expected = len(SOURCE if name == "source.vocab" else TARGET)
    assert ModelDirectory.load(model).target_vocabulary.words == TARGET
    Vocabulary(other).save(model / name)
    assert refused(model) == (
        f"/{name}: found {len(other)} words, expected {expected}, "
        "the number of words that the weights in best.keras have; put back the vocabulary the model was trained with."
    )


@pytest.mark.parametrize("name", ["source.vocab", "target.vocab"])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"".join(sorted(data.splitlines(True))),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data[:-1],
        lambda data: b"",
    ],
    ids=["sorted", "carriage returns", "byte order mark", "no last line feed", "empty"],
)
def test_a_vocabulary_that_was_changed_is_noticed(model, name, change):
    data = (model / name).read_bytes()
    (model / name).write_bytes(change(data))
    expected = hashlib.sha256(data).hexdigest()
    assert refused(model) == (
        f"/{name}: found a file that has changed since the model was trained, expected the file with the SHA-256 "
        f"checksum {expected}; put back the file, or copy the whole directory again."
    )
    with pytest.raises(InputError, match="changed since the model was trained"):
        ModelDirectory.load(model, weights=False)  # as a resumed training run does


def test_vocabularies_that_were_swapped_are_noticed(model):
    (model / "source.vocab").rename(model / "kept")
    (model / "target.vocab").rename(model / "source.vocab")
    (model / "kept").rename(model / "target.vocab")
    assert refused(model).startswith(
        "/source.vocab: found the content of target.vocab, expected the file with the SHA-"
    )


def saved(path, seed):
    """Weights of the sizes of the model, in a file beside it."""
    keras.utils.set_random_seed(seed)
    RNNEncoderDecoder(len(SOURCE), len(TARGET), **SIZES).save(path / "new.keras")
    return path / "new.keras"


def test_weights_of_another_model_of_the_same_sizes_are_noticed(model):
    other = saved(model, 7).read_bytes()
    replace_weights(model, saved(model, 8))
    ModelDirectory.load(model)
    right = (model / "best.keras").read_bytes()
    (model / "best.keras").write_bytes(other)
    expected = hashlib.sha256(right).hexdigest()
    assert refused(model) == (
        "/best.keras: found a file that has changed since the model was trained, expected the file with the SHA-256 "
        f"checksum {expected}; put back the file, or copy the whole directory again."
    )
    assert ModelDirectory.load(model, weights=False).model is None
    (model / "best.keras").write_bytes(right)
    ModelDirectory.load(model)


class KilledError(BaseException):
    pass


@pytest.mark.parametrize("renames", range(4))
def test_a_kill_at_any_time_leaves_weights_that_load(model, monkeypatch, renames):
    """The configuration, the weights and the configuration once more are renamed."""
    replace_weights(model, saved(model, 1))
    written, rename, left = saved(model, 2), os.replace, [renames]

    def killed_before(*paths):
        if not left[0]:
            raise KilledError
        left[0] -= 1
        rename(*paths)

    monkeypatch.setattr(os, "replace", killed_before)
    with contextlib.nullcontext() if renames == 3 else pytest.raises(KilledError):
        replace_weights(model, written)
    monkeypatch.undo()
    ModelDirectory.load(model)
    assert written.exists() == (renames < 2)
    replace_weights(model, saved(model, 3))  # as the resumed run does
    ModelDirectory.load(model)
    assert len(json.loads((model / "config.json").read_text())["sha256"]["best.keras"]) == 1


def test_weights_may_be_replaced_while_they_are_loaded(model, monkeypatch):
    replace_weights(model, saved(model, 1))
    checksum, checked = model_directory.file_checksum, []

    def replaced_before(path):
        if path.name == "best.keras" and not checked:
            checked.append(path)
            replace_weights(model, saved(model, 2))
        return checksum(path)

    monkeypatch.setattr(model_directory, "file_checksum", replaced_before)
    ModelDirectory.load(model)
    assert checked


def test_weights_without_a_checksum_are_loaded(model):
    assert "best.keras" not in json.loads((model / "config.json").read_text())["sha256"]
    ModelDirectory.load(model)
    (model / "config.json").unlink()
    replace_weights(model, saved(model, 1))  # a folder that is not a model directory does not become one
    assert not (model / "config.json").exists()


@pytest.mark.parametrize("name", ["source.vocab", "target.vocab", "best.keras"])
def test_a_missing_piece(model, name):
    (model / name).unlink()
    sentence = refused(model)
    if name == "best.keras":
        assert sentence == (
            ": found no best.keras, expected the model's weights; train the model (encdec-train saves them after "
            "its first round)."
        )
    else:
        assert sentence.startswith(f"/{name}: found no such file")


def test_weights_that_are_spoilt(model):
    data = (model / "best.keras").read_bytes()
    random = np.random.default_rng(0)
    spoilt = [b"", b"not a model", data[: len(data) // 2], data[:-10], data[:100]]
    for _ in range(30):
        flipped = bytearray(data)
        for place in random.integers(0, len(data), 20):
            flipped[place] ^= 0xFF
        spoilt.append(bytes(flipped))
    refusals = 0
    for content in spoilt:
        (model / "best.keras").write_bytes(content)
        try:
            ModelDirectory.load(model)
        except InputError as error:  # anything else is a traceback to the user
            assert str(error).startswith(f"{model}/best.keras: found "), error
            assert "\n" not in str(error) and "File not found" not in str(error), error
            refusals += 1
    assert refusals >= 30


def test_weights_of_another_model(model):
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    other.save(model / "best.keras")
    assert refused(model) == (
        "/best.keras: found a model of the class Sequential, expected a translation model of this package; "
        "put back the file that encdec-train made."
    )


def changed_model(folder, replaced):
    """Returns the path of a model whose config has another text in place of one of its own."""
    path = toy_models.save_model(folder / "model", SOURCE, TARGET, cell="gru", layers=1)
    with zipfile.ZipFile(path / "best.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = members["config.json"].replace(*(text.encode() for text in replaced))
    with zipfile.ZipFile(path / "own.keras", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path / "own.keras"


@pytest.mark.parametrize(
    "own, found",
    [
        (('"cell": "gru"', '"cell": "own"'), "found cell='own', expected one of rnn, lstm, gru"),
        (("RecurrentEncoderDecoder", "OwnModel"), "Could not locate class 'OwnModel'"),
    ],
)
def test_a_model_whose_parts_are_not_registered_here(tmp_path, own, found):
    """As that of a user whose program does not import the module of the cell or of the class."""
    path = changed_model(tmp_path, own)
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path}: found a model that cannot be built here ({found}), expected classes, cells and attentions "
        "that are registered; in your own program, import the module that registers yours before you load the model."
    )


def test_a_model_for_which_there_is_too_little_memory_is_not_damaged(tmp_path, monkeypatch):
    def fail_to_load(*args, **options):
        raise MemoryError

    path = toy_models.save_model(tmp_path / "model", SOURCE, TARGET)
    monkeypatch.setattr(keras.saving, "load_model", fail_to_load)
    with pytest.raises(MemoryError):
        load_model(path)


def test_a_damaged_setting_of_a_model(tmp_path):
    path = changed_model(tmp_path, ('"layers": 1', '"layers": -1'))
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path}: found a file that cannot be loaded (found layers=-1, expected a whole number, 1 or more), "
        f"expected weights saved by keras-encdec {__version__}; "
        "train the model again, or copy it again from where it worked."
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(model, value):
    diverged = load_model(model / "best.keras")
    diverged.weights[3].assign(np.full(diverged.weights[3].shape, value))
    diverged.save(model / "best.keras")
    assert refused(model) == (
        "/best.keras: found weights that are infinite or not a number, expected finite numbers; "
        "the training diverged: train again with a lower --learning_rate."
    )
