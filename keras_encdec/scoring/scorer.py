"""Log-probabilities of many pairs."""

import numpy as np
from keras import ops

from keras_encdec.scoring.compiled import compiled_call
from keras_encdec.scoring.prefixes import Prefixes
from keras_encdec.scoring.steps import DecoderStep, EncoderStep, Summary

# States computed together: as many of the first as there are, and the rest in the second, so that few
# shapes are compiled and little is computed for nothing.
BATCHES = 1024, 128
# Pairs decoded together, which bounds the memory that their states take.
GROUP = 8192


class Scorer:
    """Scores pairs as `RNNEncoderDecoder.score` does, every state computed once.

    Among the pairs it is given together, sources share the encoder's states of the prefixes they have
    in common, and the targets of a source the decoder's; what depends on the source alone is computed
    once a source. No padding is computed. A score does not depend on what it is scored with.

    Args:
        model: RNNEncoderDecoder.
    """

    def __init__(self, model):
        self.model = model
        self._encode = compiled_call(EncoderStep(model.encoder))
        self._summarize = compiled_call(Summary(model.encoder, model.decoder))
        self._decode = compiled_call(DecoderStep(model.decoder))
        readout = model.decoder.readout
        self._output = np.ascontiguousarray(_numpy(readout.left_factor).T)
        self._output_bias = _numpy(readout.output_bias)

    def score(self, pairs):
        """log p(y | x) of each pair, end of sequence included, no length normalization.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.

        Returns:
            float64 array `(n,)`, nats.
        """
        return self._scored(pairs)[0].sum(axis=1)

    def token_scores(self, pairs):
        """log p(y_t | y_<t, x) of each target token of each pair, the end of sequence last.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.

        Returns:
            list of n float64 arrays, each as long as its target, nats.
        """
        log_probs, lengths = self._scored(pairs)
        return [row[:length] for row, length in zip(log_probs, lengths, strict=True)]

    def _scored(self, pairs):
        """Token log-probabilities `(n, longest)`, 0 after the end, and the targets' lengths."""
        sources, places = {}, np.empty(len(pairs), np.int64)
        for i, (source, _) in enumerate(pairs):
            places[i] = sources.setdefault(tuple(source), len(sources))
        encoded = self._last_states(*_padded(list(sources)))
        targets, lengths = _padded([target for _, target in pairs])
        log_probs = np.zeros(targets.shape, np.float64)
        # By source, so that those of one source are in one group.
        order = np.argsort(places, kind="stable")
        for start in range(0, len(order), GROUP):
            group = order[start : start + GROUP]
            distinct, inside = np.unique(places[group], return_inverse=True)
            states = encoded[distinct]
            summaries = self._batched(self._summarize, len(distinct), lambda some, h=states: (h[some],))
            self._decode_group(summaries, inside, targets, lengths, group, log_probs)
        return log_probs, lengths

    def _last_states(self, rows, lengths):
        """The encoder's state after the last id of each row, float32 `(n, units)`."""
        last = np.zeros((len(rows), self.model.units), np.float32)
        states = np.zeros((1, self.model.units), np.float32)
        for depth, level in enumerate(Prefixes(rows, lengths).levels):
            before, parents = states, np.zeros(len(level.ids), np.int64) if depth == 0 else level.parents
            (states,) = self._batched(
                self._encode, len(level.ids), lambda some, ids=level.ids, h=before, p=parents: (ids[some], h[p[some]])
            )
            ended = lengths[level.members] == depth + 1
            last[level.members[ended]] = states[level.places[ended]]
        return last

    def _decode_group(self, summaries, sources, targets, lengths, group, log_probs):
        """Fills in `log_probs` of the pairs `group`, whose source is `sources` of the summaries."""
        first_states, cell_context, readout_context = summaries
        # A prefix here is the source and the words before the one that is predicted.
        rows = np.concatenate([sources[:, None], targets[group, :-1]], axis=1)
        states, node_sources = first_states, None
        for depth, level in enumerate(Prefixes(rows, lengths[group]).levels):
            if depth == 0:
                previous, parents, node_sources = np.zeros_like(level.ids), level.ids, level.ids
            else:
                previous, parents = level.ids, level.parents
                node_sources = node_sources[parents]

            def inputs(some, previous=previous, states=states, parents=parents, sources=node_sources):
                return (
                    previous[some].astype(np.int32),
                    states[parents[some]],
                    cell_context[sources[some]],
                    readout_context[sources[some]],
                )

            states, reduced, total = self._batched(self._decode, len(level.ids), inputs)
            members = group[level.members]
            predicted = targets[members, depth]
            chosen = np.einsum("ij,ij->i", reduced[level.places], self._output[predicted])
            log_probs[members, depth] = chosen + self._output_bias[predicted] - total[level.places]

    @staticmethod
    def _batched(function, count, inputs):
        """Calls a compiled function on batches of fixed sizes.

        Args:
            function: of arrays to an array or a tuple of arrays, all with the batch first.
            count: int. Number of items.
            inputs: callable from a slice of the items to the tuple of their arrays.

        Returns:
            tuple of float32 arrays, `count` long.
        """
        parts, start = [], 0
        while start < count or not parts:
            size = BATCHES[0] if count - start >= BATCHES[0] else BATCHES[1]
            arrays = inputs(slice(start, min(start + size, count)))
            done = len(arrays[0])
            if done < size:
                arrays = tuple(np.pad(a, [(0, size - done)] + [(0, 0)] * (a.ndim - 1)) for a in arrays)
            outputs = function(*arrays)
            outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
            parts.append([_numpy(output)[:done] for output in outputs])
            start += size
        return tuple(np.concatenate(column) if len(parts) > 1 else column[0] for column in zip(*parts, strict=True))


def _padded(sequences):
    """Id sequences as int32 rows padded with 0, and their lengths."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    rows = np.zeros((len(sequences), int(lengths.max(initial=1))), np.int32)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = np.fromiter(
        (i for sequence in sequences for i in sequence), np.int32, int(lengths.sum())
    )
    return rows, lengths


def _numpy(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))
