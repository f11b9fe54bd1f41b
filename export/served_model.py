"""The functions that a server calls: they take strings, and return scores and targets."""

import functools
import os
import pathlib
from collections.abc import Callable

import tensorflow as tf
from tensorflow.types.experimental import ConcreteFunction, PolymorphicFunction

from keras_encdec.backend.types import Structure
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import RegisteredSampler, registered_samplers
from keras_encdec.export.phrase_ids import PhraseIds, Phrases, checked_utf8, checked_vector
from keras_encdec.export.scoring_graph import Tensors, encode_in_graph, score_in_graph
from keras_encdec.export.search_graph import alignment_text, search_in_graph, target_limits
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.stored_weights import StoredWeights
from keras_encdec.export.unknown_words import ServedReplacement, spell_in_graph
from keras_encdec.export.word_translations import ServedShortlist, ServedTranslations
from keras_encdec.model_config import SOURCE_VOCABULARY, TARGET_VOCABULARY
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.log_probs import sequence_log_probs
from keras_encdec.models.spelling_rules import SpellingRules
from keras_encdec.models.translation_model import ModelInDtype, TranslationModel
from keras_encdec.task_options import TRANSLATION_WEIGHT
from keras_encdec.text import Tokenizer
from keras_encdec.text.lexical_shortlist import LexicalShortlist, RareTranslations, read_dictionary, read_translations
from keras_encdec.text.vocabulary import SPELLING_WIDTH


