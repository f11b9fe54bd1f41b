"""Spelling of the unknown words of generated targets."""

import pickle
import unicodedata

import hybrid_oracle
import keras
import numpy as np
import pytest
from eagerly import uncompiled
from hybrid_toys import hybrid, ids_of
from recurrent_toys import padded

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, Generator, GreedySampler, RandomSampler, unknown_speller
from keras_encdec.decoding.file_generator import MosesNBestWriter
from keras_encdec.decoding.generation_options import GenerationOptions, check_together
from keras_encdec.decoding.search import Search
from keras_encdec.decoding.text_generator import TextHypothesis
from keras_encdec.decoding.unknown_speller import LOWEST_LOG_PROB, _Translations
from keras_encdec.models.spelling_rules import SpellingRules
from keras_encdec.models.symbols import to_symbols
from keras_encdec.text.lexical_shortlist import SourceTranslations
from keras_encdec.text.vocabulary import END, SPELLING_WIDTH, UNKNOWN, Vocabulary, spelled_word

# Four sources: known words and a rare one, a longer rare word, two rare words, and no word.
WORDS = [[4, [3, 4], 5], [[5, 1, 3, 3, 4, 4, 3, 5, 5]], [[3, 4], [3, 4, 5, 4]], []]
(SOURCES, _), (SPELLINGS, _) = ids_of([(words, []) for words in WORDS])


def with_unknown_words(unknown=1.5, **arguments):
    """A model that often predicts the unknown word, and never padding."""
    model = hybrid(**arguments)
    bias = keras.ops.convert_to_numpy(model.decoder.output_matrix.bias).copy()
    bias[[0, UNKNOWN, END]] = -40, unknown, 0.5
    model.decoder.output_matrix.bias.assign(bias)
    return model


@pytest.fixture(scope="module")
def model():
    return with_unknown_words()


@pytest.fixture(scope="module")
def generator(model):
    with uncompiled():
        return Generator(model)


def as_words(hypothesis):
    """The target as the oracle reads it: an unknown word is the list of its characters."""
    spellings = iter(hypothesis.spellings)
    return [list(next(spellings))[:-1] if number == UNKNOWN else number for number in hypothesis.ids[:-1]]


@pytest.mark.parametrize(
    "sampler", [BeamSampler(3, num_best=2, length_penalty=0.7), GreedySampler(), RandomSampler(3, seed=1)]
)
def test_unknown_words_are_spelled_and_the_sum_is_the_score(sampler, model, generator):
    results = generator.generate(SOURCES, sampler, spellings=SPELLINGS, max_length=4)
    weights = {name: array.astype("float64") for name, array in to_symbols(model).items()}
    spelled = 0
    for source, hypotheses in zip(WORDS, results, strict=True):
        for hypothesis in hypotheses:
            assert len(hypothesis.spellings) == hypothesis.ids.count(UNKNOWN)
            assert all(len(word) > 1 and word[-1] == END and UNKNOWN not in word for word in hypothesis.spellings)
            expected = hybrid_oracle.log_prob(weights, source, as_words(hypothesis))
            assert abs(hypothesis.log_prob - expected) < 2e-3
            assert bool(hypothesis.spelling_log_prob) == bool(hypothesis.spellings)
            penalty = ((5 + len(hypothesis.ids)) / 6) ** getattr(sampler, "length_penalty", 0)
            assert abs(hypothesis.score - hypothesis.log_prob / penalty) < 1e-4
            spelled += len(hypothesis.spellings)
    assert spelled > 3


def test_a_compiled_search_spells_as_one_that_is_not_compiled():
    model, sources = with_unknown_words(characters="target", character_layers=1), [[3, 4, 2], [5, 2]]
    found = Generator(model).generate(sources, max_length=2)
    with uncompiled():
        expected = Generator(model).generate(sources, max_length=2)
    assert any(each.spellings for [each] in found)
    for [one], [other] in zip(found, expected, strict=True):
        assert one.ids == other.ids and one.spellings == other.spellings
        np.testing.assert_allclose(one.log_prob, other.log_prob, atol=1e-4)


@pytest.mark.parametrize("most", [1, 3])
def test_the_best_are_chosen_among_all_spelled_hypotheses_of_the_beam(most):
    with uncompiled():
        generator = Generator(with_unknown_words(unknown=5))
    every = generator.generate(SOURCES, BeamSampler(6, 6, length_penalty=1), spellings=SPELLINGS, max_length=4)
    best = generator.generate(SOURCES, BeamSampler(6, most, length_penalty=1), spellings=SPELLINGS, max_length=4)
    words_alone = [
        [(each.log_prob - each.spelling_log_prob) / (5 + len(each.ids)) for each in hypotheses] for hypotheses in every
    ]
    assert any(np.argmax(scores) >= most for scores in words_alone), "spelling moves no hypothesis down"
    for few, many in zip(best, every, strict=True):
        assert [each.spellings for each in few] == [each.spellings for each in many[:most]]
        assert [each.ids for each in few] == [each.ids for each in many[:most]]
        np.testing.assert_allclose([each.score for each in few], [each.score for each in many[:most]], atol=1e-4)


