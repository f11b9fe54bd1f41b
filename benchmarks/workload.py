"""What is measured: the pairs, the sizes, and the arithmetic that they need."""

import itertools
import json
import sys
import time

from keras_encdec.data import open_pairs
from keras_encdec.text import Vocabulary

SHORTLIST = 15_000
SIZES = {
    "cho2014": {"embedding_dim": 100, "units": 1000, "maxout_units": 500, "output_rank": 100},
    "small": {"embedding_dim": 100, "units": 256, "maxout_units": 128, "output_rank": 100},
}


def read_ids(table, count):
    """The first pairs of a table as ids: list of `(source ids, target ids)`.

    The words are numbered as they come, and the vocabularies taken to be full, so that every table
    costs the same.
    """
    with open_pairs(phrase_table=table) as (pairs, _):
        pairs = list(itertools.islice(pairs, count))
    sides = [dict.fromkeys(word for pair in pairs for word in pair[side]) for side in (0, 1)]
    source, target = (Vocabulary(itertools.islice(side, SHORTLIST)) for side in sides)
    return [(source.encode(s), target.encode(t)) for s, t in pairs]


def multiplications(sizes, source_states, target_states, sources):
    """Floating-point operations of a forward pass: two for each weight that a state is multiplied by."""
    e, h, m, r = (sizes[name] for name in ("embedding_dim", "units", "maxout_units", "output_rank"))
    encoder = 3 * (e + h) * h
    once = h * h + h * h + 3 * h * h + 2 * m * h
    decoder = 3 * (e + h) * h + 2 * m * (h + e) + m * r + r * (SHORTLIST + 3)
    return 2 * (source_states * encoder + sources * once + target_states * decoder)


def shared_states(pairs):
    """Distinct states of the encoder and the decoder, and distinct sources, among some pairs."""
    sources = {tuple(source) for source, _ in pairs}
    encoder = {source[:i] for source in sources for i in range(1, len(source) + 1)}
    decoder = {(tuple(s), tuple(t[:i])) for s, t in pairs for i in range(len(t))}
    return len(encoder), len(decoder), len(sources)


def seconds_of(function, least=1, until=0.0):
    """Seconds a call, the function called at least so often and so long, after one call to warm up."""
    function()
    start, calls = time.perf_counter(), 0
    while calls < least or time.perf_counter() - start < until:
        function()
        calls += 1
    return (time.perf_counter() - start) / calls


def report(**figures):
    """Hands figures to the process that asked for them: one line of JSON."""
    json.dump(figures, sys.stdout)
    print(flush=True)
