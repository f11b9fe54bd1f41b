"""The functions that are served: strings in, scores out."""

import pathlib

import tensorflow as tf

from keras_encdec.export import generating, packed, stepped
from keras_encdec.export.phrase_ids import PhraseIds, checked, vector
from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.models.log_probs import sequence_log_probs
from keras_encdec.scoring.model_directory import SOURCE_VOCABULARY, TARGET_VOCABULARY
from keras_encdec.scoring.scorer import in_dtype
from keras_encdec.text import UNKNOWN, Tokenizer


class ServedModel:
    """A trained model as TensorFlow functions on strings, for a SavedModel.

    Source and target are the user's in both directions: a reverse model gives p(source | target), and
    its `encode` reads a target. The functions are made of TensorFlow's core operations alone, but for
    `raw_text`, which needs those of tensorflow-text. What they compute is float32, whatever the model
    was trained in, and does not depend on what else is in a batch.

    Args:
        directory: ModelDirectory, with its model, under Keras's TensorFlow backend.
        folder: where the vocabularies are written, as the assets that `tf.saved_model.save` copies.
        max_tokens: int. Tokens of a phrase, the end of sequence not counted; longer phrases are refused,
            and strings of more than 64 times so many bytes. Defaults to `256`.
        tokenization: dict of arguments of `Tokenizer`. Raw text is read, and tokenized by it. Defaults to
            `None`: strings of tokens separated by spaces.
        num_beams: int. Of the beam search of `generate`, which gives as many targets. Defaults to `5`.

    Attributes:
        signatures: dict of name to concrete function.
        resources: tf.Module of all that these use, to be saved with them.
    """

    def __init__(self, directory, folder, max_tokens=256, tokenization=None, num_beams=5):
        model = in_dtype(directory.model, "float32")
        self._model, self._decoder = model, model.decoder
        self._generated_side = "source" if directory.reverse else "target"
        self._is_packed = isinstance(model, RNNEncoderDecoder)
        self._reverse, self._max_tokens, self._num_beams = directory.reverse, max_tokens, num_beams
        self._tokenizer = None if tokenization is None else Tokenizer(**tokenization)
        escaped = self._tokenizer is None
        read, predicted = (
            PhraseIds(vocabulary, pathlib.Path(folder) / name, escaped, max_tokens)
            for vocabulary, name in (
                (directory.source_vocabulary, SOURCE_VOCABULARY),
                (directory.target_vocabulary, TARGET_VOCABULARY),
            )
        )
        self._read, self._predicted = read, predicted
        if self._is_packed:
            # Cut out of the weights here, not in every call.
            matrices = model.encoder.gru.cell.parameters()
            self._matrices = [tf.Variable(matrix, trainable=False) for matrix in matrices]
        self.signatures = self._signatures()
        self.resources = tf.Module()
        self.resources.tables = [read.table, predicted.table, predicted.words]
        graphs = [function.graph for function in self.signatures.values()]
        self.resources.weights = list({weight.ref(): weight for graph in graphs for weight in graph.variables}.values())

    def score(self, source, target):
        """ln p of each pair, its number of predicted tokens, and of target words outside the shortlist."""
        return {name: value for name, value in self.score_tokens(source, target).items() if name != "token_log_probs"}

    def score_tokens(self, source, target):
        """Likewise, and ln p of each predicted token, padded with 0."""
        source, target = self._text(source, "source"), self._text(target, "target")
        sizes = tf.size(source), tf.size(target)
        same = tf.debugging.Assert(
            tf.equal(*sizes), ["found sources and targets:", *sizes, "expected as many of both"]
        )
        with tf.control_dependencies([same]):
            source, target = tf.identity(source), tf.identity(target)
        read, predicted = (target, source) if self._reverse else (source, target)
        # Equal phrases are read once, and equal pairs scored once: n-best lists repeat their source, and
        # a server that fills a batch up repeats its first pair.
        (read, read_of), (predicted, predicted_of) = tf.unique(read), tf.unique(predicted)
        number = tf.size(predicted, tf.int64)
        pairs, pair_of = tf.unique(tf.cast(read_of, tf.int64) * number + tf.cast(predicted_of, tf.int64))
        names = ("target", "source") if self._reverse else ("source", "target")
        read_ids, read_lengths = self._read(read, names[0])
        predicted_ids, predicted_lengths = self._predicted(predicted, names[1])
        summaries = self._encode(read_ids, read_lengths)
        ids, lengths = (tf.gather(of, pairs % number) for of in (predicted_ids, predicted_lengths))
        if self._is_packed:
            log_probs = packed.score(self._decoder, ids, lengths, summaries, pairs // number)
        else:
            log_probs = stepped.score(self._model, ids, lengths, summaries, pairs // number)
        totals = tf.cast(sequence_log_probs(tf.cast(log_probs, tf.float64)), tf.float32)
        target_ids, target_of = (read_ids, read_of) if self._reverse else (predicted_ids, predicted_of)
        unknown = tf.reduce_sum(tf.cast(tf.equal(target_ids, UNKNOWN), tf.int32), axis=1)
        return {
            "log_prob": tf.gather(totals, pair_of),
            "token_log_probs": tf.gather(log_probs, pair_of),
            "token_count": tf.gather(lengths, pair_of),
            "unknown_count": tf.gather(unknown, target_of),
        }

    def encode(self, text):
        """The summary c of each phrase that the model reads; of other models all that the decoder gets."""
        summaries, _, text_of = self._encoded(text)
        return {"summary": tf.gather(tf.concat(tf.nest.flatten(summaries), axis=-1), text_of)}

    def generate(self, text):
        """The best targets of a beam search, strings of tokens `(n, num_beams)`, and their ln p."""
        return self._generated(text, self._num_beams)

    def generate_greedy(self, text):
        """The target of the most probable word at each step, a string of tokens `(n,)`, and its ln p."""
        return {name: values[:, 0] for name, values in self._generated(text, 1).items()}

    def sample(self, text, seed, temperature):
        """A target drawn from the model's probabilities, a string of tokens `(n,)`, and its ln p."""
        seed, temperature = vector(seed, "seed"), vector(temperature, "temperature")
        same = tf.reduce_all(tf.stack([tf.size(seed), tf.size(temperature)]) == tf.size(text))
        sizes = ["found sources, seeds and temperatures:", *map(tf.size, (text, seed, temperature))]
        positive = ["found the temperatures", temperature, "expected positive numbers"]
        checks = [
            tf.debugging.Assert(same, [*sizes, "expected as many of each"]),
            tf.debugging.Assert(tf.reduce_all((temperature > 0) & tf.math.is_finite(temperature)), positive),
        ]
        with tf.control_dependencies(checks):
            summaries, lengths, text_of = self._encoded(tf.identity(text))
        most = tf.gather(generating.limits(lengths), text_of)
        summaries = tf.nest.map_structure(lambda one: tf.gather(one, text_of), summaries)
        ids, log_probs = generating.sample(self._decoder, summaries, most, seed, temperature)
        return {self._generated_side: self._predicted.decode(ids), "log_prob": log_probs}

    def regress(self, inputs):
        """ln p of each serialized tf.Example of a source and a target."""
        one = tf.io.FixedLenFeature([], tf.string)
        pairs = tf.io.parse_example(inputs, {"source": one, "target": one})
        return {"outputs": self.score(pairs["source"], pairs["target"])["log_prob"]}

    def tokenize(self, text):
        """The tokens of raw text, separated by spaces."""
        return {"tokens": self._text(text, "text")}

    def _encoded(self, text):
        """Of the distinct phrases the summaries and lengths, and which of them each phrase is."""
        name = "target" if self._reverse else "source"
        text, text_of = tf.unique(self._text(text, name))
        ids, lengths = self._read(text, name)
        return self._encode(ids, lengths), lengths, text_of

    def _encode(self, ids, lengths):
        if self._is_packed:
            return packed.encode(self._model.encoder, self._matrices, ids, lengths)
        return stepped.encode(self._model, ids, lengths)

    def _generated(self, text, num_beams):
        summaries, lengths, text_of = self._encoded(text)
        most = generating.limits(lengths)
        ids, log_probs = generating.beam_search(self._decoder, summaries, most, num_beams)
        # JSON has no infinity.
        found = {self._generated_side: self._predicted.decode(ids), "log_prob": tf.maximum(log_probs, tf.float32.min)}
        return {name: tf.gather(values, text_of) for name, values in found.items()}

    def _text(self, text, name):
        text = checked(text, name, self._max_tokens)
        return text if self._tokenizer is None else self._tokenizer(text)

    def _signatures(self):
        def traced(function, *names, **others):
            # By name: a function of several arguments may not be told from its signature otherwise.
            specs = [tf.TensorSpec([None], tf.string, name) for name in names]
            specs += [tf.TensorSpec([None], dtype, name) for name, dtype in others.items()]
            return tf.function(function, input_signature=specs, autograph=False).get_concrete_function()

        read = "target" if self._reverse else "source"
        score = traced(self.score, "source", "target")
        signatures = {
            "serving_default": score,
            "score": score,
            "score_tokens": traced(self.score_tokens, "source", "target"),
            "encode": traced(self.encode, read),
            "generate": traced(self.generate, read),
            "generate_greedy": traced(self.generate_greedy, read),
            "sample": traced(self.sample, read, seed=tf.int64, temperature=tf.float32),
            "regress": traced(self.regress, "inputs"),
        }
        if self._tokenizer:
            signatures["tokenize"] = traced(self.tokenize, "text")
        return signatures