def test_unknown_words_after_the_same_words_are_spelled_once(generator, monkeypatch):
    asked = []

    def search(functions, sampler, batch):
        asked.append(np.count_nonzero(batch.limits > 2))  # the others fill up the batch
        return Search(functions, sampler, batch)

    monkeypatch.setattr(unknown_speller, "Search", search)
    results = generator.generate(SOURCES, BeamSampler(6, 6), spellings=SPELLINGS, max_length=4)
    places = [
        (source, each.ids[: column + 1])
        for source, hypotheses in enumerate(results)
        for each in hypotheses
        for column, number in enumerate(each.ids)
        if number == UNKNOWN
    ]
    assert sum(asked) == len(set(places)) < len(places)


def test_long_hypotheses_are_spelled_alone(generator, monkeypatch):
    settings = {"sampler": BeamSampler(6, 6), "spellings": SPELLINGS, "max_length": 4}
    expected = generator.generate(SOURCES, **settings)
    rows = []
    monkeypatch.setattr(unknown_speller, "MAX_WEIGHTS", 1)
    monkeypatch.setattr(
        unknown_speller, "pad", lambda sequences, width: rows.append(len(sequences)) or pad(sequences, width)
    )
    found = generator.generate(SOURCES, **settings)
    assert set(rows) == {1}, "hypotheses together, or rows that fill up a batch"
    for some, others in zip(found, expected, strict=True):
        assert [(each.ids, each.spellings) for each in some] == [(each.ids, each.spellings) for each in others]
        np.testing.assert_allclose([each.score for each in some], [each.score for each in others], atol=1e-4)


def spelled_words(characters, sampler, generator):
    results = generator.generate(SOURCES, sampler, spellings=SPELLINGS, max_length=4)
    return {spelled_word(word, characters) for hypotheses in results for each in hypotheses for word in each.spellings}


@pytest.mark.parametrize("sampler", [BeamSampler(3, 3), GreedySampler(), RandomSampler(5, seed=1)])
def test_words_of_the_shortlist_are_never_spelled(sampler, model, generator):
    characters = Vocabulary("abc")
    free = spelled_words(characters, sampler, generator)
    with uncompiled():
        ruled = Generator(model, spelling_rules=SpellingRules(characters, free))
        ruled = pickle.loads(pickle.dumps(ruled))
    others = spelled_words(characters, sampler, ruled)
    assert others and not others & free


def test_words_are_spelled_in_the_normal_form_in_which_they_are_read(model, generator):
    characters, sampler = Vocabulary("ae\u0301"), RandomSampler(5, seed=1)
    with uncompiled():
        ruled = Generator(model, spelling_rules=SpellingRules(characters))
    free, normal = (spelled_words(characters, sampler, each) for each in (generator, ruled))
    assert any(unicodedata.normalize("NFC", word) != word for word in free), "no word has a letter with an accent"
    assert normal and all(unicodedata.normalize("NFC", word) == word for word in normal)