class ServedModel:
    """A trained model as TensorFlow functions on strings, for a SavedModel.

    Source and target are always the user's: a reverse model scores p(source | target), and its `encode` reads a target.
    The functions use only TensorFlow's core operations and, with a `tokenization`, those of tensorflow-text. They
    compute in float32, whatever dtype the model was trained in. The result for an item does not depend on the other
    items in its batch. Each registered sampler has a signature, such as `generate`, `generate_greedy` and `sample`.

    Args:
        directory: ModelDirectory, with its model, under Keras's TensorFlow backend.
        folder: path of the folder to write the vocabularies to. They are assets, which `tf.saved_model.save` copies.
        config: ServingConfig.
        tokenization: dict of arguments of the `Tokenizer` that tokenizes raw text. Defaults to `None`: texts are
            tokens separated by spaces.

    Attributes:
        signatures: dict from name to concrete function.
        resources: tf.Module of the tables and weights that the functions use. It must be saved with them.

    Raises:
        ConfigurationError: a ValueError, if options in `config` need attention and the model has none.
        InputError: if the dictionary cannot be read.
    """

    def __init__(
        self,
        directory: ModelDirectory,
        folder: str | os.PathLike[str],
        config: ServingConfig,
        tokenization: dict[str, bool] | None = None,
    ) -> None:
        self._model = ModelInDtype(directory.model, "float32").model
        self._config, self._reverse = config, directory.reverse
        self._read_side, self._generated_side = directory.reordered(("source", "target"))
        self._tokenizer = None if tokenization is None else Tokenizer(**tokenization)
        escaped = self._tokenizer is None
        self._read_ids, self._predicted_ids = (
            PhraseIds(vocabulary, pathlib.Path(folder) / name, escaped, self._config.max_tokens)
            for vocabulary, name in (
                (directory.source_vocabulary, SOURCE_VOCABULARY),
                (directory.target_vocabulary, TARGET_VOCABULARY),
            )
        )
        self._stored = StoredWeights(self._model, self._config.weights)
        self._replacement = self._replacement_of(directory) if self._config.replace_unknown else None
        self._shortlist = self._shortlist_of(directory)
        vocabulary = directory.target_vocabulary
        self._translations = self._translations_of(directory)
        if vocabulary.characters is not None:
            self._spelling_rules = SpellingRules(vocabulary.characters, vocabulary.words)
        # Several signatures call each of these functions, which are traced once. The shape of texts is left open,
        # because clients may send a rank other than the signature's.
        texts = tf.TensorSpec(None, tf.string)
        phrases = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
        if self._read_ids.characters:
            phrases.append(tf.TensorSpec([None, SPELLING_WIDTH], tf.int32))
        self._encode = self._shared(functools.partial(encode_in_graph, self._model.encoder), *phrases)
        self._encoded = self._shared(self._encode_distinct, texts)
        self._scored = self._shared(self._score_pairs, texts, texts)
        self.signatures: dict[str, ConcreteFunction] = self._signatures()
        self.resources = tf.Module()
        self.resources.tables = [*self._read_ids.resources, *self._predicted_ids.resources]
        for optional in (self._replacement, self._shortlist, self._translations):
            self.resources.tables += optional.resources if optional else ()
        graphs = [function.graph for function in self.signatures.values()]
        self.resources.weights = list({weight.ref(): weight for graph in graphs for weight in graph.variables}.values())
        self.resources.stored_weights = self._stored.weights
        self.resources.parts = [weight.parts for weight in self._stored.weights]

    def rounded_model(self) -> TranslationModel:
        """Returns the model with the weights as they are stored."""
        return self._stored.rounded_model()

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Computes ln p of each pair, and counts its predicted tokens and its target words outside the shortlist."""
        scored = self._scored(source, target)
        return {name: scored[name] for name in ("log_prob", "token_count", "unknown_count")}

    def score_tokens(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Returns the outputs of `score`, and ln p of each predicted token, padded with 0."""
        scored: Tensors = self._scored(source, target)
        return scored

    def _score_pairs(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        source, target = self._text(source, "source"), self._text(target, "target")
        sizes = tf.size(source), tf.size(target)
        same = tf.debugging.Assert(tf.equal(*sizes), ["found sources and targets:", *sizes, "expected equal numbers"])
        with tf.control_dependencies([same]):
            source, target = tf.identity(source), tf.identity(target)
        read, predicted = (target, source) if self._reverse else (source, target)
        # Equal phrases are encoded once, and equal pairs are scored once: n-best lists repeat their source, and a
        # server fills up batches with copies of the first pair.
        (read, read_index), (predicted, predicted_index) = tf.unique(read), tf.unique(predicted)
        number = tf.size(predicted, tf.int64)
        pairs, pair_index = tf.unique(tf.cast(read_index, tf.int64) * number + tf.cast(predicted_index, tf.int64))
        read_phrases = self._read_ids(read, self._read_side)
        phrases = self._predicted_ids(predicted, self._generated_side)
        encoded = self._encode(*_present_fields(read_phrases))
        ids, lengths = (tf.gather(table, pairs % number) for table in (phrases.ids, phrases.lengths))
        log_probs = score_in_graph(self._model.decoder, ids, lengths, encoded, pairs // number, phrases.spellings)
        totals = tf.cast(sequence_log_probs(tf.cast(log_probs, tf.float64)), tf.float32)
        target, target_ids, target_index = (
            (read_phrases.ids, self._read_ids, read_index)
            if self._reverse
            else (phrases.ids, self._predicted_ids, predicted_index)
        )
        unknown = tf.math.count_nonzero(target_ids.is_unknown(target), axis=1, dtype=tf.int32)
        return {
            "log_prob": tf.gather(totals, pair_index),
            "token_log_probs": tf.gather(log_probs, pair_index),
            "token_count": tf.gather(lengths, pair_index),
            "unknown_count": tf.gather(unknown, target_index),
        }

    def encode(self, text: tf.Tensor) -> Tensors:
        """Returns the encoder's output for each phrase by name; the paper's model has a single output, "summary"."""
        _, encoded, _, text_index = self._encoded(text)
        return {name: tf.gather(table, text_index) for name, table in encoded.items()}

    def regress(self, inputs: tf.Tensor) -> Tensors:
        """Computes ln p of pairs in serialized tf.Examples with the features "source" and "target"."""
        text = tf.io.FixedLenFeature([], tf.string)
        pairs = tf.io.parse_example(inputs, {"source": text, "target": text})
        return {"outputs": self.score(pairs["source"], pairs["target"])["log_prob"]}

    def tokenize(self, text: tf.Tensor) -> Tensors:
        """Tokenizes raw text; the tokens are separated by spaces."""
        return {"tokens": self._text(text, "text")}

    def _encode_distinct(self, text: tf.Tensor) -> tuple[tf.Tensor, Tensors, tf.Tensor, tf.Tensor]:
        """Encodes each distinct phrase once.

        Returns the distinct phrases, their `encoded`, their lengths, and the index of each phrase among them.
        """
        text, text_index = tf.unique(self._text(text, self._read_side))
        phrases = self._read_ids(text, self._read_side)
        return text, self._encode(*_present_fields(phrases)), phrases.lengths, text_index

    def _replacement_of(self, directory: ModelDirectory) -> ServedReplacement:
        translations = read_dictionary(self._config.dictionary, can_declare=False) if self._config.dictionary else {}
        return ServedReplacement(directory.target_vocabulary, translations, self._model.decoder.has_attention)

    def _shortlist_of(self, directory: ModelDirectory) -> ServedShortlist | None:
        shortlist = LexicalShortlist.from_options(self._config, directory.target_vocabulary)
        return None if shortlist is None else ServedShortlist(shortlist, directory.target_vocabulary)

    def _translations_of(self, directory: ModelDirectory) -> ServedTranslations | None:
        config, vocabulary = self._config, directory.target_vocabulary
        if not config.word_translations:
            return None
        rare = RareTranslations(read_translations(config.word_translations), vocabulary)
        weight = TRANSLATION_WEIGHT if config.translation_weight is None else config.translation_weight
        return ServedTranslations(rare, vocabulary, self._predicted_ids, weight)

    def _search(self, entry: RegisteredSampler, sampler: Sampler) -> Callable[..., Tensors]:
        """Makes the function of a sampler's signature. It returns targets, as strings of tokens, and their ln p."""

        def search(text: tf.Tensor, *values: tf.Tensor) -> Tensors:
            inputs = {name: checked_vector(value, name) for name, value in zip(entry.inputs, values, strict=True)}
            with tf.control_dependencies(_input_checks(entry, text, inputs)):
                *read, text_index = self._encoded(tf.identity(text))
            if inputs:  # equal sources may have different targets
                read = tf.nest.map_structure(lambda table: tf.gather(table, text_index), read)
            text, encoded, lengths = read
            decoder = self._model.decoder
            allowed = self._shortlist.allowed(self._read_ids.split(text)) if self._shortlist else None
            results = search_in_graph(decoder, encoded, lengths, target_limits(lengths), sampler, inputs, allowed)
            outputs = {}
            if self._predicted_ids.characters:
                results, spelling_log_probs, spellings, word = spell_in_graph(
                    decoder,
                    encoded,
                    results,
                    sampler,
                    inputs,
                    self._spelling_rules,
                    None if sampler.needs_draws else self._translations,
                    self._read_ids.split(text),
                )
                spelled_words = tf.concat([[""], self._predicted_ids.characters.words(spellings)], 0)
                words = tf.where(word >= 0, tf.gather(spelled_words, word + 1), self._predicted_ids.decode(results.ids))
                outputs["spelling_log_prob"] = spelling_log_probs
            else:
                words = self._predicted_ids.decode(results.ids)
            if self._replacement:
                words = self._replacement(words, results.ids, results.links, self._read_ids.split(text), lengths)
            targets = self._predicted_ids.joined(words, results.ids)
            outputs |= {self._generated_side: targets, "log_prob": results.log_probs}
            if decoder.has_attention:
                outputs["alignment"] = alignment_text(words, results.ids, results.links)
            if entry.single:
                outputs = {name: values[:, 0] for name, values in outputs.items()}
            return outputs if inputs else {name: tf.gather(values, text_index) for name, values in outputs.items()}

        return search

    def _text(self, text: tf.Tensor, name: str) -> tf.Tensor:
        text = checked_utf8(text, name, self._config.max_tokens)
        return text if self._tokenizer is None else self._tokenizer(text)

    def _shared(self, function: Callable[..., Structure], *inputs: tf.TensorSpec) -> PolymorphicFunction:
        """Makes a `tf.function` that computes with the stored weights. Its callers share its graph."""

        def compute(*values: tf.Tensor) -> Structure:
            with self._stored.in_use():
                return function(*values)

        return tf.function(compute, input_signature=inputs, autograph=False)

    def _traced(self, function: Callable[..., Tensors], *texts: str, **others: str | tf.DType) -> ConcreteFunction:
        """Traces a function of vectors with names: `texts` are strings, `others` have the given dtypes."""
        # The names of the specs become the names of the signature's inputs.
        specs = [tf.TensorSpec([None], tf.string, name) for name in texts]
        specs += [tf.TensorSpec([None], dtype, name) for name, dtype in others.items()]
        traced: ConcreteFunction = self._shared(function, *specs).get_concrete_function()
        return traced

    def _signatures(self) -> dict[str, ConcreteFunction]:
        score = self._traced(self.score, "source", "target")
        signatures = {
            "serving_default": score,
            "score": score,
            "score_tokens": self._traced(self.score_tokens, "source", "target"),
            "encode": self._traced(self.encode, self._read_side),
            "regress": self._traced(self.regress, "inputs"),
        }
        for entry in registered_samplers().values():
            search = self._search(entry, self._config.served_sampler(entry))
            signatures[entry.signature] = self._traced(search, self._read_side, **entry.inputs)
        if self._tokenizer:
            signatures["tokenize"] = self._traced(self.tokenize, "text")
        return signatures


def _present_fields(phrases: Phrases) -> tuple[tf.Tensor, ...]:
    """Returns the fields that are not `None`."""
    return tuple(field for field in phrases if field is not None)


def _input_checks(entry: RegisteredSampler, text: tf.Tensor, inputs: Tensors) -> list[tf.Operation]:
    """Makes assertions that each input has a value for each source, and that the sampler accepts the values."""
    if not inputs:
        return []
    sizes = [tf.size(value) for value in (text, *inputs.values())]
    names = ["sources", *(f"{name}s" for name in inputs)]
    listed = f"found {', '.join(names[:-1])} and {names[-1]}:"
    same = tf.reduce_all(tf.equal(tf.stack(sizes), sizes[0]))
    checks = [tf.debugging.Assert(same, [listed, *sizes, "expected equal numbers"])]
    for parameter in entry.sampler_class.hyperparameters():
        if parameter.type is not float or parameter.name not in inputs:
            continue
        values = inputs[parameter.name]
        fits = tf.math.is_finite(values)
        if parameter.above is not None:
            fits &= values > parameter.above
        if parameter.minimum is not None:
            fits &= values >= parameter.minimum
        if parameter.maximum is not None:
            fits &= values <= parameter.maximum
        expected = [f"found the {parameter.name}s", values, f"expected for each {parameter.expectation}"]
        checks.append(tf.debugging.Assert(tf.reduce_all(fits), expected))
    return checks
