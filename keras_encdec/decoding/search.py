"""Rows of target sequences that grow word by word, on the device that computes."""

import keras
import numpy as np
from keras import ops

from keras_encdec.scoring.compiled import compiled_call


class SearchFunctions:
    """An ensemble's start and step, compiled, with what a sampler takes from each step.

    Args:
        ensemble: Ensemble.
        choose: callable from log p of the next word `(rows, vocabulary)`, and any arrays that `Search.step`
            is given, to a list of tensors: as little as a search needs, for it leaves the device.
    """

    def __init__(self, ensemble, choose):
        self.start = compiled_call(_Start(ensemble))
        self._step = _Step(ensemble, choose)
        self._compiled_step = compiled_call(self._step)

    def step(self, previous, arguments, states, memory):
        self._step.arguments, self._step.structure = len(arguments), (states, memory)
        return self._compiled_step(previous, *arguments, *keras.tree.flatten((states, memory)))


class Search:
    """The target sequences of a batch of sources, some for each, that are decoded together.

    Args:
        functions: SearchFunctions.
        source: int32 array `(batch, time)`, padded ids.
        copies: int. Target sequences for each source.
    """

    def __init__(self, functions, source, copies=1):
        self._functions = functions
        self._states, self._memory = functions.start(source)
        if copies > 1:
            self.keep(np.repeat(np.arange(len(source)), copies))

    def step(self, previous, *arguments):
        """Adds a word to every row.

        Args:
            previous: int32 array `(rows,)`, the words that were added last; 0 at the beginning.
            *arguments: arrays `(rows, ...)` for the sampler's `choose`.

        Returns:
            list of arrays, what `choose` took.
        """
        chosen, self._states = self._functions.step(previous, arguments, self._states, self._memory)
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
    def __init__(self, ensemble, choose):
        super().__init__(name="step", dtype="float32")
        self.ensemble, self.choose = ensemble, choose
        self.arguments, self.structure = 0, None
        self.built = True

    def call(self, previous, *arrays):
        states, memory = keras.tree.pack_sequence_as(self.structure, list(arrays[self.arguments :]))
        log_probs, states = self.ensemble.step(previous, states, memory)
        return self.choose(log_probs, *arrays[: self.arguments]), states


def _taken(tensors, rows):
    return keras.tree.map_structure(lambda tensor: ops.take(tensor, rows, axis=0), tensors)
