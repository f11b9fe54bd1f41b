"""Word alignment of parallel sentences, by SIL Thot."""

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

from keras_encdec.errors import InputError


def align(
    source_sentences: Sequence[Sequence[str]], target_sentences: Sequence[Sequence[str]], iterations: int = 5
) -> list[Any]:
    """Aligns words in both directions with fast_align's model and symmetrizes.

    The model is IBM model 2 with its positions reparameterized (Dyer, Chahuneau and Smith, "A Simple,
    Fast, and Effective Reparameterization of IBM Model 2", NAACL 2013), trained once from source to
    target and once from target to source; the two are joined by grow-diag-final-and (Koehn et al.,
    IWSLT 2005). The same sentences give the same alignments: there is nothing random in it, and it runs
    in one thread, since several add their counts in an order that changes, and so do close calls.

    Args:
        source_sentences: list of lists of str. The words of each source sentence.
        target_sentences: list of lists of str, as long. The words of each translation.
        iterations: int. Rounds of expectation maximization. Defaults to 5, fast_align's default.

    Returns:
        list, one entry a sentence pair: the sorted list of `(source_index, target_index)`, from 0.

    Raises:
        ImportError: when sil-thot is not installed.
        InputError: when the two sides differ in length or a sentence has no words.
    """
    check_aligner()
    import thot
    from thot.alignment import FastAlignModel, SymmetrizationHeuristic, SymmetrizedAligner

    _check(source_sentences, target_sentences)

    def train(sentences, translations):
        model = FastAlignModel()
        for sentence, translation in zip(sentences, translations, strict=True):
            model.add_sentence_pair(sentence, translation)
        model.start_training()
        for _ in range(iterations):
            model.train()
        model.end_training()
        return model

    with _one_thread(thot.__file__):
        aligner = SymmetrizedAligner(
            train(source_sentences, target_sentences), train(target_sentences, source_sentences)
        )
        aligner.heuristic = SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
        best = aligner.get_best_alignments(source_sentences, target_sentences)
    # A matrix has a row for each source word and a column for each target word.
    return [
        [tuple(map(int, point)) for point in zip(*matrix.to_numpy().nonzero(), strict=True)]
        for _, matrix in best
    ]


def check_aligner() -> None:
    """Checks that there is what `align` needs, before anything is read for it.

    Raises:
        ImportError: when sil-thot is not installed.
    """
    try:
        import thot  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'Word alignment needs sil-thot, which is not installed: pip install "keras-encdec[smt]".'
        ) from error


@contextlib.contextmanager
def _one_thread(extension):
    """Keeps the OpenMP runtime that an extension module is linked with to one thread."""
    # The environment variable is read only once, when the runtime is loaded, so it comes too late here;
    # the module's own handle finds the runtime whatever its file is called.
    runtime = ctypes.CDLL(extension)
    try:
        threads = runtime.omp_get_max_threads()
    except AttributeError:  # built without OpenMP
        yield
        return
    runtime.omp_set_num_threads(1)
    try:
        yield
    finally:
        runtime.omp_set_num_threads(threads)


def _check(source_sentences, target_sentences):
    if len(source_sentences) != len(target_sentences):
        raise InputError(
            f"found {len(source_sentences)} source and {len(target_sentences)} target sentences",
            "expected as many of one as of the other",
        )
    for number, pair in enumerate(zip(source_sentences, target_sentences, strict=True), 1):
        if not all(pair):
            raise InputError(
                f"found no words on one side of sentence pair {number}",
                "expected words on both",
                "leave such pairs out before aligning",
            )
