"""Cross-entropies of sentences by an n-gram model."""

import math
import os
from collections.abc import Sequence

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.formats.tokens import split_tokens


class NgramEntropies:
    """Cross-entropies of one side by an n-gram model that KenLM reads: -ln p / tokens, the end of sequence counted.

    Tokens are what spaces and tabs separate, as in the text that the model was estimated from.

    Args:
        path: ARPA file, or a binary file of KenLM.
        side: str. "source" or "target".

    Raises:
        ImportError: when kenlm is not installed.
        InputError: for a file that KenLM cannot read.

    Reference:
        - Heafield, 2011, "KenLM: Faster and Smaller Language Model Queries" (WMT, W11-2123)
    """

    def __init__(self, path: str | os.PathLike[str], side: str) -> None:
        try:
            import kenlm
        except ImportError as error:
            raise ImportError(
                'N-gram models need kenlm, which is not installed: pip install "keras-encdec[ngram]".'
            ) from error
        self._kenlm = kenlm
        self._side = ("source", "target").index(side)
        try:
            self._model = kenlm.Model(os.fspath(path))
        except OSError as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"found that KenLM cannot read it ({reason})", "expected an ARPA file or a binary file of KenLM",
                "make one with lmplz", path,
            ) from None  # fmt: skip

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Cross-entropies of pairs of source and target text: float array `(pairs,)`."""
        sentences = [pair[self._side] for pair in pairs]
        log_probs = [self._log10(sentence) for sentence in sentences]
        lengths = [len(split_tokens(sentence)) for sentence in sentences]
        return np.array(log_probs) * -math.log(10) / (np.array(lengths) + 1)

    def _log10(self, sentence: str) -> float:
        tokens = split_tokens(sentence)
        # KenLM itself also splits at the rest of ASCII's white space, so it is not given such a sentence whole.
        if len(sentence.encode("utf-8", "surrogateescape").split()) == len(tokens):
            return self._model.score(sentence, bos=True, eos=True)
        state, following, total = self._kenlm.State(), self._kenlm.State(), 0.0
        self._model.BeginSentenceWrite(state)
        for token in (*tokens, "</s>"):
            total += self._model.BaseScore(state, token, following)
            state, following = following, state
        return total

    def close(self) -> None:
        """Nothing is left to be computed."""