@pytest.mark.parametrize("translations", [None, {"spellings": [[3, END]], "probability": 0.05}])
def test_an_ensemble_of_equal_models_spells_as_one(translations, model, generator):
    tables = None
    if translations:
        spellings = padded(translations["spellings"], SPELLING_WIDTH)
        shapes = [(1, len(source)) for source in WORDS[:2]]
        tables = [SourceTranslations(spellings, np.full(shape, translations["probability"])) for shape in shapes]
    arguments = {"spellings": SPELLINGS, "max_length": 3, "translations": tables}
    with uncompiled():
        ensemble = Generator([model, model])
    one, two = (each.generate(SOURCES[:2], BeamSampler(2), **arguments) for each in (generator, ensemble))
    for [best], [other] in zip(one, two, strict=True):
        assert best.ids == other.ids and best.spellings == other.spellings
        np.testing.assert_allclose(best.log_prob, other.log_prob, atol=1e-3)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_the_more_probable_of_spelling_and_translations_is_chosen(weight, model, generator):
    random = np.random.default_rng(0)
    words = [[3], [4], [3, 4, 5], [5, 5], [4, 4], [5], [3, 3], [4, 3], [5, 3, 3]]  # one more than can compete
    spellings = padded([[*word, END] for word in words], SPELLING_WIDTH)
    tables = [
        SourceTranslations(spellings, random.uniform(0, 0.2, (len(words), len(source))).astype("float32"))
        for source in WORDS
    ]
    arguments = {"spellings": SPELLINGS, "max_length": 4, "with_attention": True}
    sampler = BeamSampler(4, num_best=4)
    plain = generator.generate(SOURCES, sampler, **arguments)
    results = generator.generate(SOURCES, sampler, **arguments, translations=tables, translation_weight=weight)
    weights = {name: array.astype("float64") for name, array in to_symbols(model).items()}
    chosen = []
    for source, table, hypotheses, before in zip(WORDS, tables, results, plain, strict=True):
        spelled_before = {each.ids: each for each in before}
        assert [each.score for each in hypotheses] == sorted([each.score for each in hypotheses], reverse=True)
        for hypothesis in hypotheses:
            assert abs(hypothesis.log_prob - hybrid_oracle.log_prob(weights, source, as_words(hypothesis))) < 2e-3
            if hypothesis.ids.count(UNKNOWN) != 1 or hypothesis.ids not in spelled_before:
                continue
            of_words = hypothesis.attention[hypothesis.ids.index(UNKNOWN), : len(source)]
            translated = table.probabilities @ (of_words / of_words.sum())
            competing = sorted(range(len(words)), key=lambda number: -translated[number])[:8]
            [searched] = spelled_before[hypothesis.ids].spellings
            candidates = {tuple(searched): 0.0} | {(*words[i], END): float(translated[i]) for i in competing}
            of_characters = {
                word: hybrid_oracle.log_prob(weights, source, as_words(hypothesis._replace(spellings=(word,))))
                - (hypothesis.log_prob - hypothesis.spelling_log_prob)
                for word in candidates
            }
            value = {word: (1 - weight) * np.exp(of_characters[word]) + weight * p for word, p in candidates.items()}
            highest = max(value.values())
            assert value[hypothesis.spellings[0]] > highest - 1e-5
            words_alone = hypothesis.log_prob - hypothesis.spelling_log_prob
            expected = words_alone + (np.log(highest) if highest > 0 else LOWEST_LOG_PROB)
            assert abs(hypothesis.score - expected) < 2e-3
            chosen.append(hypothesis.spellings[0] != tuple(searched))
    assert len(chosen) > 3 and any(chosen) == (weight > 0)


def test_words_with_the_same_translation_probabilities_are_equally_probable():
    """Otherwise, rounding would choose among them. The served model takes the first."""
    random = np.random.default_rng(0)
    for positions in range(3, 20):
        row = np.where(random.random(positions) < 0.5, 0.05, 0.1).astype(np.float32)
        spellings = np.zeros((50, SPELLING_WIDTH), np.int32)
        spellings[:, 0] = np.arange(50) + END + 1
        table = _Translations([SourceTranslations(spellings, np.tile(row, (50, 1)))], 0.5)
        found = table.translations(0, random.random((1, positions)).astype(np.float32), 0)
        assert list(found) == [(number + END + 1, END) for number in range(8)] and len(set(found.values())) == 1


def test_translations_are_refused_for_samples_and_for_models_that_spell_no_words():
    table = [SourceTranslations(np.zeros((0, SPELLING_WIDTH), np.int32), np.zeros((0, len(WORDS[0])), np.float32))]
    with pytest.raises(ConfigurationError, match="found word_translations with samples, whose characters are drawn"):
        Generator(hybrid()).generate(SOURCES[:1], RandomSampler(2), spellings=SPELLINGS, translations=table)
    with pytest.raises(ConfigurationError, match="found word_translations with a model that spells no words"):
        Generator(hybrid("source")).generate(SOURCES[:1], spellings=SPELLINGS, translations=table)
    with pytest.raises(ConfigurationError, match="found word_translations with samples"):
        check_together(GenerationOptions(word_translations="table"), RandomSampler(2))
    with pytest.raises(ConfigurationError, match="found translation_weight without word_translations"):
        GenerationOptions(translation_weight=0.5)
    for name, value in {"word_translations": "table", "character_beam": 2}.items():
        with pytest.raises(ConfigurationError, match=f"found {name} with suppress_unknown, with which no word is"):
            check_together(GenerationOptions(**{name: value}), GreedySampler(suppress_unknown=True))


def test_a_moses_list_has_ln_p_of_words_and_of_characters():
    writer = MosesNBestWriter(GenerationOptions(), with_source=True, with_count=False)
    hypothesis = TextHypothesis(["a"], -3.5, -3.0, 1, ["b"], spelling_log_prob=-1.25)
    assert writer.lines(7, "b", [hypothesis]) == "7 ||| a  ||| RNN0= -2.250000 -1.250000 ||| -3\n"


def test_a_beam_for_characters_that_are_drawn_is_refused():
    check_together(GenerationOptions(character_beam=2), GreedySampler())
    with pytest.raises(ConfigurationError, match="found character_beam with samples"):
        check_together(GenerationOptions(character_beam=2), RandomSampler(2))


def test_a_model_that_spells_words_cannot_join_one_that_does_not():
    with pytest.raises(ValueError, match="expected only one kind"):
        Generator([hybrid(), hybrid("source", character_path=None)])
