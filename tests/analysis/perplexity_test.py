import math

import numpy as np

from keras_encdec.analysis import perplexity
from keras_encdec.models import RNNEncoderDecoder, from_symbols, to_symbols

rng = np.random.default_rng(0)
BATCHES = [
    {"source": np.array([[4, 5, 2], [3, 2, 0]], "int32"), "target": np.array([[3, 2, 0], [5, 4, 2]], "int32")},
    {"source": np.array([[6, 2]], "int32"), "target": np.array([[2]], "int32")},
]


def stirred():
    model = RNNEncoderDecoder(5, 5, embedding_dim=3, units=6, maxout_units=4, output_rank=3)
    return from_symbols(model, {name: rng.normal(0, 0.5, array.shape) for name, array in to_symbols(model).items()})


def test_perplexity_is_exp_of_minus_the_mean_over_tokens_of_all_batches():
    model = stirred()
    total = sum(float(np.sum(np.asarray(model.score(**batch)))) for batch in BATCHES)
    assert math.isclose(perplexity(model, BATCHES), math.exp(-total / 6), rel_tol=1e-5)


def test_without_the_source_every_source_is_the_same():
    model = stirred()
    other = [{**batch, "source": np.full_like(batch["source"], 2)} for batch in BATCHES]
    assert perplexity(model, BATCHES) != perplexity(model, other)
    assert perplexity(model, BATCHES, with_source=False) == perplexity(model, other, with_source=False)
