"""Rows of target sequences that grow word by word, on the device that computes."""

import keras
import numpy as np
from keras import ops

from keras_encdec.scoring.compiled import compiled_call


class SearchFunctions:
    """An ensemble's start and step, compiled, with what a sampler takes from each step.

    Args:
        ensemble: Ensemble.
    """

    def __init__(self, ensemble):
        self._ensemble = ensemble
        self.start = compiled_call(_Start(ensemble))
        self._steps = {}

    def step(self, sampler, previous, arguments, states, memory):
        """Compiled once for all samplers of one `key`.

        Args:
            sampler: has `choose`, from log p of the next word `(rows, vocabulary)` and the arguments to a list of
                tensors: as little as a search needs, for it leaves the device.
            previous, states, memory: see `Ensemble.step`.
            arguments: arrays `(rows, ...)`.

        Returns:
            tuple: what `choose` took, and the new states.
        """
        if sampler.key not in self._steps:
            # Numbers where the tensors are: no tensor is kept.
            structure = keras.tree.map_structure(lambda _: 0, (states, memory))
            step = _Step(self._ensemble, sampler.choose, len(arguments), structure)
            self._steps[sampler.key] = compiled_call(step)
        return self._steps[sampler.key](previous, *arguments, *keras.tree.flatten((states, memory)))


class Search:
    """The target sequences of a batch of sources, some for each, that are decoded together.

    Args:
        functions: SearchFunctions.
        sampler: has `choose`, `key` and `rows`, the number of target sequences for each source.
        source: int32 array `(batch, time)`, padded ids.
    """

    def __init__(self, functions, sampler, source):
        self._functions, self._sampler = functions, sampler
        self._states, self._memory = functions.start(source)
        if sampler.rows > 1:
            self.keep(np.repeat(np.arange(len(source)), sampler.rows))

    def step(self, previous, *arguments):
        """Adds a word to every row.

        Args:
            previous: int32 array `(rows,)`, the words that were added last; 0 at the beginning.
            *arguments: arrays `(rows, ...)` for the sampler's `choose`.

        Returns:
            list of arrays, what `choose` took.
        """
        chosen, self._states = self._functions.step(
            self._sampler, previous, arguments, self._states, self._memory
        )
        return [ops.convert_to_numpy(one) for one in chosen]

    def reorder(self, parents):
        """Makes each row go on from the state of another, one of the same source: int array `(rows,)`."""
        self._states = _taken(self._states, parents)

    def keep(self, rows):
        """Goes on with some of the rows only, or with copies of them: int array `(new rows,)`."""
        self._states, self._memory = _taken(self._states, rows), _taken(self._memory, rows)


class _Start(keras.layers.Layer):
    def __init__(self, ensemble):
        super().__init__(name="start", dtype="float32")
        self.ensemble = ensemble
        self.built = True

    def call(self, source):
        return tuple(map(list, self.ensemble.start(source)))


class _Step(keras.layers.Layer):
    def __init__(self, ensemble, choose, arguments, structure):
        super().__init__(name="step", dtype="float32")
        self.ensemble, self.choose = ensemble, choose
        self.arguments, self.structure = arguments, structure
        self.built = True

    def call(self, previous, *arrays):
        states, memory = keras.tree.pack_sequence_as(self.structure, list(arrays[self.arguments :]))
        log_probs, states = self.ensemble.step(previous, states, memory)
        return self.choose(log_probs, *arrays[: self.arguments]), states


def _taken(tensors, rows):
    return keras.tree.map_structure(lambda tensor: ops.take(tensor, rows, axis=0), tensors)
