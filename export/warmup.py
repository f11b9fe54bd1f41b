"""Requests that a server runs when it loads a version, so that the first user does not wait."""

import itertools
import os
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_encdec.text import Vocabulary

# Tokens in a phrase and pairs in a request.
LENGTHS, BATCHES = (1, 3, 7, 20), (1, 32)


def write_warmup(
    path: str | os.PathLike, signatures: dict[str, Any], vocabularies: dict[str, Vocabulary], max_tokens: int,
    model_name: str,
) -> None:  # fmt: skip
    """Writes a valid record for each signature, of several lengths and batch sizes.

    Args:
        path: of the file.
        signatures: dict of name to concrete function of string tensors.
        vocabularies: dict of input name to Vocabulary, whose most frequent words the phrases are made of.
        max_tokens: int. No phrase is longer.
        model_name: str.
    """
    with tf.io.TFRecordWriter(str(path)) as writer:
        for (name, function), length, batch in itertools.product(signatures.items(), LENGTHS, BATCHES):
            phrases = {
                side: _phrases(vocabulary, min(length, max_tokens), batch)
                for side, vocabulary in vocabularies.items()
            }
            log = prediction_log_pb2.PredictionLog()
            if name == "regress":
                request = log.regress_log.request
                for pair in zip(*phrases.values(), strict=True):
                    example = request.input.example_list.examples.add()
                    for side, phrase in zip(phrases, pair, strict=True):
                        example.features.feature[side].bytes_list.value.append(phrase)
            else:
                request = log.predict_log.request
                for spec in function.structured_input_signature[0]:
                    texts = spec.dtype == tf.string
                    values = phrases.get(spec.name, phrases["source"]) if texts else [1] * batch
                    request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(values, spec.dtype))
            request.model_spec.name, request.model_spec.signature_name = model_name, name
            writer.write(log.SerializeToString())


def _phrases(vocabulary, length, batch):
    """Phrases of words that follow one another in the vocabulary, each beginning elsewhere."""
    words = itertools.cycle(word.encode("utf-8", "replace") for word in vocabulary.words[:1000])
    return [b" ".join(itertools.islice(words, length)) for _ in range(batch)]
