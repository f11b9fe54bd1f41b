"""Word alignment of parallel sentences, by SIL Thot."""

import contextlib
import ctypes
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError

# Each aligner's models, the next initialized from the one before, with their rounds of training; 0: as many as the
# model itself plans. fast_align's own default, and for the others those of Moses's GIZA++.
ALIGNERS = {
    "fast_align": (("FastAlignModel", 5),),
    "hmm": (("Ibm1AlignmentModel", 5), ("HmmAlignmentModel", 5)),
    "ibm4": (
        ("Ibm1AlignmentModel", 5),
        ("HmmAlignmentModel", 5),
        ("Ibm3AlignmentModel", 3),
        ("Ibm4AlignmentModel", 3),
    ),
    "eflomal": (("EflomalAlignmentModel", 0),),
}
# Each way of joining two directions, and what Thot's matrices call it.
SYMMETRIZATIONS = {
    "grow_diag_final_and": "grow_diag_final_and",
    "grow_diag_final": "grow_diag_final",
    "grow_diag": "grow_diag",
    "grow": "grow",
    "och": "och_symmetrize",
    "intersection": "intersect",
    "union": "union",
}
DEFAULT_ALIGNER, DEFAULT_SYMMETRIZATION = "fast_align", "grow_diag_final_and"
_ALIGNED_AT_ONCE = 1000

Item = TypeVar("Item")
Words = Sequence[str]
Points = list[tuple[int, int]]


def align(
    source_sentences: Sequence[Words],
    target_sentences: Sequence[Words],
    aligner: str = DEFAULT_ALIGNER,
    symmetrization: str = DEFAULT_SYMMETRIZATION,
) -> list[Points]:
    """Aligns words in both directions and symmetrizes.

    The models are trained once from source to target and once from target to source; the two are joined by
    grow-diag-final-and (Koehn et al., IWSLT 2005) or otherwise. "fast_align" is IBM model 2 with its positions
    reparameterized (Dyer, Chahuneau and Smith, "A Simple, Fast, and Effective Reparameterization of IBM Model 2",
    NAACL 2013). The same sentences give the same alignments, as it runs in one thread: several add their counts in an
    order that changes, and so do close calls.

    Args:
        source_sentences: list of lists of str. The words of each source sentence.
        target_sentences: list of lists of str, as long. The words of each translation.
        aligner: str. One of `ALIGNERS`. Defaults to "fast_align".
        symmetrization: str. One of `SYMMETRIZATIONS`. Defaults to "grow_diag_final_and".

    Returns:
        list, one entry a sentence pair: the sorted list of `(source_index, target_index)`, from 0.

    Raises:
        ConfigurationError: a ValueError, for an unknown aligner or symmetrization.
        ImportError: when sil-thot is not installed.
        InputError: when the two sides differ in length or a sentence has no words.
    """
    check_aligner(aligner, symmetrization)
    _check(source_sentences, target_sentences)
    pairs = list(zip(source_sentences, target_sentences, strict=True))
    turned = [(target, source) for source, target in pairs]
    directions = [directional_links(train_aligner(aligner, side), side) for side in (pairs, turned)]
    return [symmetrize(direct, inverse, symmetrization) for direct, inverse in zip(*directions, strict=True)]


def train_aligner(
    aligner: str, pairs: Iterable[tuple[Words, Words]], round_done: Callable[[], None] = lambda: None
) -> Any:
    """Trains an aligner's models in one direction, in one thread. It holds the words' numbers in memory.

    Args:
        aligner: str. One of `ALIGNERS`.
        pairs: iterable of `(words, words of the translation)`, read once.
        round_done: callable without arguments, called after each round of training. Defaults to nothing.

    Returns:
        the last model, for `directional_links`.
    """
    import thot.alignment

    model = None
    with _one_thread(thot.__file__):
        for name, rounds in ALIGNERS[aligner]:
            model_class = getattr(thot.alignment, name)
            if model is None:
                model = model_class()
                for words, translation in pairs:
                    model.add_sentence_pair(words, translation)
            else:
                model = model_class(model)
            model.start_training()
            for _ in range(rounds or model.scheduled_iterations):
                model.train()
                round_done()
            model.end_training()
    return model


def directional_links(model: Any, pairs: Iterable[tuple[Words, Words]]) -> Iterable[list[int]]:
    """The links of a trained model's one direction.

    Args:
        model: of `train_aligner`.
        pairs: iterable of `(words, words of the translation)`, as in training.

    Yields:
        list of int for each pair: for each word of the translation the position, from 1, of the word that it is linked
        to; 0 for none.
    """
    import thot

    for batch in _batches(pairs, _ALIGNED_AT_ONCE):
        with _one_thread(thot.__file__):
            sides = [source for source, _ in batch], [target for _, target in batch]
            best = model.get_best_alignments(*sides)
        for _, matrix in best:
            yield matrix.to_list()


def symmetrize(direct: Sequence[int], inverse: Sequence[int], symmetrization: str = DEFAULT_SYMMETRIZATION) -> Points:
    """Joins the links of two directions.

    Args:
        direct: for each target word the position of its source word, from 1; 0 for none.
        inverse: for each source word the position of its target word, from 1; 0 for none.
        symmetrization: str. One of `SYMMETRIZATIONS`. Defaults to "grow_diag_final_and".

    Returns:
        sorted list of `(source_index, target_index)`, from 0.
    """
    from thot.common import WordAlignmentMatrix

    matrix = WordAlignmentMatrix(len(inverse), len(direct))
    matrix.put_list(list(direct))
    other = WordAlignmentMatrix(len(direct), len(inverse))
    other.put_list(list(inverse))
    other.transpose()
    getattr(matrix, SYMMETRIZATIONS[symmetrization])(other)
    return list(zip(*(positions.tolist() for positions in matrix.to_numpy().nonzero()), strict=True))


def check_aligner(aligner: str = DEFAULT_ALIGNER, symmetrization: str = DEFAULT_SYMMETRIZATION) -> None:
    """Checks that there is what `align` needs, before anything is read for it.

    Raises:
        ConfigurationError: a ValueError, for an unknown aligner or symmetrization.
        ImportError: when sil-thot is not installed.
    """
    if aligner not in ALIGNERS:
        raise ConfigurationError("found {aligner}=%r, expected one of %s", aligner, ", ".join(ALIGNERS))
    if symmetrization not in SYMMETRIZATIONS:
        expected = ", ".join(SYMMETRIZATIONS)
        raise ConfigurationError("found {symmetrization}=%r, expected one of %s", symmetrization, expected)
    try:
        import thot  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'Word alignment needs sil-thot, which is not installed: pip install "keras-encdec[smt]".'
        ) from error


def longest_sentence(aligner: str) -> int:
    """Words of the longest sentence that an aligner takes; it gives longer ones no links.

    Raises:
        ImportError: when sil-thot is not installed.
    """
    check_aligner(aligner)
    import thot.alignment

    lengths: list[int] = [getattr(thot.alignment, name)().max_sentence_length for name, _ in ALIGNERS[aligner]]
    return min(lengths)


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


@contextlib.contextmanager
def _one_thread(extension: str) -> Generator[None]:
    """Runs the OpenMP runtime of an extension module in one thread."""
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


def _check(source_sentences: Sequence[Words], target_sentences: Sequence[Words]) -> None:
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
