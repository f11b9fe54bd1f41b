"""Aligns the words of parallel sentences with SIL Thot."""

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from keras_encdec.configuration import check_choice
from keras_encdec.errors import InputError
from keras_encdec.formats.alignments import Links
from keras_encdec.formats.fields import text_in_place_of_words
from keras_encdec.runtime.imports import check_extra

if TYPE_CHECKING:
    from thot.alignment import AlignmentModel, EflomalAlignmentModel

# The models of each aligner and their rounds of training (iterations of EM); 0 means that the model chooses the number.
# Each model is initialized from the one before it. fast_align has its own default number of rounds, and the others
# those of GIZA++ in Moses.
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
# For each way of combining two directions, the name of the method of Thot's matrices.
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

Words = Sequence[str]


def align(
    source_sentences: Sequence[Words],
    target_sentences: Sequence[Words],
    aligner: str = DEFAULT_ALIGNER,
    symmetrization: str = DEFAULT_SYMMETRIZATION,
    round_done: Callable[[], None] = lambda: None,
) -> list[Links]:
    """Aligns words in both directions and symmetrizes.

    The models are trained once from source to target and once from target to source. The links of both directions are
    combined by grow-diag-final-and (Koehn et al., IWSLT 2005) or by another symmetrization. "fast_align" is IBM model 2
    with reparameterized positions (Dyer, Chahuneau and Smith, "A Simple, Fast, and Effective Reparameterization of IBM
    Model 2", NAACL 2013). Training runs in one thread, so that the same sentences always give the same alignments:
    several threads would add counts in a varying order, and rounding could change links.

    Args:
        source_sentences: list of lists of str. The words of each source sentence.
        target_sentences: list of lists of str, of the same length. The words of each translation.
        aligner: str. One of `ALIGNERS`. Defaults to "fast_align".
        symmetrization: str. One of `SYMMETRIZATIONS`. Defaults to "grow_diag_final_and".
        round_done: see `train_aligner`. It is called for both directions.

    Returns:
        list with an entry for each sentence pair: the sorted list of `(source_index, target_index)`, from 0.

    Raises:
        ConfigurationError: a ValueError, for an unknown aligner or symmetrization.
        ImportError: if sil-thot is not installed.
        InputError: if the two sides differ in length or a sentence has no words.
        ValueError: for a text in place of a list of words.
    """
    check_aligner(aligner, symmetrization)
    _check(source_sentences, target_sentences)
    pairs = list(zip(source_sentences, target_sentences, strict=True))
    swapped = [(target, source) for source, target in pairs]
    directions = [directional_links(train_aligner(aligner, side, round_done), side) for side in (pairs, swapped)]
    return [symmetrize(direct, inverse, symmetrization) for direct, inverse in zip(*directions, strict=True)]


def number_of_rounds(aligner: str = DEFAULT_ALIGNER) -> int:
    """Returns how many rounds train an aligner in both directions; 0 if a model chooses their number itself."""
    rounds = [rounds for _, rounds in ALIGNERS[aligner]]
    return 2 * sum(rounds) if all(rounds) else 0


def train_aligner(
    aligner: str, pairs: Iterable[tuple[Words, Words]], round_done: Callable[[], None] = lambda: None
) -> "AlignmentModel":
    """Trains the models of an aligner in one direction, in one thread.

    All pairs are held in memory, as numbers of words.

    Args:
        aligner: str. One of `ALIGNERS`.
        pairs: iterable of `(words, words of the translation)`, read once.
        round_done: callable without arguments, called after each round of training. Defaults to one that does nothing.

    Returns:
        the last model, for `directional_links`.
    """
    import thot.alignment

    (first, _), *_ = ALIGNERS[aligner]
    with _one_thread(thot.__file__):
        model: AlignmentModel = getattr(thot.alignment, first)()
        for words, translation in pairs:
            model.add_sentence_pair(_thot_words(words), _thot_words(translation))
        for number, (name, rounds) in enumerate(ALIGNERS[aligner]):
            if number:
                model = getattr(thot.alignment, name)(model)
            model.start_training()
            for _ in range(rounds or cast("EflomalAlignmentModel", model).scheduled_iterations):
                model.train()
                round_done()
            model.end_training()
    return model


def directional_links(model: "AlignmentModel", pairs: Iterable[tuple[Words, Words]]) -> Iterator[list[int]]:
    """Yields the links of each pair in the direction of a trained model.

    Args:
        model: the model that `train_aligner` returns.
        pairs: iterable of `(words, words of the translation)`, as in training.

    Yields:
        list of int: for each word of the translation, the position, from 1, of the word that it is linked to; 0 for a
        word without a link.
    """
    import thot

    remaining = iter(pairs)
    while batch := list(itertools.islice(remaining, _ALIGNED_AT_ONCE)):
        with _one_thread(thot.__file__):
            sides = [_thot_words(source) for source, _ in batch], [_thot_words(target) for _, target in batch]
            best = model.get_best_alignments(*sides)
        for _, matrix in best:
            yield matrix.to_list()


def _thot_words(words: Words) -> list[str]:
    """Maps distinct words to distinct names that Thot accepts; it only compares them.

    NULL, by which Thot means the empty word, gets a space, which no word of a text contains. Characters outside ASCII
    are replaced, even lone surrogates, which stand for undecodable bytes.
    """
    return ["NULL " if word == "NULL" else word.encode("utf-8", "surrogatepass").decode("latin-1") for word in words]


def symmetrize(direct: Sequence[int], inverse: Sequence[int], symmetrization: str = DEFAULT_SYMMETRIZATION) -> Links:
    """Combines the links of two directions.

    Args:
        direct: for each target word, the position of its source word, from 1; 0 for a word without a link.
        inverse: for each source word, the position of its target word, from 1; 0 for a word without a link.
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
    """Checks the options of `align` and that sil-thot is installed, before any sentences are read.

    Raises:
        ConfigurationError: a ValueError, for an unknown aligner or symmetrization.
        ImportError: if sil-thot is not installed.
    """
    check_choice("aligner", aligner, ALIGNERS)
    check_choice("symmetrization", symmetrization, SYMMETRIZATIONS)
    check_extra("smt", "Word alignment by sil-thot", "thot")


def longest_sentence(aligner: str = DEFAULT_ALIGNER) -> int:
    """Returns the maximum number of words in a sentence for an aligner; longer sentences get no links.

    Raises:
        ImportError: if sil-thot is not installed.
    """
    check_aligner(aligner)
    import thot.alignment

    lengths: list[int] = [getattr(thot.alignment, name)().max_sentence_length for name, _ in ALIGNERS[aligner]]
    return min(lengths)


@contextlib.contextmanager
def _one_thread(extension: str) -> Generator[None]:
    """Runs the OpenMP runtime of an extension module in one thread."""
    # OMP_NUM_THREADS is only read when the runtime is loaded, which may have happened before. The handle of the
    # extension module finds the functions of its runtime under any file name.
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
        found = f"found {len(source_sentences)} source and {len(target_sentences)} target sentences"
        raise InputError(found, "expected equal numbers of both", "give the translation of each source sentence")
    for number, pair in enumerate(zip(source_sentences, target_sentences, strict=True), 1):
        for words in pair:
            if isinstance(words, str):
                raise text_in_place_of_words(words)
        if not all(pair):
            expected, remedy = "expected words on both sides", "remove such pairs before aligning"
            raise InputError(f"found no words on one side of sentence pair {number}", expected, remedy)
