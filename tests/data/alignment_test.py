import ctypes
import random
import subprocess
import sys

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data.alignment import ALIGNERS, SYMMETRIZATIONS, _one_thread, align, symmetrize, train_aligner
from keras_encdec.errors import InputError

LEXICON = {"the": "la", "a": "une", "blue": "bleue", "house": "maison", "flower": "fleur", "red": "rouge"}


def toy_corpus():
    """English and French noun phrases, the adjective after the noun in French."""
    sources, targets = [], []
    for determiner in ("the", "a"):
        for noun in ("house", "flower"):
            sources.append([determiner, noun])
            targets.append([LEXICON[determiner], LEXICON[noun]])
            for adjective in ("blue", "red"):
                sources.append([determiner, adjective, noun])
                targets.append([LEXICON[determiner], LEXICON[noun], LEXICON[adjective]])
    return sources * 5, targets * 5


def test_toy_corpus():
    pytest.importorskip("thot", reason="sil-thot is not installed")
    sources, targets = toy_corpus()
    alignments = align(sources, targets)
    assert len(alignments) == len(sources)
    for source, target, points in zip(sources, targets, alignments, strict=True):
        assert points == sorted(points)
        assert {(source[s], target[t]) for s, t in points} == {(word, LEXICON[word]) for word in source}


def test_sentences_of_different_lengths_give_source_target_points():
    pytest.importorskip("thot", reason="sil-thot is not installed")
    sources = [["house"], ["the", "house"], ["a", "house"]] * 5
    targets = [["maison"], ["la", "maison"], ["une", "maison"]] * 5
    assert align(sources, targets)[:2] == [[(0, 0)], [(0, 0), (1, 1)]]


def test_the_same_sentences_give_the_same_alignments():
    thot = pytest.importorskip("thot", reason="sil-thot is not installed")
    assert align(*toy_corpus()) == align(*toy_corpus())
    runtime = ctypes.CDLL(thot.__file__)
    if not hasattr(runtime, "omp_get_max_threads"):
        pytest.skip("this sil-thot is built without OpenMP")
    before = runtime.omp_get_max_threads()
    with _one_thread(thot.__file__):
        assert runtime.omp_get_max_threads() == 1
    assert runtime.omp_get_max_threads() == before


def test_sides_of_different_lengths_are_refused():
    pytest.importorskip("thot", reason="sil-thot is not installed")
    with pytest.raises(InputError, match="2 source and 1 target"):
        align([["a"], ["b"]], [["x"]])
    with pytest.raises(InputError, match="pair 2"):
        align([["a"], []], [["x"], ["y"]])


def test_a_missing_library_is_reported():
    code = (
        "import sys; sys.modules['thot'] = None\n"
        "from keras_encdec.data.alignment import align\n"
        "try:\n    align([['a']], [['b']])\n"
        "except ImportError as error:\n    print(error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "keras-encdec[smt]"' in output


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_each_aligner_aligns_a_toy_corpus(aligner):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    sources, targets = toy_corpus()
    for source, target, points in list(zip(sources, targets, align(sources, targets, aligner), strict=True))[:12]:
        right = sum(LEXICON[source[s]] == target[t] for s, t in points)
        assert right >= len(source) - 1 and right >= len(points) - 1, (source, target, points)


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_null_and_undecodable_words_are_words_like_any_other(aligner):
    """Thot's empty word is called NULL, and Thot takes no lone surrogate, which stands for an undecodable byte."""
    pytest.importorskip("thot", reason="sil-thot is not installed")

    rng = random.Random(1)

    def aligned(word):
        words = {"a": word, "A": word}
        return align(*[[[words.get(each, each) for each in sentence] for sentence in side] for side in sides], aligner)

    sources = [rng.choices("abcdef", k=rng.randint(2, 6)) for _ in range(60)]
    sides = sources, [[word.upper() for word in rng.sample(source, len(source) - 1)] for source in sources]
    assert aligned("NULL") == aligned("caf\udce9") == aligned("other")


@pytest.mark.parametrize("symmetrization", SYMMETRIZATIONS)
def test_directions_are_combined_as_by_thot(symmetrization):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    from thot.alignment import SymmetrizationHeuristic, SymmetrizedAligner

    sources, targets = toy_corpus()
    pairs = list(zip(sources, targets, strict=True))[:12]
    pairs = [(source, target) if i % 3 else (source[::-1], target + ["la"]) for i, (source, target) in enumerate(pairs)]
    sources, targets = map(list, zip(*pairs, strict=True))
    models = train_aligner("fast_align", pairs), train_aligner("fast_align", [pair[::-1] for pair in pairs])
    both = SymmetrizedAligner(*models)
    both.heuristic = SymmetrizationHeuristic.__members__[symmetrization.upper()]
    expected = [
        list(zip(*matrix.to_numpy().nonzero(), strict=True)) for _, matrix in both.get_best_alignments(sources, targets)
    ]
    assert align(sources, targets, symmetrization=symmetrization) == expected


@pytest.mark.parametrize("symmetrization", ["grow_diag", "grow_diag_final", "grow_diag_final_and"])
def test_grow_diag_gives_the_links_of_atools(symmetrization):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    rng = random.Random(1)
    for _ in range(200):
        near = [[max(0, i + 1 + rng.choice([0, 0, 1, -1])) for i in range(rng.randint(1, 7))] for _ in range(2)]
        direct, inverse = ([min(i, len(other)) for i in side] for side, other in (near, near[::-1]))
        assert symmetrize(direct, inverse, symmetrization) == atools(direct, inverse, symmetrization)


def atools(direct, inverse, command):
    """The algorithm of fast_align's atools, which visits the links of the union in the order of their positions."""
    sides = [(i - 1, j) for j, i in enumerate(direct) if i], [(i, j - 1) for i, j in enumerate(inverse) if j]
    links = set(sides[0]) & set(sides[1])

    def free(link):
        return [all(link[side] != other[side] for other in links) for side in (0, 1)]

    growing = True
    while growing:
        growing = False
        for i, j in sorted({*sides[0], *sides[1]}):
            if any(free((i, j))) and any(max(abs(i - k), abs(j - m)) == 1 for k, m in links):
                links.add((i, j))
                growing = True
    for link in [*sorted(sides[0]), *sorted(sides[1])] if "final" in command else []:
        if all(free(link)) if command.endswith("and") else any(free(link)):
            links.add(link)
    return sorted(links)


def test_unknown_aligners_are_refused():
    with pytest.raises(
        ConfigurationError, match="found aligner='giza', expected one of fast_align, hmm, ibm4, eflomal"
    ):
        align([["a"]], [["b"]], "giza")
    with pytest.raises(ConfigurationError, match="found symmetrization='both', expected one of grow_diag_final_and, "):
        align([["a"]], [["b"]], symmetrization="both")


def test_a_text_is_not_a_list_of_words():
    with pytest.raises(ValueError, match="found the text 'the cat', expected a list of words"):
        align([["le", "chat"]], ["the cat"])
